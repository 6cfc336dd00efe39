// The wire format of protocol buffers: just enough to write compile options and to read optimised
// programs. The protobuf library itself cannot be linked beside Debian's libsentencepiece, which
// carries another version of it under the same symbols (see docs/decisions).
//
// Source: protobuf.dev/programming-guides/encoding.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace strata::pjrt {

// Appends fields to a message. A field of value 0 or "" is written too.
class WireWriter {
 public:
  void number(uint32_t field, int64_t value);
  void bytes(uint32_t field, std::string_view value);
  void message(uint32_t field, const WireWriter& value) { bytes(field, value.out_); }
  // Repeated numbers in packed form.
  void packed(uint32_t field, const std::vector<int64_t>& values);
  const std::string& text() const { return out_; }

 private:
  void varint(uint64_t value);
  std::string out_;
};

// Walks the fields of a message in order:
//   for (WireReader r(bytes); r.next();) switch (r.field()) …
// `failed` tells afterwards whether the bytes were no message; nothing throws.
class WireReader {
 public:
  explicit WireReader(std::string_view bytes) : rest_(bytes) {}

  bool next();
  bool failed() const { return failed_; }
  uint32_t field() const { return field_; }
  // Of a number; 0 for a field of bytes.
  int64_t number() const { return number_; }
  // Of bytes, text or a message; empty for a number.
  std::string_view bytes() const { return bytes_; }
  // Appends a repeated number in either form, packed or single.
  void append_to(std::vector<int64_t>& values);

 private:
  bool varint(std::string_view& from, uint64_t& value);
  bool skip(size_t count);

  std::string_view rest_;
  std::string_view bytes_;
  int64_t number_ = 0;
  uint32_t field_ = 0;
  bool is_number_ = false;
  bool failed_ = false;
};

}  // namespace strata::pjrt
