#include "strata/rl/grpo_config.h"

#include <limits>

#include "strata/base/error.h"

namespace strata::rl {
namespace {

constexpr NumberRange kPositive{0, std::numeric_limits<double>::infinity(), true};
constexpr NumberRange kNotNegative{0};
constexpr IntRange kCount{1, int64_t{1} << 40};
constexpr IntRange kCountOrZero{0, int64_t{1} << 40};

std::string choice(Config& c, const std::string& key, const std::string& fallback,
                   const std::vector<std::string>& allowed) {
  return c.choice(key, fallback, allowed);
}

// The options of a task or reward that are given.
void read_options(Config& c, const std::string& prefix, Json& options,
                  std::initializer_list<std::pair<const char*, char>> known) {
  for (const auto& [name, kind] : known) {
    std::string key = prefix + "." + name;
    c.allow(key);
    if (!c.has(key)) continue;
    if (kind == 'i') options[name] = c.integer(key);
    if (kind == 'd') options[name] = c.number(key);
    if (kind == 's') options[name] = c.text(key);
    if (kind == 'b') options[name] = c.flag(key, false);
    if (kind == 'l') options[name] = c.texts(key);
  }
}

TaskConfig read_task(Config& c, uint64_t seed) {
  TaskConfig t;
  t.name = c.text("task.name", "arithmetic");
  t.seed = static_cast<uint64_t>(c.integer("task.seed", static_cast<int64_t>(seed), kCountOrZero));
  t.train = c.integer("task.train", 0, kCountOrZero);
  t.validation = c.integer("task.validation", 60, kCountOrZero);
  t.held_out = c.integer("task.held_out", 200, kCountOrZero);
  read_options(c, "task.options", t.options,
               {{"min", 'i'}, {"max", 'i'}, {"ops", 's'}, {"count", 'i'}, {"length", 'i'}});
  return t;
}

std::vector<RewardConfig> read_rewards(Config& c) {
  std::vector<RewardConfig> out;
  for (int64_t i = 0; i < c.count("rewards"); ++i) {
    std::string prefix = "rewards[" + std::to_string(i) + "]";
    RewardConfig r;
    r.kind = c.text(prefix + ".kind");
    r.name = c.text(prefix + ".name", "");
    r.weight = c.number(prefix + ".weight", 1.0, {});
    c.allow(prefix + ".on_failure");
    if (c.has(prefix + ".on_failure")) r.on_failure = c.number(prefix + ".on_failure");
    read_options(c, prefix + ".options", r.options,
                 {{"require_finished", 'b'},
                  {"free", 'i'},
                  {"max", 'i'},
                  {"max_tokens", 'i'},
                  {"window", 'i'},
                  {"command", 'l'},
                  {"deadline_seconds", 'd'}});
    out.push_back(std::move(r));
  }
  if (out.empty()) out.push_back({.kind = "shaped"});
  return out;
}

PolicyLossOptions read_policy(Config& c) {
  PolicyLossOptions p;
  p.clip.low = c.number("grpo.clip_low", 0.2, kNotNegative);
  p.clip.high = c.number("grpo.clip_high", 0.2, kNotNegative);
  c.allow("grpo.dual_clip");
  if (c.has("grpo.dual_clip")) p.clip.dual = c.number("grpo.dual_clip", kPositive);
  p.ratio = parse_ratio_level(choice(c, "grpo.ratio", "token", {"token", "sequence"}));
  p.beta = c.number("grpo.beta", 0.0, kNotNegative);
  p.kl = parse_kl_estimator(choice(c, "grpo.kl_estimator", "k3", {"k1", "k2", "k3"}));
  double cap = c.number("grpo.importance_cap", 2.0, kNotNegative);
  if (cap > 0) p.importance_cap = cap;
  return p;
}

GrpoOptions read_step(Config& c, double beta) {
  GrpoOptions o;
  o.temperature = c.number("grpo.temperature", 1.0, kPositive);
  o.max_new_tokens = c.integer("grpo.max_new_tokens", 64, kCount);
  o.advantage.std = parse_advantage_std(
      choice(c, "grpo.advantage_std", "sample", {"sample", "population", "none"}));
  o.advantage.eps = c.number("grpo.advantage_eps", 1e-4, kNotNegative);
  o.aggregation = parse_aggregation(
      choice(c, "grpo.aggregation", "sequence_mean", {"sequence_mean", "token_mean", "constant"}));
  o.mask.overlong = parse_overlong(choice(c, "grpo.overlong", "keep", {"keep", "mask"}));
  o.iterations = c.integer("grpo.iterations", 1, kCount);
  o.max_version_lag = c.integer("grpo.max_version_lag", 1, kCountOrZero);
  o.use_reference = beta > 0;
  return o;
}

}  // namespace

RunConfig read_run(Config& c) {
  RunConfig r;
  std::string output = c.text("run.output");
  require(!output.empty(), {.id = "rl.run_output",
                            .where = "run.output",
                            .expected = "the path of a directory",
                            .got = "an empty text"});
  r.output = output;
  r.seed = static_cast<uint64_t>(c.integer("run.seed", 0, kCountOrZero));
  r.save_every = c.integer("run.save_every", 0, kCountOrZero);
  r.save_seconds = c.number("run.save_seconds", 0.0, kNotNegative);
  r.max_seconds = c.number("run.max_seconds", 0.0, kNotNegative);
  r.save_mode =
      checkpoint::parse_save_mode(choice(c, "run.save_mode", "snapshot", {"snapshot", "stream"}));
  r.keep_last = c.integer("run.keep_last", 2, kCount);
  r.keep_every = c.integer("run.keep_every", 0, kCountOrZero);
  r.resume = c.flag("run.resume", false);
  r.use_average = c.flag("run.use_average", true);
  return r;
}

GrpoConfig read_grpo_config(Config& c) {
  GrpoConfig g;
  g.session = read_session_options(c);
  g.plugin = c.text("model.plugin", "cpu");
  g.run = read_run(c);
  g.optimizer = read_optimizer(c);
  g.task = read_task(c, g.run.seed);
  g.data = c.text("task.data", "");
  g.rewards = read_rewards(c);
  g.train.policy = read_policy(c);
  g.step = read_step(c, g.train.policy.beta);
  g.train.policy.read_old = g.step.iterations > 1;
  g.train.compute = parse_dtype(choice(c, "train.compute", "f32", {"f32", "bf16"}));
  g.train.chunk = c.integer("train.logit_chunk", 0, kCountOrZero);
  g.shape.rows = c.integer("train.rows", 1, kCount);
  g.shape.tokens = c.integer("train.row_tokens", 0, kCountOrZero);
  g.shape.scored = c.integer("train.scored_tokens", 0, kCountOrZero);
  g.steps = c.integer("grpo.steps", kCount);
  g.prompts_per_step = c.integer("grpo.prompts_per_step", 8, {1, 65536});
  g.group_size = c.integer("grpo.group_size", 8, {2, 4096});
  g.eval_every = c.integer("grpo.eval_every", 0, kCountOrZero);
  c.reject_unknown();
  g.effective = c.effective();
  return g;
}

}  // namespace strata::rl
