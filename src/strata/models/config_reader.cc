#include "strata/models/config_reader.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <numbers>
#include <vector>

#include "strata/base/strings.h"

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

namespace {

using std::numbers::pi;

// Position in the table whose wavelength makes `turns` turns over the original context.
double yarn_boundary(double turns, double size, double original, double theta) {
  return size * std::log(original / (turns * 2 * pi)) / (2 * std::log(theta));
}

// YaRN (Peng et al. 2023): high frequencies stay, low ones are interpolated, with a ramp between;
// cos and sin are scaled by 0.1 ln(factor) + 1.
void apply_yarn(const ConfigReader& rope, double theta, double original, nn::RotaryTable& table) {
  double factor = rope.positive("factor");
  auto half = static_cast<double>(table.inv_freq.size());
  double low = yarn_boundary(rope.number_or("beta_fast", 32), 2 * half, original, theta);
  double high = yarn_boundary(rope.number_or("beta_slow", 1), 2 * half, original, theta);
  if (rope.flag_or("truncate", true)) {
    low = std::floor(low);
    high = std::ceil(high);
  }
  low = std::max(low, 0.0);
  high = std::min(high, 2 * half - 1);
  if (low == high) high += 0.001;
  for (size_t i = 0; i < table.inv_freq.size(); ++i) {
    double ramp = std::clamp((static_cast<double>(i) - low) / (high - low), 0.0, 1.0);
    table.inv_freq[i] *= ramp / factor + (1 - ramp);
  }
  double standard = factor <= 1 ? 1.0 : 0.1 * std::log(factor) + 1.0;
  table.attention_factor = rope.number_or("attention_factor", standard);
}

// Llama 3.1: wavelengths beyond the original context are interpolated, short ones stay.
void apply_llama3(const ConfigReader& rope, nn::RotaryTable& table) {
  double factor = rope.positive("factor");
  double low = rope.positive("low_freq_factor"), high = rope.positive("high_freq_factor");
  double original = rope.positive("original_max_position_embeddings");
  require(low != high, {.id = "models.llama3_factors",
                        .where = rope.where(),
                        .expected = "low_freq_factor and high_freq_factor that differ",
                        .got = std::to_string(low)});
  for (double& f : table.inv_freq) {
    double wavelength = 2 * pi / f;
    double smooth = (original / wavelength - low) / (high - low);
    if (wavelength > original / low) {
      f /= factor;
    } else if (wavelength >= original / high) {
      f = (1 - smooth) * f / factor + smooth * f;
    }
  }
}

}  // namespace

nn::RotaryTable read_rotary(const ConfigReader& config, int64_t head_dim,
                            double default_partial_factor) {
  std::string block = config.has("rope_scaling") ? "rope_scaling" : "rope_parameters";
  Json empty = Json::object();
  const Json& object = config.has(block) ? config.object()[block] : empty;
  ConfigReader rope(object, config.where() + ", " + block);
  double theta = rope.number_or("rope_theta", config.number_or("rope_theta", 10000.0));
  double partial = rope.number_or(
      "partial_rotary_factor", config.number_or("partial_rotary_factor", default_partial_factor));
  require(theta > 0 && partial > 0 && partial <= 1,
          {.id = "models.rope_range",
           .where = rope.where(),
           .expected = "rope_theta > 0 and partial_rotary_factor in (0, 1]",
           .got = std::to_string(theta) + " and " + std::to_string(partial)});
  auto size = static_cast<int64_t>(static_cast<double>(head_dim) * partial);
  nn::RotaryTable table;
  for (int64_t i = 0; i < size; i += 2) {
    table.inv_freq.push_back(std::pow(theta, -static_cast<double>(i) / static_cast<double>(size)));
  }
  std::string type = rope.text_or("rope_type", rope.text_or("type", "default"));
  if (type == "linear") {
    double factor = rope.positive("factor");
    for (double& f : table.inv_freq) f /= factor;
  } else if (type == "llama3") {
    apply_llama3(rope, table);
  } else if (type == "yarn") {
    double original = rope.has("original_max_position_embeddings")
                          ? rope.positive("original_max_position_embeddings")
                          : config.positive("max_position_embeddings");
    apply_yarn(rope, theta, original, table);
  } else if (type != "default") {
    std::vector<std::string> known{"default", "linear", "llama3", "yarn"};
    unimplemented({.id = "models.rope_type",
                   .where = rope.where(),
                   .expected = "rope_type " + join(known, ", "),
                   .got = "'" + type + "'",
                   .cure = "The nearest is '" + nearest(type, known) + "'"});
  }
  return table;
}

}  // namespace strata::models
