#include <fmt/format.h>

#include <CLI/CLI.hpp>

#include "strata/base/interrupt.h"
#include "strata/cli/commands.h"
#include "strata/cli/device.h"
#include "strata/cli/interrupted.h"
#include "strata/rl/grpo.h"
#include "strata/rl/sampler_rollouts.h"
#include "strata/rl/sft.h"

namespace strata::cli {
namespace {

struct Flags {
  std::string config;
  std::vector<std::string> overrides;
  std::string export_to;
  bool resume = false;
  bool json = false;
};

// The file with --set and the flags that stand for keys, which win.
Config open_config(const Flags& flags) {
  std::vector<std::string> overrides = flags.overrides;
  if (flags.resume) overrides.push_back("run.resume=true");
  if (!flags.export_to.empty()) overrides.push_back("run.export=" + Json(flags.export_to).dump());
  return Config::from_file(flags.config, overrides);
}

// What a script that started the run sees, so that it does not take it for finished.
void end_if_interrupted(bool interrupted, int64_t steps, const std::filesystem::path& output) {
  if (!interrupted) return;
  fail_interrupted(output.string(), "a run to its end",
                   fmt::format("an interruption after {} steps", steps),
                   "What was done is saved: go on with --resume");
}

void train_sft(const Flags& flags) {
  Config file = open_config(flags);
  rl::SftConfig config = rl::read_sft_config(file);
  std::filesystem::path output = config.run.output;
  auto compiler = open_compiler({.plugin = config.plugin}, config.session.placement.mesh.size());
  InterruptFlag interrupt;
  rl::SftRun run(std::move(config), compiler);
  rl::SftSummary s = run.run([&](rl::StopPoint) { return interrupt.raised(); });
  if (flags.json) {
    Json out{
        {"steps", s.steps},         {"first_loss", s.first_loss},
        {"last_loss", s.last_loss}, {"eval_loss", s.eval_loss ? Json(*s.eval_loss) : Json(nullptr)},
        {"seconds", s.seconds},     {"interrupted", s.interrupted}};
    fmt::print("{}\n", out.dump());
  } else {
    fmt::print("sft: {} steps, loss {:.4f} -> {:.4f}", s.steps, s.first_loss, s.last_loss);
    if (s.eval_loss) fmt::print(", eval loss {:.4f}", *s.eval_loss);
    fmt::print(", {:.0f} s, in {}\n", s.seconds, output.string());
  }
  end_if_interrupted(s.interrupted, s.steps, output);
}

void print_grpo(const rl::GrpoSummary& s, const std::filesystem::path& output) {
  if (s.interrupted) {
    fmt::print("grpo: {} steps, in {}\n", s.steps, output.string());
    return;
  }
  fmt::print("checkpoints  {}\nexport       {}\nreport       {}\n",
             (output / "checkpoints").string(), (output / "export").string(),
             (output / "report.html").string());
  fmt::print(
      "grpo: accuracy {:.1f}% -> {:.1f}% on {} held-out problems, {:.0f} s, peak {:.2f} GiB\n",
      100 * s.before, 100 * s.after, s.held_out, s.seconds, s.peak_gib);
}

void train_grpo(const Flags& flags) {
  Config file = open_config(flags);
  rl::GrpoConfig config = rl::read_grpo_config(file);
  std::filesystem::path output = config.run.output;
  auto compiler = open_compiler({.plugin = config.plugin}, config.session.placement.mesh.size());
  InterruptFlag interrupt;
  rl::GrpoRun run(std::move(config), compiler, rl::make_sampler_rollouts);
  rl::GrpoSummary s = run.run([&](rl::StopPoint) { return interrupt.raised(); });
  if (flags.json) {
    Json out{{"steps", s.steps},
             {"before", s.before},
             {"after", s.after},
             {"held_out", s.held_out},
             {"seconds", s.seconds},
             {"peak_gib", s.peak_gib},
             {"interrupted", s.interrupted}};
    fmt::print("{}\n", out.dump());
  } else {
    print_grpo(s, output);
  }
  end_if_interrupted(s.interrupted, s.steps, output);
}

CLI::App* declare_method(CLI::App& app, const char* name, const char* summary,
                         void (*train)(const Flags&)) {
  auto flags = std::make_shared<Flags>();
  CLI::App* sub = app.add_subcommand(name, summary);
  sub->add_option("CONFIG", flags->config, "A TOML file")->required();
  sub->add_option("--set", flags->overrides, "KEY=VALUE in place of the file's; repeatable")
      ->take_all()
      ->allow_extra_args(false);
  sub->add_flag("--resume", flags->resume, "Go on from the latest checkpoint in run.output");
  sub->add_flag("--json", flags->json, "Print the summary as JSON");
  sub->callback([flags, train] { train(*flags); });
  if (std::string(name) == "sft") {
    sub->add_option("--export", flags->export_to,
                    "Where the Hugging Face directory goes (default: OUTPUT/export)");
  }
  return sub;
}

void declare(CLI::App& app) {
  app.require_subcommand(1);
  declare_method(app, "sft", "Supervised fine-tuning on a JSON-lines data set", train_sft);
  declare_method(app, "grpo", "Group-relative policy optimisation on a verifiable task",
                 train_grpo);
}

}  // namespace

Command train_command() {
  return {"train", "Post-train a model",
          "strata train sft examples/sft.toml --set optimizer.lr=2e-5\n"
          "strata train grpo examples/arithmetic.toml --set run.output=runs/a\n"
          "strata train grpo examples/arithmetic.toml --set run.output=runs/a --resume\n",
          declare};
}

}  // namespace strata::cli
