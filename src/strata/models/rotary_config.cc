// Rotary settings of a config.json, as transformers reads them.
#include <algorithm>
#include <cmath>
#include <numbers>
#include <vector>

#include "strata/base/strings.h"
#include "strata/models/config_reader.h"

namespace strata::models {
namespace {

using std::numbers::pi;

// Position in the table whose wavelength makes `turns` turns over the original context.
double yarn_boundary(double turns, double size, double original, double theta) {
  return size * std::log(original / (turns * 2 * pi)) / (2 * std::log(theta));
}

// Tokens of the context before it was stretched. A value at the top of the file wins.
double original_context(const ConfigReader& config, const ConfigReader& rope) {
  const std::string key = "original_max_position_embeddings";
  if (config.has(key)) return config.positive(key);
  if (rope.has(key)) return rope.positive(key);
  return config.positive("max_position_embeddings");
}

double yarn_scale(double factor, double mscale) {
  return factor <= 1 ? 1.0 : 0.1 * mscale * std::log(factor) + 1.0;
}

// What cos and sin are multiplied by. DeepSeek's mscale pair counts only when both are there.
double yarn_attention_factor(const ConfigReader& rope, double factor) {
  double standard = yarn_scale(factor, 1);
  double mscale = rope.number_or("mscale", 0), all = rope.number_or("mscale_all_dim", 0);
  if (mscale != 0 && all != 0) standard = yarn_scale(factor, mscale) / yarn_scale(factor, all);
  return rope.number_or("attention_factor", standard);
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
  table.attention_factor = yarn_attention_factor(rope, factor);
}

// Llama 3.1: wavelengths beyond the original context are interpolated, short ones stay.
void apply_llama3(const ConfigReader& rope, double original, nn::RotaryTable& table) {
  double factor = rope.positive("factor");
  double low = rope.positive("low_freq_factor"), high = rope.positive("high_freq_factor");
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

void apply_scaling(const ConfigReader& config, const ConfigReader& rope, double theta,
                   nn::RotaryTable& table) {
  std::string type = rope.text_or("rope_type", rope.text_or("type", "default"));
  if (type == "linear") {
    double factor = rope.positive("factor");
    for (double& f : table.inv_freq) f /= factor;
  } else if (type == "llama3") {
    apply_llama3(rope, original_context(config, rope), table);
  } else if (type == "yarn") {
    apply_yarn(rope, theta, original_context(config, rope), table);
  } else if (type == "dynamic") {
    rope.positive("factor");  // acts beyond max_position_embeddings only, where no command goes
  } else if (type != "default") {
    std::vector<std::string> known{"default", "linear", "dynamic", "llama3", "yarn"};
    unimplemented({.id = "models.rope_type",
                   .where = rope.where(),
                   .expected = "rope_type " + join(known, ", "),
                   .got = "'" + type + "'",
                   .cure = "The nearest is '" + nearest(type, known) + "'"});
  }
}

// Settings for each type of layer have the types as keys and would be read as none at all.
void refuse_nested(const ConfigReader& rope) {
  for (const auto& [key, value] : rope.object().items()) {
    if (!value.is_object()) continue;
    unimplemented({.id = "models.rope_nested",
                   .where = rope.where() + ", key '" + key + "'",
                   .expected = "one set of rotary settings for all layers",
                   .got = value.dump().substr(0, 60)});
  }
}

}  // namespace

nn::RotaryTable read_rotary(const ConfigReader& config, int64_t head_dim,
                            double default_partial_factor) {
  // An empty block counts as absent.
  bool old = config.has("rope_scaling") && !config.object()["rope_scaling"].empty();
  std::string block = old ? "rope_scaling" : "rope_parameters";
  Json empty = Json::object();
  const Json& object = config.has(block) ? config.object()[block] : empty;
  ConfigReader rope(object, config.where() + ", " + block);
  refuse_nested(rope);
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
  apply_scaling(config, rope, theta, table);
  return table;
}

}  // namespace strata::models
