#include "strata/data/tokenize_lines.h"

#include <fmt/format.h>

#include <istream>
#include <ostream>

#include "strata/base/error.h"
#include "strata/base/json.h"
#include "strata/base/strings.h"

namespace strata::data {
namespace {

std::vector<int32_t> ids_of(const Json& line, const Tokenizer& tokenizer,
                            const std::string& where) {
  auto it = line.find("ids");
  require(it != line.end() && it->is_array(),
          {.id = "tokenize.ids",
           .where = where,
           .expected = "an object with a list 'ids'",
           .got = line.dump(-1, ' ', false, Json::error_handler_t::replace).substr(0, 60)});
  std::vector<int32_t> ids;
  for (const Json& id : *it) {
    bool known = id.is_number_integer() && id >= 0 && id < tokenizer.vocab_size() &&
                 tokenizer.has(id.get<int32_t>());
    if (!known) {
      fail({.id = "tokenize.id",
            .where = fmt::format("{}, ids[{}]", where, ids.size()),
            .expected = fmt::format("an id with a token, below {}", tokenizer.vocab_size()),
            .got = id.dump().substr(0, 60),
            .code = Code::out_of_range});
    }
    ids.push_back(id.get<int32_t>());
  }
  return ids;
}

}  // namespace

size_t tokenize_lines(std::istream& in, std::ostream& out, const Tokenizer& tokenizer,
                      const TokenizeOptions& options) {
  size_t written = 0;
  size_t number = 0;
  for (std::string text; std::getline(in, text);) {
    std::string where = fmt::format("{}:{}", options.where, ++number);
    if (trim(text).empty()) continue;
    Json line = parse_json(text, where);
    Json result = Json::object();
    if (options.decode) {
      require(line.is_object(), {.id = "tokenize.ids",
                                 .where = where,
                                 .expected = "an object with a list 'ids'",
                                 .got = line.type_name()});
      result["text"] = tokenizer.decode(ids_of(line, tokenizer, where));
    } else {
      result["ids"] = tokenizer.encode(get_string(line, "text", where),
                                       {options.add_special_tokens, options.plain});
    }
    out << result.dump() << '\n';
    ++written;
  }
  return written;
}

}  // namespace strata::data
