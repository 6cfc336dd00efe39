#include "strata/models/registry.h"

#include <array>

#include "strata/base/error.h"
#include "strata/base/strings.h"
#include "strata/models/llama.h"
#include "strata/models/qwen3.h"

namespace strata::models {
namespace {

struct Family {
  const char* model_type;
  std::unique_ptr<CausalLm> (*build)(const ConfigReader&);
};

constexpr std::array kFamilies{Family{"llama", build_llama}, Family{"qwen3", build_qwen3}};

void apply_transforms(CausalLm& model, const Json& config, const std::string& where) {
  auto it = config.find(nn::kTransformsKey);
  if (it == config.end()) return;
  const std::string place = where + ", key '" + nn::kTransformsKey + "'";
  require(it->is_array(), {.id = "models.transforms",
                           .where = place,
                           .expected = "a list of transforms",
                           .got = it->dump().substr(0, 60),
                           .code = Code::data_loss});
  for (const Json& one : *it) model.apply(*nn::transform_from_json(one, place));
}

}  // namespace

std::vector<std::string> known_model_types() {
  std::vector<std::string> out;
  for (const Family& f : kFamilies) out.emplace_back(f.model_type);
  return out;
}

std::unique_ptr<CausalLm> build_model(const Json& config, const std::string& where) {
  ConfigReader reader(config, where);
  std::string type = reader.text_or("model_type", "");
  for (const Family& f : kFamilies) {
    if (type != f.model_type) continue;
    auto model = f.build(reader);
    apply_transforms(*model, config, where);
    return model;
  }
  std::vector<std::string> known = known_model_types();
  unimplemented({.id = "models.model_type",
                 .where = where,
                 .expected = "a model_type of " + join(known, ", "),
                 .got = type.empty() ? "none" : "'" + type + "'",
                 .cure = type.empty() ? "" : "The nearest is '" + nearest(type, known) + "'"});
}

std::unique_ptr<CausalLm> build_model(const std::filesystem::path& directory) {
  std::filesystem::path path = directory / "config.json";
  return build_model(read_json(path), path.string());
}

Json with_transforms(Json config, const Json& transforms) {
  config.erase(nn::kTransformsKey);
  if (!transforms.empty()) config[nn::kTransformsKey] = transforms;
  return config;
}

}  // namespace strata::models
