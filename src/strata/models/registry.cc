#include "strata/models/registry.h"

#include <array>

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
    if (type == f.model_type) return f.build(reader);
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

}  // namespace strata::models
