#include "strata/models/config_reader.h"

#include <algorithm>
#include <charconv>
#include <cmath>

namespace strata::models {
namespace {

[[noreturn]] void wrong(const ConfigReader& c, const std::string& key, const std::string& expected,
                        const std::string& got) {
  fail({.id = "models.config_value",
        .where = c.where() + ", key '" + key + "'",
        .expected = expected,
        .got = got});
}

}  // namespace

ConfigReader::ConfigReader(const Json& object, std::string where)
    : object_(object), where_(std::move(where)) {
  require(object.is_object(), {.id = "models.config_object",
                               .where = where_,
                               .expected = "a JSON object",
                               .got = object.type_name()});
}

bool ConfigReader::has(const std::string& key) const {
  return object_.contains(key) && !object_[key].is_null();
}

double ConfigReader::number(const std::string& key) const {
  if (has(key)) {
    const Json& v = object_[key];
    if (v.is_number()) return v.get<double>();
    if (v.is_string()) {
      const auto& text = v.get_ref<const std::string&>();
      double value = 0;
      auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
      bool whole = error == std::errc() && end == text.data() + text.size();
      if (whole && std::isfinite(value)) return value;
    }
    wrong(*this, key, "a number", v.dump().substr(0, 60));
  }
  fail({.id = "models.config_missing",
        .where = where_,
        .expected = "key '" + key + "'",
        .got = "no such key",
        .code = Code::not_found});
}

double ConfigReader::number_or(const std::string& key, double fallback) const {
  return has(key) ? number(key) : fallback;
}

double ConfigReader::positive(const std::string& key) const {
  double v = number(key);
  if (!(v > 0)) wrong(*this, key, "a number above 0", object_[key].dump());
  return v;
}

int64_t ConfigReader::dimension(const std::string& key, int64_t limit) const {
  double v = number(key);
  bool fits = v >= 1 && v <= static_cast<double>(limit) && std::floor(v) == v;
  if (!fits) {
    wrong(*this, key, "an integer in [1, " + std::to_string(limit) + "]", object_[key].dump());
  }
  return static_cast<int64_t>(v);
}

int64_t ConfigReader::dimension_or(const std::string& key, int64_t fallback, int64_t limit) const {
  return has(key) ? dimension(key, limit) : fallback;
}

bool ConfigReader::flag_or(const std::string& key, bool fallback) const {
  if (!has(key)) return fallback;
  if (!object_[key].is_boolean()) wrong(*this, key, "true or false", object_[key].dump());
  return object_[key].get<bool>();
}

std::string ConfigReader::text_or(const std::string& key, const std::string& fallback) const {
  if (!has(key)) return fallback;
  if (!object_[key].is_string()) wrong(*this, key, "a string", object_[key].dump());
  return object_[key].get<std::string>();
}

void ConfigReader::only(const std::string& key, const std::string& value) const {
  std::string got = text_or(key, value);
  if (got == value) return;
  unimplemented({.id = "models.config_only",
                 .where = where_ + ", key '" + key + "'",
                 .expected = "'" + value + "'",
                 .got = "'" + got + "'"});
}

}  // namespace strata::models
