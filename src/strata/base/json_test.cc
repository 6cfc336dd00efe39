#include "strata/base/json.h"

#include <gtest/gtest.h>

#include "strata/base/error.h"

namespace strata {
namespace {

TEST(JsonTest, TypedAccess) {
  Json o = parse_json(R"({"i": 3, "f": 2.5, "b": true, "s": "x", "n": null, "whole": 4.0})", "t");
  EXPECT_EQ(get_int(o, "i", "t"), 3);
  EXPECT_EQ(get_int(o, "whole", "t"), 4);
  EXPECT_EQ(get_int_or(o, "n", 7, "t"), 7);
  EXPECT_EQ(get_double(o, "f", "t"), 2.5);
  EXPECT_EQ(get_double_or(o, "absent", 1.5, "t"), 1.5);
  EXPECT_TRUE(get_bool_or(o, "b", false, "t"));
  EXPECT_EQ(get_string(o, "s", "t"), "x");
  EXPECT_EQ(get_string_or(o, "n", "none", "t"), "none");
}

TEST(JsonTest, KeysKeepTheirOrder) {
  EXPECT_EQ(parse_json(R"({"z":1,"a":2})", "t").dump(), R"({"z":1,"a":2})");
}

TEST(JsonTest, DepthUpToTheLimitIsRead) {
  std::string deep = std::string(500, '[') + std::string(500, ']');
  EXPECT_TRUE(parse_json(deep, "t").is_array());
}

}  // namespace
}  // namespace strata
