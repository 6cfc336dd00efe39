#include "strata/sample/settings.h"

#include <fmt/format.h>

#include <cmath>
#include <limits>

#include "strata/base/error.h"

namespace strata::sample {
namespace {

struct Limit {
  const char* name;
  double value, low, high;
  bool low_open = false;
};

void check_limit(const Limit& l, const std::string& where) {
  bool inside = std::isfinite(l.value) && l.value <= l.high &&
                (l.low_open ? l.value > l.low : l.value >= l.low);
  if (inside) return;
  // A limit that only keeps numbers in their types is news to those who went beyond it.
  bool tell_high = l.high < 1e9 || l.value > l.high;
  std::string range = fmt::format("{} {}", l.low_open ? "more than" : "at least", l.low);
  if (tell_high) range += fmt::format(" and at most {}", l.high);
  fail({.id = "sample.setting",
        .where = where,
        .expected = fmt::format("{} of {}", l.name, range),
        .got = fmt::format("{}", l.value),
        .code = Code::out_of_range});
}

// How a field is set from JSON.
struct Field {
  const char* name;
  const char* kind;
  void (*set)(SamplingSettings&, const Json&);
};

template <auto Member>
Field integer(const char* name) {
  return {name, "an integer", [](SamplingSettings& s, const Json& v) {
            if (!v.is_number_integer()) throw std::invalid_argument("kind");
            s.*Member = v.get<int64_t>();
          }};
}

template <auto Member>
Field number(const char* name) {
  return {name, "a number", [](SamplingSettings& s, const Json& v) {
            if (!v.is_number()) throw std::invalid_argument("kind");
            s.*Member = v.get<double>();
          }};
}

template <auto Member>
Field flag(const char* name) {
  return {name, "true or false", [](SamplingSettings& s, const Json& v) {
            if (!v.is_boolean()) throw std::invalid_argument("kind");
            s.*Member = v.get<bool>();
          }};
}

void set_stop(SamplingSettings& s, const Json& v) {
  std::vector<std::string> out;
  for (const Json& one : v.is_array() ? v : Json::array({v})) {
    if (!one.is_string()) throw std::invalid_argument("kind");
    out.push_back(one.get<std::string>());
  }
  s.stop = out;
}

void set_stop_ids(SamplingSettings& s, const Json& v) {
  std::vector<int32_t> out;
  for (const Json& one : v.is_array() ? v : Json::array({v})) {
    bool fits = one.is_number_integer() && one.get<int64_t>() >= 0 &&
                one.get<int64_t>() <= std::numeric_limits<int32_t>::max();
    if (!fits) throw std::invalid_argument("kind");
    out.push_back(one.get<int32_t>());
  }
  s.stop_ids = out;
}

void set_seed(SamplingSettings& s, const Json& v) {
  if (!v.is_number_integer()) throw std::invalid_argument("kind");
  s.seed = v.is_number_unsigned() ? v.get<uint64_t>() : static_cast<uint64_t>(v.get<int64_t>());
}

const std::vector<Field>& fields() {
  using S = SamplingSettings;
  static const std::vector<Field> kFields = {
      integer<&S::max_new_tokens>("max_new_tokens"),
      integer<&S::min_new_tokens>("min_new_tokens"),
      number<&S::temperature>("temperature"),
      integer<&S::top_k>("top_k"),
      number<&S::top_p>("top_p"),
      number<&S::min_p>("min_p"),
      number<&S::repetition_penalty>("repetition_penalty"),
      number<&S::frequency_penalty>("frequency_penalty"),
      number<&S::presence_penalty>("presence_penalty"),
      {"stop", "a text or a list of texts", set_stop},
      {"stop_ids", "token ids", set_stop_ids},
      flag<&S::ignore_eos>("ignore_eos"),
      flag<&S::processed_logprobs>("processed_logprobs"),
      {"seed", "an integer", set_seed},
      integer<&S::samples>("samples"),
  };
  return kFields;
}

}  // namespace

void check(const SamplingSettings& s, const std::string& where) {
  auto most = static_cast<double>(s.max_new_tokens.value_or(std::numeric_limits<int32_t>::max()));
  const Limit limits[] = {
      {"max_new_tokens", most, 1, 1e9 * 4},
      {"min_new_tokens", static_cast<double>(s.min_new_tokens), 0, most},
      {"temperature", s.temperature, 0, 1e9},
      {"top_k", static_cast<double>(s.top_k), -1, 1e9 * 2},
      {"top_p", s.top_p, 0, 1},
      {"min_p", s.min_p, 0, 1},
      {"repetition_penalty", s.repetition_penalty, 0, 1e9, true},
      {"frequency_penalty", s.frequency_penalty, -2, 2},
      {"presence_penalty", s.presence_penalty, -2, 2},
      {"samples", static_cast<double>(s.samples), 1, 65536},
  };
  for (const Limit& l : limits) check_limit(l, where);
  for (const std::string& text : s.stop) {
    require(!text.empty(), {.id = "sample.setting",
                            .where = where,
                            .expected = "stop texts that are not empty",
                            .got = "\"\"",
                            .code = Code::out_of_range});
  }
}

std::vector<std::string> setting_names() {
  std::vector<std::string> out;
  for (const Field& f : fields()) out.emplace_back(f.name);
  return out;
}

void set_field(SamplingSettings& settings, std::string_view name, const Json& value,
               const std::string& where) {
  for (const Field& f : fields()) {
    if (name != f.name) continue;
    try {
      f.set(settings, value);
    } catch (const std::invalid_argument&) {
      fail({.id = "sample.setting_type",
            .where = where,
            .expected = fmt::format("{} as {}", f.name, f.kind),
            .got = value.dump()});
    }
    return;
  }
  invariant(false, "sample.setting_name", "a known setting");
}

}  // namespace strata::sample
