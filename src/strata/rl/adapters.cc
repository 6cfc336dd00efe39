#include "strata/rl/adapters.h"

#include <algorithm>
#include <set>

#include "strata/base/error.h"
#include "strata/models/registry.h"
#include "strata/nn/lora.h"

namespace strata::rl {
namespace {

namespace fs = std::filesystem;

bool is_lora(const Json& transform) { return transform.at("kind") == nn::Lora::kKind; }

std::string last_part(const std::string& path) { return path.substr(path.rfind('.') + 1); }

void list_linears(const nn::Module& module, std::vector<const nn::Linear*>& out) {
  if (const auto* linear = dynamic_cast<const nn::Linear*>(&module)) out.push_back(linear);
  for (const nn::Module* child : module.children()) list_linears(*child, out);
}

// PEFT takes a name for every module whose path ends with it: the last parts where they say just
// which linear maps have adapters, else whole paths.
std::vector<std::string> target_modules(const models::CausalLm& model) {
  std::set<std::string> adapted, parts;
  for (const nn::LowRankUpdate& u : nn::low_rank_updates(model)) {
    std::string path = u.weight.substr(0, u.weight.rfind('.'));
    parts.insert(last_part(path));
    adapted.insert(std::move(path));
  }
  std::vector<const nn::Linear*> linears;
  list_linears(model, linears);
  for (const nn::Linear* linear : linears) {
    if (!parts.contains(last_part(linear->path())) || adapted.contains(linear->path())) continue;
    return {adapted.begin(), adapted.end()};
  }
  return {parts.begin(), parts.end()};
}

}  // namespace

Json checkpoint_config(const Session& session) {
  Json config = read_json(session.options.model / "config.json");
  const Json& transforms = session.model->transforms();
  Json known = config.value(nn::kTransformsKey, Json::array());
  return known == transforms ? Json() : models::with_transforms(std::move(config), transforms);
}

void check_transforms(const fs::path& checkpoint, const models::CausalLm& model) {
  Json config = read_json(checkpoint / "config.json");
  Json there = config.value(nn::kTransformsKey, Json::array());
  require(there == model.transforms(),
          {.id = "rl.transform_resume",
           .where = checkpoint.string(),
           .expected =
               "a checkpoint of this run's model, with the transforms " + model.transforms().dump(),
           .got = there.dump(),
           .cure = "Resume with the tables [lora] and [fake_quant] that the run began with",
           .code = Code::failed_precondition});
}

std::vector<checkpoint::LowRankMerge> merges_of(const models::CausalLm& model) {
  std::vector<checkpoint::LowRankMerge> out;
  for (const nn::LowRankUpdate& u : nn::low_rank_updates(model)) {
    out.push_back({u.weight, u.a, u.b, u.scale});
  }
  return out;
}

Json merged_config(const Json& config, const models::CausalLm& model) {
  Json rest = Json::array();
  for (const Json& t : model.transforms()) {
    if (!is_lora(t)) rest.push_back(t);
  }
  return models::with_transforms(config, rest);
}

checkpoint::ExportOptions export_options(const Session& session) {
  checkpoint::ExportOptions o;
  if (session.model->transforms().empty()) return o;
  o.merges = merges_of(*session.model);
  o.config = merged_config(read_json(session.options.model / "config.json"), *session.model);
  return o;
}

Json peft_config(const models::CausalLm& model, const std::string& base) {
  const Json& all = model.transforms();
  if (std::count_if(all.begin(), all.end(), is_lora) != 1) return {};
  auto lora = std::find_if(all.begin(), all.end(), is_lora);
  return {{"peft_type", "LORA"},
          {"task_type", "CAUSAL_LM"},
          {"base_model_name_or_path", base},
          {"r", lora->at("rank")},
          {"lora_alpha", lora->at("alpha")},
          {"use_rslora", lora->at("rslora")},
          {"target_modules", target_modules(model)},
          {"lora_dropout", 0.0},
          {"bias", "none"},
          {"fan_in_fan_out", false},
          {"inference_mode", true},
          {"init_lora_weights", true},
          {"modules_to_save", nullptr}};
}

}  // namespace strata::rl
