#include "strata/data/utf8.h"

#include <utf8proc.h>

#include <algorithm>
#include <cstdlib>
#include <memory>

#include "strata/base/error.h"

namespace strata::data {
namespace {

constexpr std::string_view kReplacement = "\xef\xbf\xbd";

uint8_t byte_at(std::string_view s, size_t i) { return static_cast<uint8_t>(s[i]); }

bool is_ascii(std::string_view text) {
  return std::none_of(text.begin(), text.end(),
                      [](char c) { return static_cast<uint8_t>(c) >= 0x80; });
}

// Bytes of the code point that `lead` begins (0: none) and the bounds of its second byte.
struct Lead {
  size_t length = 0;
  uint8_t low = 0x80;
  uint8_t high = 0xbf;
};

Lead lead_of(uint8_t lead) {
  if (lead >= 0xc2 && lead <= 0xdf) return {2};
  if (lead == 0xe0) return {3, 0xa0, 0xbf};
  if (lead == 0xed) return {3, 0x80, 0x9f};
  if (lead >= 0xe1 && lead <= 0xef) return {3};
  if (lead == 0xf0) return {4, 0x90, 0xbf};
  if (lead >= 0xf1 && lead <= 0xf3) return {4};
  if (lead == 0xf4) return {4, 0x80, 0x8f};
  return {};
}

utf8proc_category_t category_of(uint32_t point) {
  return utf8proc_category(static_cast<utf8proc_int32_t>(point));
}

}  // namespace

Utf8Step utf8_step(std::string_view bytes) {
  using Kind = Utf8Step::Kind;
  if (byte_at(bytes, 0) < 0x80) return {Kind::valid, 1};
  Lead lead = lead_of(byte_at(bytes, 0));
  if (lead.length == 0) return {Kind::invalid, 1};
  for (size_t i = 1; i < lead.length; ++i) {
    if (i == bytes.size()) return {Kind::truncated, i};
    uint8_t low = i == 1 ? lead.low : 0x80;
    uint8_t high = i == 1 ? lead.high : 0xbf;
    if (byte_at(bytes, i) < low || byte_at(bytes, i) > high) return {Kind::invalid, i};
  }
  return {Kind::valid, lead.length};
}

std::string to_valid_utf8(std::string_view bytes) {
  std::string out;
  out.reserve(bytes.size());
  for (size_t i = 0; i < bytes.size();) {
    Utf8Step step = utf8_step(bytes.substr(i));
    if (step.kind == Utf8Step::Kind::valid) {
      out += bytes.substr(i, step.length);
    } else {
      out += kReplacement;
    }
    i += step.length;
  }
  return out;
}

uint32_t next_point(std::string_view text, size_t* position) {
  uint8_t lead = byte_at(text, *position);
  size_t length = lead < 0x80 ? 1 : lead < 0xe0 ? 2 : lead < 0xf0 ? 3 : 4;
  uint32_t point = length == 1 ? lead : lead & (0x7fU >> length);
  for (size_t i = 1; i < length; ++i) {
    point = (point << 6) | (byte_at(text, *position + i) & 0x3fU);
  }
  *position += length;
  return point;
}

uint32_t previous_point(std::string_view text, size_t position) {
  do {
    --position;
  } while (position > 0 && (byte_at(text, position) & 0xc0) == 0x80);
  return next_point(text, &position);
}

void append_utf8(uint32_t point, std::string* text) {
  auto put = [text](uint32_t byte) { text->push_back(static_cast<char>(byte)); };
  if (point < 0x80) {
    put(point);
  } else if (point < 0x800) {
    put(0xc0 | (point >> 6));
    put(0x80 | (point & 0x3f));
  } else if (point < 0x10000) {
    put(0xe0 | (point >> 12));
    put(0x80 | ((point >> 6) & 0x3f));
    put(0x80 | (point & 0x3f));
  } else {
    put(0xf0 | (point >> 18));
    put(0x80 | ((point >> 12) & 0x3f));
    put(0x80 | ((point >> 6) & 0x3f));
    put(0x80 | (point & 0x3f));
  }
}

bool is_white_space(uint32_t p) {
  return (p >= 9 && p <= 13) || p == 0x20 || p == 0x85 || p == 0xa0 || p == 0x1680 ||
         (p >= 0x2000 && p <= 0x200a) || p == 0x2028 || p == 0x2029 || p == 0x202f || p == 0x205f ||
         p == 0x3000;
}

bool is_numeric(uint32_t point) {
  utf8proc_category_t c = category_of(point);
  return c == UTF8PROC_CATEGORY_ND || c == UTF8PROC_CATEGORY_NL || c == UTF8PROC_CATEGORY_NO;
}

bool is_word(uint32_t point) {
  switch (category_of(point)) {
    case UTF8PROC_CATEGORY_LU:
    case UTF8PROC_CATEGORY_LL:
    case UTF8PROC_CATEGORY_LT:
    case UTF8PROC_CATEGORY_LM:
    case UTF8PROC_CATEGORY_LO:
    case UTF8PROC_CATEGORY_MN:
    case UTF8PROC_CATEGORY_MC:
    case UTF8PROC_CATEGORY_ME:
    case UTF8PROC_CATEGORY_ND:
    case UTF8PROC_CATEGORY_NL:
    case UTF8PROC_CATEGORY_PC:
      return true;
    default:
      return point == 0x200c || point == 0x200d || (point >= 0x24b6 && point <= 0x24e9);
  }
}

bool is_printable(uint32_t point) {
  switch (category_of(point)) {
    case UTF8PROC_CATEGORY_CC:
    case UTF8PROC_CATEGORY_CF:
    case UTF8PROC_CATEGORY_CS:
    case UTF8PROC_CATEGORY_CO:
    case UTF8PROC_CATEGORY_CN:
    case UTF8PROC_CATEGORY_ZL:
    case UTF8PROC_CATEGORY_ZP:
      return false;
    case UTF8PROC_CATEGORY_ZS:
      return point == ' ';
    default:
      return true;
  }
}

bool is_python_space(uint32_t point) {
  return is_white_space(point) || (point >= 0x1c && point <= 0x1f);
}

std::string normalize(std::string_view text, NormalForm form) {
  if (is_ascii(text)) return std::string(text);
  int options = UTF8PROC_STABLE;
  bool composed = form == NormalForm::nfc || form == NormalForm::nfkc;
  options |= composed ? UTF8PROC_COMPOSE : UTF8PROC_DECOMPOSE;
  if (form == NormalForm::nfkc || form == NormalForm::nfkd) options |= UTF8PROC_COMPAT;
  utf8proc_uint8_t* mapped = nullptr;
  utf8proc_ssize_t length = utf8proc_map(reinterpret_cast<const utf8proc_uint8_t*>(text.data()),
                                         static_cast<utf8proc_ssize_t>(text.size()), &mapped,
                                         static_cast<utf8proc_option_t>(options));
  if (length < 0) {
    fail({.id = "utf8.normalize",
          .where = "text normalization",
          .expected = "well-formed UTF-8 and enough memory",
          .got = utf8proc_errmsg(length),
          .code = Code::resource_exhausted});
  }
  std::unique_ptr<utf8proc_uint8_t, void (*)(void*)> owner(mapped, std::free);
  return std::string(reinterpret_cast<const char*>(mapped), static_cast<size_t>(length));
}

std::string to_upper(std::string_view text) {
  std::string out;
  for (size_t i = 0; i < text.size();) {
    uint32_t point = next_point(text, &i);
    if (point == 0xdf) {
      out += "SS";
    } else {
      append_utf8(static_cast<uint32_t>(utf8proc_toupper(static_cast<utf8proc_int32_t>(point))),
                  &out);
    }
  }
  return out;
}
std::string to_lower(std::string_view text) {
  std::string out;
  for (size_t i = 0; i < text.size();) {
    auto point = static_cast<utf8proc_int32_t>(next_point(text, &i));
    append_utf8(static_cast<uint32_t>(utf8proc_tolower(point)), &out);
  }
  return out;
}

}  // namespace strata::data
