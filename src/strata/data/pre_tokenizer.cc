#include "strata/data/pre_tokenizer.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "strata/base/error.h"
#include "strata/data/regex.h"
#include "strata/data/tokenizer_errors.h"
#include "strata/data/utf8.h"

namespace strata::data {
namespace {

using Words = std::vector<std::string_view>;

// GPT-2's words, which ByteLevel cuts unless `use_regex` is off.
constexpr std::string_view kGpt2Pattern =
    R"('s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+)";

enum class Behavior { removed, isolated, merged_with_previous, merged_with_next, contiguous };

Behavior parse_behavior(const std::string& name, const std::string& where) {
  constexpr std::pair<std::string_view, Behavior> kNames[] = {
      {"Removed", Behavior::removed},
      {"Isolated", Behavior::isolated},
      {"MergedWithPrevious", Behavior::merged_with_previous},
      {"MergedWithNext", Behavior::merged_with_next},
      {"Contiguous", Behavior::contiguous}};
  for (const auto& entry : kNames) {
    if (entry.first == name) return entry.second;
  }
  fail({.id = "tokenizer.malformed",
        .where = where + ", key 'behavior'",
        .expected = "Removed, Isolated, MergedWithPrevious, MergedWithNext or Contiguous",
        .got = name,
        .code = Code::data_loss});
}

// A stretch of a word that did or did not match.
struct Stretch {
  size_t begin = 0;
  size_t end = 0;
  bool match = false;
};

std::vector<Stretch> stretches(const std::vector<std::pair<size_t, size_t>>& matches, size_t size,
                               bool invert) {
  std::vector<Stretch> out;
  size_t done = 0;
  for (const auto& m : matches) {
    if (done < m.first) out.push_back({done, m.first, invert});
    out.push_back({m.first, m.second, !invert});
    done = m.second;
  }
  if (done < size) out.push_back({done, size, invert});
  return out;
}

// Whether a stretch joins the one before it (HF's SplitDelimiterBehavior).
bool joins(Behavior behavior, bool previous_match, bool match) {
  switch (behavior) {
    case Behavior::merged_with_previous:
      return match && !previous_match;
    case Behavior::merged_with_next:
      return !match && previous_match;
    case Behavior::contiguous:
      return match == previous_match;
    case Behavior::removed:
    case Behavior::isolated:
      return false;
  }
  return false;
}

std::vector<Stretch> arrange(const std::vector<Stretch>& in, Behavior behavior) {
  std::vector<Stretch> out;
  bool previous_match = false;
  for (const Stretch& s : in) {
    if (behavior == Behavior::removed && s.match) continue;
    if (!out.empty() && joins(behavior, previous_match, s.match)) {
      out.back().end = s.end;
    } else {
      out.push_back(s);
    }
    previous_match = s.match;
  }
  return out;
}

void append_cut(std::string_view word, const std::vector<Stretch>& cut, Words* out) {
  for (const Stretch& s : cut) {
    if (s.begin < s.end) out->push_back(word.substr(s.begin, s.end - s.begin));
  }
}

// Each mark begins a word.
void cut_before_marks(std::string_view text, std::string_view mark, Words* out) {
  size_t begin = 0;
  while (begin < text.size()) {
    size_t end = std::min(text.find(mark, begin + 1), text.size());
    out->push_back(text.substr(begin, end - begin));
    begin = end;
  }
}

}  // namespace

class PreTokenizer::Step {
 public:
  virtual ~Step() = default;
  virtual void cut(std::string_view word, Words* out) const = 0;
};

class PreTokenizer::Split : public PreTokenizer::Step {
 public:
  Split(Regex regex, Behavior behavior, bool invert)
      : regex_(std::move(regex)), behavior_(behavior), invert_(invert) {}
  void cut(std::string_view word, Words* out) const override {
    append_cut(word, arrange(stretches(regex_.find_all(word), word.size(), invert_), behavior_),
               out);
  }

 private:
  Regex regex_;
  Behavior behavior_;
  bool invert_;
};

class PreTokenizer::Digits : public PreTokenizer::Step {
 public:
  explicit Digits(bool individual) : individual_(individual) {}
  void cut(std::string_view word, Words* out) const override {
    size_t begin = 0;
    bool in_digits = false;
    for (size_t i = 0; i < word.size();) {
      size_t at = i;
      bool digit = is_numeric(next_point(word, &i));
      bool border = digit != in_digits || (digit && individual_);
      if (border && begin < at) {
        out->push_back(word.substr(begin, at - begin));
        begin = at;
      }
      in_digits = digit;
    }
    if (begin < word.size()) out->push_back(word.substr(begin));
  }

 private:
  bool individual_;
};

PreTokenizer::PreTokenizer(const Json& description, const std::string& where, bool byte_level)
    : wants_byte_level_(byte_level) {
  if (byte_level || !description.is_null()) add(description, where);
  if (byte_level && !byte_level_) {
    unsupported_tokenizer(where, "a byte-level pre-tokenizer (ByteLevel), as the decoder is one",
                          "a chain without one");
  }
}

PreTokenizer::PreTokenizer(PreTokenizer&&) noexcept = default;
PreTokenizer& PreTokenizer::operator=(PreTokenizer&&) noexcept = default;
PreTokenizer::~PreTokenizer() = default;

namespace {

Regex parse_pattern(const Json& split, const std::string& where) {
  auto pattern = split.find("pattern");
  if (pattern != split.end() && pattern->is_object() && pattern->contains("Regex")) {
    return Regex(get_string(*pattern, "Regex", where), where);
  }
  if (pattern != split.end() && pattern->is_object() && pattern->contains("String")) {
    return Regex::literal(get_string(*pattern, "String", where), where);
  }
  fail({.id = "tokenizer.malformed",
        .where = where + ", key 'pattern'",
        .expected = "{\"Regex\": text} or {\"String\": text}",
        .got = pattern == split.end() ? "nothing" : pattern->dump().substr(0, 60),
        .code = Code::data_loss});
}

}  // namespace

void PreTokenizer::add(const Json& description, const std::string& where) {
  std::string type = description.is_null() ? "null" : get_string(description, "type", where);
  std::string here = where + ", " + type;
  if (type == "Sequence") {
    auto list = description.find("pretokenizers");
    require(list != description.end() && list->is_array(), {.id = "tokenizer.malformed",
                                                            .where = here,
                                                            .expected = "a list 'pretokenizers'",
                                                            .got = "none",
                                                            .code = Code::data_loss});
    for (const Json& inner : *list) add(inner, here);
    return;
  }
  if (type == "Metaspace" && !wants_byte_level_ && steps_.empty() && !metaspace_.has_value()) {
    return add_metaspace(description, here);
  }
  bool known = type == "Split" || type == "Digits" || (type == "ByteLevel" && wants_byte_level_);
  if (!known || byte_level_) {
    unsupported_tokenizer(where,
                          wants_byte_level_
                              ? "Split, Digits and then one ByteLevel, or a Sequence of them"
                              : "one Metaspace, then Split and Digits, or a Sequence of them",
                          byte_level_ ? type + " behind ByteLevel" : type);
  }
  add_step(type, description, here);
}

void PreTokenizer::add_step(const std::string& type, const Json& description,
                            const std::string& here) {
  if (type == "Split") {
    steps_.push_back(
        std::make_unique<Split>(parse_pattern(description, here),
                                parse_behavior(get_string(description, "behavior", here), here),
                                get_bool_or(description, "invert", false, here)));
  } else if (type == "Digits") {
    steps_.push_back(
        std::make_unique<Digits>(get_bool_or(description, "individual_digits", false, here)));
  } else {
    byte_level_ = true;
    prefix_space_ = get_bool_or(description, "add_prefix_space", true, here);
    if (get_bool_or(description, "use_regex", true, here)) {
      last_ = std::make_unique<Split>(Regex(kGpt2Pattern, here), Behavior::isolated, false);
    }
  }
}

void PreTokenizer::add_metaspace(const Json& description, const std::string& where) {
  Metaspace m;
  m.mark = get_string_or(description, "replacement", "\xe2\x96\x81", where);
  m.split = get_bool_or(description, "split", true, where);
  // Files from before `prepend_scheme` have a flag.
  bool flag = get_bool_or(description, "add_prefix_space", true, where);
  std::string scheme =
      get_string_or(description, "prepend_scheme", flag ? "always" : "never", where);
  if (scheme != "always" && scheme != "first" && scheme != "never") {
    unsupported_tokenizer(where + ", key 'prepend_scheme'", "always, first or never", scheme);
  }
  m.at_start = scheme != "never";
  m.behind_token = scheme == "always";
  metaspace_ = std::move(m);
}

std::string PreTokenizer::marked(std::string_view text, Before before) const {
  const Metaspace& m = *metaspace_;
  std::string out;
  for (char c : text) {
    if (c == ' ') {
      out += m.mark;
    } else {
      out += c;
    }
  }
  bool prefix = before == Before::nothing ? m.at_start : before == Before::token && m.behind_token;
  if (prefix && out.compare(0, m.mark.size(), m.mark) != 0) out.insert(0, m.mark);
  return out;
}

void PreTokenizer::cut(std::string_view text, Before before, Sink* sink) const {
  Words words;
  std::string with_marks;
  if (metaspace_.has_value() && !text.empty()) text = with_marks = marked(text, before);
  if (metaspace_.has_value() && metaspace_->split) {
    cut_before_marks(text, metaspace_->mark, &words);
  } else if (!text.empty()) {
    words.push_back(text);
  }
  Words next;
  for (const auto& step : steps_) {
    next.clear();
    for (std::string_view word : words) step->cut(word, &next);
    words.swap(next);
  }
  std::string spaced;
  for (std::string_view word : words) {
    if (prefix_space_ && word[0] != ' ') {
      spaced.assign(1, ' ').append(word);
      word = spaced;
    }
    if (last_ == nullptr) {
      sink->take(word);
      continue;
    }
    next.clear();
    last_->cut(word, &next);
    for (std::string_view part : next) sink->take(part);
  }
}

}  // namespace strata::data
