#include "strata/data/text_rules.h"

#include <fmt/format.h>

#include <charconv>
#include <utility>

#include "strata/base/error.h"
#include "strata/data/bpe.h"
#include "strata/data/tokenizer_errors.h"

namespace strata::data {
namespace {

constexpr std::pair<std::string_view, NormalForm> kForms[] = {{"NFC", NormalForm::nfc},
                                                              {"NFD", NormalForm::nfd},
                                                              {"NFKC", NormalForm::nfkc},
                                                              {"NFKD", NormalForm::nfkd}};

std::string replaced(std::string_view text, std::string_view from, std::string_view to) {
  std::string out;
  size_t done = 0;
  for (size_t at = text.find(from); at != std::string_view::npos; at = text.find(from, done)) {
    out.append(text.substr(done, at - done)).append(to);
    done = at + from.size();
  }
  return out.append(text.substr(done));
}

// The list of a Sequence.
const Json& members(const Json& sequence, const char* key, const std::string& where) {
  auto it = sequence.find(key);
  if (it != sequence.end() && it->is_array()) return *it;
  fail({.id = "tokenizer.malformed",
        .where = where + ", key '" + key + "'",
        .expected = "a list",
        .got = it == sequence.end() ? "nothing" : it->type_name(),
        .code = Code::data_loss});
}

// The text that a Replace looks for.
std::string replaced_text(const Json& replace, const std::string& where) {
  auto pattern = replace.find("pattern");
  bool text = pattern != replace.end() && pattern->is_object() && pattern->contains("String");
  if (!text) {
    unsupported_tokenizer(where, "a Replace of a text (String)",
                          pattern == replace.end() ? "no pattern" : pattern->dump().substr(0, 60));
  }
  std::string from = get_string(*pattern, "String", where);
  if (from.empty()) unsupported_tokenizer(where, "a Replace of a text that is not empty", "''");
  return from;
}

void add_steps(const Json& normalizer, const std::string& where, std::vector<NormalStep>* steps) {
  std::string type = get_string(normalizer, "type", where);
  if (type == "Sequence") {
    for (const Json& inner : members(normalizer, "normalizers", where)) {
      add_steps(inner, where, steps);
    }
    return;
  }
  NormalStep step;
  for (const auto& form : kForms) {
    if (form.first != type) continue;
    step.form = form.second;
    steps->push_back(step);
    return;
  }
  if (type == "Prepend") {
    step.kind = NormalStep::Kind::prepend;
    step.to = get_string(normalizer, "prepend", where);
  } else if (type == "Replace") {
    step.kind = NormalStep::Kind::replace;
    step.from = replaced_text(normalizer, where);
    step.to = get_string(normalizer, "content", where);
  } else {
    unsupported_tokenizer(where, "NFC, NFD, NFKC, NFKD, Prepend, Replace or a Sequence of them",
                          type);
  }
  steps->push_back(std::move(step));
}

// One member of the decoders of a SentencePiece model.
void add_decoder(const Json& decoder, const std::string& where, Spelling* out) {
  std::string type = get_string(decoder, "type", where);
  if (type == "Replace") {
    if (get_string(decoder, "content", where) != " ") {
      unsupported_tokenizer(where, "a Replace by a space", decoder.dump().substr(0, 80));
    }
    out->space = replaced_text(decoder, where);
  } else if (type == "ByteFallback") {
    out->bytes = true;
  } else if (type == "Strip") {
    bool one = get_string(decoder, "content", where) == " " &&
               get_int_or(decoder, "start", 0, where) == 1 &&
               get_int_or(decoder, "stop", 0, where) == 0;
    if (!one)
      unsupported_tokenizer(where, "a Strip of one space at the start",
                            decoder.dump().substr(0, 80));
    out->first = FirstSpace::goes;
  } else if (type != "Fuse") {
    unsupported_tokenizer(where, "Replace, ByteFallback, Fuse and Strip", type);
  }
}

}  // namespace

std::string normalized(std::string_view text, const std::vector<NormalStep>& steps, Before before) {
  std::string out(text);
  for (const NormalStep& s : steps) {
    if (s.kind == NormalStep::Kind::form) {
      out = normalize(out, s.form);
    } else if (s.kind == NormalStep::Kind::replace) {
      out = replaced(out, s.from, s.to);
    } else if (before != Before::text && !out.empty()) {
      out.insert(0, s.to);
    }
  }
  return out;
}

std::vector<NormalStep> read_normalizer(const Json& normalizer, const std::string& where) {
  std::vector<NormalStep> steps;
  if (!normalizer.is_null()) add_steps(normalizer, where, &steps);
  return steps;
}

bool Spelling::is_byte(std::string_view spelled) const {
  return bytes && spelled.size() == 6 && spelled.substr(0, 3) == "<0x" && spelled[5] == '>' &&
         spelled.find_first_not_of("0123456789abcdefABCDEF", 3) == 5;
}

std::string Spelling::bytes_of(std::string_view spelled) const {
  if (byte_level) return from_alphabet(spelled).value_or(std::string(spelled));
  if (is_byte(spelled)) {
    int value = 0;
    std::from_chars(spelled.data() + 3, spelled.data() + 5, value, 16);
    return {static_cast<char>(value)};
  }
  return space.empty() ? std::string(spelled) : replaced(spelled, space, " ");
}

Spelling read_decoder(const Json& decoder, const std::string& where) {
  Spelling out;
  std::string type = decoder.is_null() ? "none" : get_string(decoder, "type", where);
  if (type == "ByteLevel") {
    out.byte_level = true;
  } else if (type == "Metaspace") {
    out.space = get_string_or(decoder, "replacement", "\xe2\x96\x81", where);
    bool never = get_string_or(decoder, "prepend_scheme", "always", where) == "never" ||
                 !get_bool_or(decoder, "add_prefix_space", true, where);
    out.first = never ? FirstSpace::stays : FirstSpace::goes_in_token;
  } else if (type == "Sequence") {
    const Json& list = members(decoder, "decoders", where);
    if (list.size() == 1) return read_decoder(list[0], where);
    for (const Json& inner : list) add_decoder(inner, where, &out);
  } else {
    unsupported_tokenizer(where, "ByteLevel, Metaspace or a Sequence", type);
  }
  return out;
}

std::string byte_token(uint8_t byte) { return fmt::format("<0x{:02X}>", byte); }

}  // namespace strata::data
