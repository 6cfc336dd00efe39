#include "strata/nn/model_transform.h"

#include <algorithm>

#include "strata/base/error.h"
#include "strata/base/strings.h"
#include "strata/nn/fake_quant.h"
#include "strata/nn/layer_stack.h"
#include "strata/nn/lora.h"

namespace strata::nn {
namespace {

void collect(Module& module, std::vector<Module*>& out) {
  out.push_back(&module);
  for (Module* child : module.children()) collect(*child, out);
}

std::string last_part(const std::string& path) { return path.substr(path.rfind('.') + 1); }

// The path, as a glob for all layers, whose last part is most like that of `target`.
std::string nearest_path(const std::string& target, const std::vector<Module*>& modules) {
  std::vector<std::string> parts, paths;
  for (const Module* m : modules) {
    if (dynamic_cast<const Linear*>(m) == nullptr) continue;
    parts.push_back(last_part(m->path()));
    paths.push_back(common_path(*m));
  }
  std::string best = nearest(last_part(target), parts);
  auto at = std::find(parts.begin(), parts.end(), best);
  return at == parts.end() ? "" : paths[static_cast<size_t>(at - parts.begin())];
}

[[noreturn]] void no_target(const std::string& target, const std::vector<Module*>& modules,
                            const std::vector<sharding::Tie>& ties) {
  std::string got = "no module of this path";
  std::string near = nearest_path(target, modules);
  std::string cure = near.empty() ? "This model has no linear maps" : "The nearest is " + near;
  for (const Module* m : modules) {
    if (!glob_matches(target, m->path()) || m->parent() == nullptr) continue;
    got = m->path() + ", a " + m->describe();
    cure = "Declined: only what multiplies with a kernel can be changed; " + cure;
    break;
  }
  for (const sharding::Tie& t : ties) {
    if (!glob_matches(target, t.alias.substr(0, t.alias.rfind('.')))) continue;
    got = "another name of " + t.owner;
    cure =
        "Declined: a tied table is looked up as well as multiplied with, and both uses would "
        "have to change alike; " +
        cure;
  }
  fail({.id = "nn.transform_target",
        .where = "target '" + target + "'",
        .expected = "a glob of linear maps' paths",
        .got = got,
        .cure = cure});
}

}  // namespace

std::unique_ptr<ModelTransform> transform_from_json(const Json& json, const std::string& where) {
  const std::string kind = get_string(json, "kind", where);
  if (kind == Lora::kKind) return std::make_unique<Lora>(Lora::from_json(json, where));
  if (kind == FakeQuant::kKind) {
    return std::make_unique<FakeQuant>(FakeQuant::from_json(json, where));
  }
  fail({.id = "nn.transform_kind",
        .where = where,
        .expected = "a transform of kind lora or fake_quant",
        .got = "'" + kind + "'",
        .code = Code::data_loss});
}

std::vector<Linear*> find_linears(Module& root, const std::vector<std::string>& targets,
                                  const std::vector<sharding::Tie>& ties) {
  std::vector<Module*> modules;
  collect(root, modules);
  std::vector<bool> used(targets.size(), false);
  std::vector<Linear*> out;
  for (Module* m : modules) {
    auto* linear = dynamic_cast<Linear*>(m);
    if (linear == nullptr) continue;
    bool wanted = false;
    for (size_t i = 0; i < targets.size(); ++i) {
      if (!glob_matches(targets[i], m->path())) continue;
      used[i] = wanted = true;
    }
    if (wanted) out.push_back(linear);
  }
  for (size_t i = 0; i < targets.size(); ++i) {
    if (!used[i]) no_target(targets[i], modules, ties);
  }
  require(!targets.empty(), {.id = "nn.transform_target",
                             .where = "targets",
                             .expected = "at least one glob of linear maps' paths",
                             .got = "none"});
  return out;
}

void check_new_fields(const std::vector<Linear*>& linears, const std::vector<std::string>& fields) {
  for (Linear* linear : linears) {
    require(!linear->frozen(), {.id = "nn.frozen",
                                .where = linear->path(),
                                .expected = "a model transform before the model's structure",
                                .got = "one after it",
                                .code = Code::failed_precondition});
    for (const std::string& field : fields) {
      const auto& params = linear->params();
      const auto& below = linear->children();
      auto same = [&](const auto* member) { return member->name() == field; };
      bool taken = std::any_of(params.begin(), params.end(), same) ||
                   std::any_of(below.begin(), below.end(), same);
      require(!taken, {.id = "nn.transform_twice",
                       .where = linear->path(),
                       .expected = "a linear map without a field '" + field + "'",
                       .got = linear->describe(),
                       .cure = "Each kind of transform can be applied to a map once",
                       .code = Code::already_exists});
    }
  }
}

void check_keys(const Json& json, const std::vector<std::string>& known, const std::string& where) {
  require(json.is_object(), {.id = "nn.transform_key",
                             .where = where,
                             .expected = "an object",
                             .got = json.type_name(),
                             .code = Code::data_loss});
  for (const auto& item : json.items()) {
    bool fine = std::find(known.begin(), known.end(), item.key()) != known.end();
    require(fine, {.id = "nn.transform_key",
                   .where = where,
                   .expected = "the keys " + join(known, ", "),
                   .got = "'" + item.key() + "'",
                   .code = Code::data_loss});
  }
}

std::vector<std::string> read_targets(const Json& json, const std::string& where) {
  auto it = json.find("targets");
  bool good = it != json.end() && it->is_array() &&
              std::all_of(it->begin(), it->end(), [](const Json& j) { return j.is_string(); });
  require(good, {.id = "nn.transform_key",
                 .where = where + ", key 'targets'",
                 .expected = "a list of globs",
                 .got = it == json.end() ? "none" : it->dump().substr(0, 60),
                 .code = Code::data_loss});
  return it->get<std::vector<std::string>>();
}

}  // namespace strata::nn
