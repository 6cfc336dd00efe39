#include "strata/cli/layout.h"

#include <CLI/CLI.hpp>

#include "strata/base/error.h"
#include "strata/base/log.h"
#include "strata/cli/checks.h"

namespace strata::cli {

void declare_layout(CLI::App& app, LayoutFlags& flags) {
  const char* group = "Layers and devices";
  app.add_option("--scan", flags.scan,
                 "Run equal layers as one loop: auto, off, or force (also lone ones)")
      ->check(CLI::IsMember({"auto", "off", "force"}))
      ->capture_default_str()
      ->group(group);
  app.add_option("--param-scan-axis", flags.scan_axis,
                 "Where stacked parameters carry their layer dim; negative counts from the end")
      ->capture_default_str()
      ->group(group);
  app.add_flag("--nested-scan", flags.nested,
               "Equal layers next to each other in a cycle are a loop inside of the loop")
      ->group(group);
  app.add_option(
         "--remat", flags.remat,
         "What the reverse sweep recomputes: none, dots, full, names:TAG,TAG or offload:TAG,TAG")
      ->check(parses_with([](const std::string& text) { ops::parse_remat(text); }))
      ->capture_default_str()
      ->group(group);
  app.add_option("--mesh", flags.mesh,
                 "Devices by axis, such as fsdp=2,tensor=2 (axes that rules know: data, fsdp, "
                 "tensor, layers)")
      ->check(parses_with([](const std::string& text) { sharding::Mesh::parse(text); }))
      ->group(group);
  app.add_option("--shard", flags.rules,
                 "A rule 'NAME = AXIS, AXIS+AXIS' in place of the model's for that dim; repeatable")
      ->check(parses_with([](const std::string& text) { sharding::parse_rule(text); }))
      ->take_all()
      ->allow_extra_args(false)
      ->group(group);
  app.add_option("--spec", flags.specs,
                 "'GLOB = SPEC' for parameters of a name, such as \"*.q_proj.weight = P('tensor', "
                 "'fsdp')\", whatever the rules say; repeatable")
      ->check(parses_with([](const std::string& text) { sharding::parse_spec_rule(text); }))
      ->take_all()
      ->allow_extra_args(false)
      ->group(group);
  app.add_flag("--strict", flags.strict, "Replication that no rule asks for is an error")
      ->group(group);
  declare_device(app, flags.device);
}

nn::ScanOptions scan_options(const LayoutFlags& flags) {
  return {nn::parse_scan_mode(flags.scan), flags.scan_axis, ops::parse_remat(flags.remat),
          flags.nested};
}

sharding::PlacementOptions placement_options(const LayoutFlags& flags) {
  sharding::PlacementOptions o;
  o.mesh = sharding::Mesh::parse(flags.mesh);
  for (const std::string& rule : flags.rules) o.rules.push_back(sharding::parse_rule(rule));
  for (const std::string& spec : flags.specs) o.specs.push_back(sharding::parse_spec_rule(spec));
  o.strict = flags.strict;
  return o;
}

std::unique_ptr<nn::Structure> make_structure(const models::CausalLm& model,
                                              const LayoutFlags& flags) {
  auto structure = std::make_unique<nn::Structure>(model, scan_options(flags), model.ties());
  structure->place(placement_options(flags), model.sharding_rules());
  for (const std::string& reason : structure->placement().reasons) log_warning(reason);
  return structure;
}

std::shared_ptr<runtime::Compiler> open_compiler(const LayoutFlags& flags,
                                                 const sharding::Mesh& mesh) {
  return open_compiler(flags.device, mesh.size());
}

}  // namespace strata::cli
