#include "strata/pjrt/wire.h"

#include <gtest/gtest.h>

namespace strata::pjrt {
namespace {

TEST(Wire, WritesTheDocumentedBytes) {
  // Examples of protobuf.dev's page on the encoding: 150 in field 1; "testing" in field 2.
  WireWriter w;
  w.number(1, 150);
  w.bytes(2, "testing");
  EXPECT_EQ(w.text(), std::string("\x08\x96\x01\x12\x07testing", 12));
  WireWriter packed;
  packed.packed(6, {3, 270, 86942});
  EXPECT_EQ(packed.text(), std::string("\x32\x06\x03\x8e\x02\x9e\xa7\x05", 8));
}

TEST(Wire, ReadsBackWhatItWrote) {
  WireWriter inner, w;
  inner.number(3, -1);
  w.number(1, int64_t{1} << 40);
  w.message(500, inner);
  w.packed(7, {5, -2});
  w.number(7, 9);
  std::vector<int64_t> list;
  int64_t big = 0, negative = 0;
  WireReader r(w.text());
  while (r.next()) {
    if (r.field() == 1) big = r.number();
    if (r.field() == 7) r.append_to(list);
    if (r.field() != 500) continue;
    WireReader i(r.bytes());
    ASSERT_TRUE(i.next());
    negative = i.number();
  }
  EXPECT_FALSE(r.failed());
  EXPECT_EQ(big, int64_t{1} << 40);
  EXPECT_EQ(negative, -1);
  EXPECT_EQ(list, (std::vector<int64_t>{5, -2, 9}));
}

TEST(Wire, EveryTruncationEndsWithoutReadingPastTheEnd) {
  WireWriter w;
  w.bytes(2, "abcdef");
  w.number(1, 1 << 20);
  for (size_t n = 0; n <= w.text().size(); ++n) {
    std::string part = w.text().substr(0, n);
    WireReader r(part);
    while (r.next()) {
    }
    EXPECT_EQ(r.failed(), n != 0 && n != 8 && n != w.text().size()) << n;
  }
}

}  // namespace
}  // namespace strata::pjrt
