#include "strata/rl/html.h"

#include "strata/data/utf8.h"

namespace strata::rl {

std::string escape_html(std::string_view text) {
  std::string out;
  for (char c : data::to_valid_utf8(text)) {
    auto byte = static_cast<uint8_t>(c);
    if (c == '&') {
      out += "&amp;";
    } else if (c == '<') {
      out += "&lt;";
    } else if (c == '>') {
      out += "&gt;";
    } else if (c == '"') {
      out += "&quot;";
    } else if (c == '\'') {
      out += "&#39;";
    } else if ((byte < 0x20 && c != '\n' && c != '\t') || byte == 0x7f) {
      data::append_utf8(byte == 0x7f ? 0x2421 : 0x2400 + byte, &out);
    } else {
      out += c;
    }
  }
  return out;
}

}  // namespace strata::rl
