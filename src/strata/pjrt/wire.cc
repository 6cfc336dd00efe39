#include "strata/pjrt/wire.h"

namespace strata::pjrt {
namespace {

enum WireType : uint32_t { kVarint = 0, kFixed64 = 1, kBytes = 2, kFixed32 = 5 };

}  // namespace

void WireWriter::varint(uint64_t value) {
  while (value >= 0x80) {
    out_ += static_cast<char>((value & 0x7f) | 0x80);
    value >>= 7;
  }
  out_ += static_cast<char>(value);
}

void WireWriter::number(uint32_t field, int64_t value) {
  varint(uint64_t{field} << 3 | kVarint);
  varint(static_cast<uint64_t>(value));
}

void WireWriter::bytes(uint32_t field, std::string_view value) {
  varint(uint64_t{field} << 3 | kBytes);
  varint(value.size());
  out_ += value;
}

void WireWriter::packed(uint32_t field, const std::vector<int64_t>& values) {
  WireWriter body;
  for (int64_t v : values) body.varint(static_cast<uint64_t>(v));
  bytes(field, body.out_);
}

bool WireReader::varint(std::string_view& from, uint64_t& value) {
  value = 0;
  for (size_t i = 0; i < from.size() && i < 10; ++i) {
    auto byte = static_cast<uint8_t>(from[i]);
    value |= uint64_t{byte & 0x7fu} << (7 * i);
    if (byte < 0x80) {
      from.remove_prefix(i + 1);
      return true;
    }
  }
  failed_ = true;
  return false;
}

bool WireReader::skip(size_t count) {
  if (count > rest_.size()) {
    failed_ = true;
    return false;
  }
  rest_.remove_prefix(count);
  return true;
}

bool WireReader::next() {
  if (failed_ || rest_.empty()) return false;
  uint64_t tag = 0, value = 0;
  if (!varint(rest_, tag)) return false;
  field_ = static_cast<uint32_t>(tag >> 3);
  number_ = 0;
  bytes_ = {};
  is_number_ = (tag & 7) == kVarint;
  switch (tag & 7) {
    case kVarint:
      if (!varint(rest_, value)) return false;
      number_ = static_cast<int64_t>(value);
      break;
    case kFixed64:
      return skip(8);
    case kFixed32:
      return skip(4);
    case kBytes:
      if (!varint(rest_, value)) return false;
      bytes_ = rest_.substr(0, value);
      return skip(value);
    default:
      failed_ = true;
  }
  if (field_ == 0) failed_ = true;
  return !failed_;
}

void WireReader::append_to(std::vector<int64_t>& values) {
  if (is_number_) {
    values.push_back(number_);
    return;
  }
  std::string_view body = bytes_;
  uint64_t value = 0;
  while (!body.empty() && varint(body, value)) values.push_back(static_cast<int64_t>(value));
}

}  // namespace strata::pjrt
