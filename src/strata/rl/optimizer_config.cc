#include "strata/rl/optimizer_config.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <map>

#include "strata/base/error.h"
#include "strata/base/log.h"
#include "strata/base/strings.h"
#include "strata/optim/adafactor.h"
#include "strata/optim/adamw.h"
#include "strata/optim/lion.h"
#include "strata/optim/muon.h"
#include "strata/optim/sgd.h"
#include "strata/optim/zero.h"

namespace strata::rl {
namespace {

using OptimizerPtr = std::shared_ptr<const optim::Optimizer>;

constexpr NumberRange kPositive{0, std::numeric_limits<double>::infinity(), true};
constexpr NumberRange kNotNegative{0};
constexpr NumberRange kFraction{0, 1};

// The keys that only some optimisers have, by optimiser.
const std::map<std::string, std::vector<std::string>>& own_keys() {
  static const std::map<std::string, std::vector<std::string>> keys = {
      {"adamw", {"b1", "b2", "eps", "eps_root", "nesterov"}},
      {"lion", {"b1", "b2"}},
      {"sgd", {"momentum", "nesterov"}},
      {"adafactor",
       {"momentum", "decay_power", "eps", "clip_rms", "parameter_scale", "min_factored"}},
      {"muon", {"beta", "steps", "b1", "b2", "eps", "adam_lr", "compat"}},
  };
  return keys;
}

bool has_key(const std::string& optimizer, const std::string& key) {
  const std::vector<std::string>& keys = own_keys().at(optimizer);
  return std::find(keys.begin(), keys.end(), key) != keys.end();
}

// A key that is another optimiser's would otherwise be refused as unknown, which it is not.
void decline_others(const Config& c, const std::string& name) {
  for (const auto& row : own_keys()) {
    for (const std::string& key : row.second) {
      if (has_key(name, key) || !c.has("optimizer." + key)) continue;
      std::vector<std::string> owners;
      for (const auto& other : own_keys()) {
        if (has_key(other.first, key)) owners.push_back(other.first);
      }
      fail({.id = "rl.optimizer_key",
            .where = c.place("optimizer." + key) + ", optimizer." + key,
            .expected = "an option of " + name + ": " + join(own_keys().at(name), ", "),
            .got = "one of " + join(owners, ", "),
            .cure = "Declined: " + name +
                    " has no such number; remove the key or choose another "
                    "optimizer.name"});
    }
  }
}

DType read_m_dtype(Config& c) {
  const std::vector<std::string> allowed = {"f32", "bf16"};
  return parse_dtype(c.choice("optimizer.m_dtype", "f32", allowed));
}

void read_adam(Config& c, optim::AdamWConfig& a) {
  a.b1 = c.number("optimizer.b1", a.b1, kFraction);
  a.b2 = c.number("optimizer.b2", a.b2, kFraction);
  a.eps = c.number("optimizer.eps", a.eps, kPositive);
}

OptimizerPtr read_adamw(Config& c) {
  optim::AdamWConfig a;
  read_adam(c, a);
  a.eps_root = c.number("optimizer.eps_root", a.eps_root, kNotNegative);
  a.nesterov = c.flag("optimizer.nesterov", a.nesterov);
  a.weight_decay = c.number("optimizer.weight_decay", a.weight_decay, kNotNegative);
  a.m_dtype = read_m_dtype(c);
  return optim::make_adamw(a);
}

OptimizerPtr read_lion(Config& c) {
  optim::LionConfig l;
  l.b1 = c.number("optimizer.b1", l.b1, kFraction);
  l.b2 = c.number("optimizer.b2", l.b2, kFraction);
  l.weight_decay = c.number("optimizer.weight_decay", l.weight_decay, kNotNegative);
  l.m_dtype = read_m_dtype(c);
  return optim::make_lion(l);
}

OptimizerPtr read_sgd(Config& c) {
  optim::SgdConfig s;
  s.momentum = c.number("optimizer.momentum", s.momentum, kFraction);
  s.nesterov = c.flag("optimizer.nesterov", s.nesterov);
  s.weight_decay = c.number("optimizer.weight_decay", s.weight_decay, kNotNegative);
  s.trace_dtype = read_m_dtype(c);
  return optim::make_sgd(s);
}

OptimizerPtr read_adafactor(Config& c) {
  optim::AdafactorConfig a;
  if (c.has("optimizer.momentum")) a.momentum = c.number("optimizer.momentum", kFraction);
  a.decay_power = c.number("optimizer.decay_power", a.decay_power, kNotNegative);
  a.eps = c.number("optimizer.eps", a.eps, kPositive);
  a.clip_rms = c.number("optimizer.clip_rms", a.clip_rms, kPositive);
  a.parameter_scale = c.flag("optimizer.parameter_scale", a.parameter_scale);
  a.min_factored = c.integer("optimizer.min_factored", a.min_factored, {1, int64_t{1} << 40});
  a.weight_decay = c.number("optimizer.weight_decay", a.weight_decay, kNotNegative);
  a.m_dtype = read_m_dtype(c);
  return optim::make_adafactor(a);
}

OptimizerPtr read_muon(Config& c) {
  optim::MuonConfig m;
  m.beta = c.number("optimizer.beta", m.beta, kFraction);
  m.steps = c.integer("optimizer.steps", m.steps, {1, 20});
  m.weight_decay = c.number("optimizer.weight_decay", m.weight_decay, kNotNegative);
  m.m_dtype = m.adamw.m_dtype = read_m_dtype(c);
  read_adam(c, m.adamw);
  const std::vector<std::string> compat = {"none", "optax"};
  m.optax_rest = c.choice("optimizer.compat", "none", compat) == "optax";
  return optim::make_muon(m);
}

// Muon's groups; AdamW's part of them has a rate of its own when optimizer.adam_lr gives one.
optim::GroupsConfig read_muon_groups(Config& c, double lr) {
  double adam_lr = c.number("optimizer.adam_lr", lr, kNotNegative);
  require(lr > 0 || adam_lr == lr,
          {.id = "rl.adam_lr",
           .where = c.place("optimizer.adam_lr") + ", optimizer.adam_lr",
           .expected = "a rate for the groups that follow Muon's schedule, so optimizer.lr > 0",
           .got = fmt::format("{} beside optimizer.lr = {}", adam_lr, lr)});
  return optim::muon_groups(lr > 0 ? adam_lr / lr : 1);
}

OptimizerPtr read_rule(Config& c, const std::string& name) {
  if (name == "adamw") return read_adamw(c);
  if (name == "lion") return read_lion(c);
  if (name == "sgd") return read_sgd(c);
  return name == "muon" ? read_muon(c) : read_adafactor(c);
}

std::optional<int64_t> optional_count(Config& c, const std::string& key) {
  int64_t v = c.integer(key, -1, {-1, int64_t{1} << 40});
  return v < 0 ? std::nullopt : std::optional<int64_t>(v);
}

optim::ScheduleConfig read_schedule(Config& c) {
  optim::ScheduleConfig s;
  s.kind = c.choice("optimizer.schedule", "constant", optim::schedule_kinds());
  s.peak = c.number("optimizer.lr", kNotNegative);
  s.warmup = optional_count(c, "optimizer.warmup");
  s.stable = optional_count(c, "optimizer.stable");
  s.decay = optional_count(c, "optimizer.decay");
  s.total = optional_count(c, "optimizer.total");
  if (c.has("optimizer.end_lr")) s.end = c.number("optimizer.end_lr", kNotNegative);
  if (c.has("optimizer.init_lr")) s.init = c.number("optimizer.init_lr", kNotNegative);
  return s;
}

void log_whole_slots(const std::vector<std::string>& reasons) {
  constexpr size_t kShown = 20;
  for (size_t i = 0; i < std::min(kShown, reasons.size()); ++i) log_line("ZeRO: " + reasons[i]);
  if (reasons.size() > kShown) {
    log_line(fmt::format("ZeRO: and {} more of these", reasons.size() - kShown));
  }
}

}  // namespace

OptimizerConfig read_optimizer(Config& c) {
  OptimizerConfig out;
  const std::vector<std::string> names = {"adamw", "lion", "sgd", "adafactor", "muon"};
  const std::string name = c.choice("optimizer.name", "adamw", names);
  decline_others(c, name);
  out.optimizer = read_rule(c, name);
  out.schedule = read_schedule(c);
  if (name == "muon") out.groups = read_muon_groups(c, out.schedule.peak);
  out.rest_rate = c.has("optimizer.adam_lr");
  out.clip_norm = c.number("optimizer.clip_norm", 1.0, kNotNegative);
  out.max_skipped = c.integer("optimizer.max_skipped", 8, {0, int64_t{1} << 40});
  const double decay = c.number("optimizer.ema_decay", 0.0, kFraction);
  if (decay > 0) out.ema_decay = decay;
  const std::vector<std::string> zero = {"none", "slots"};
  out.zero_slots = c.choice("optimizer.zero", "none", zero) == "slots";
  return out;
}

optim::UpdatePlan make_plan(const OptimizerConfig& o, const sharding::Manifest& manifest,
                            const sharding::Mesh& mesh) {
  double clip = o.clip_norm > 0 ? o.clip_norm : std::numeric_limits<double>::infinity();
  const bool adapters = optim::has_adapters(manifest);
  require(!adapters || !o.rest_rate,
          {.id = "rl.adam_lr",
           .where = "optimizer.adam_lr",
           .expected = "no rate for embeddings, norms and the like, as only adapters are trained",
           .got = "one",
           .cure = "Declined: every adapter is a matrix and follows optimizer.lr"});
  optim::UpdatePlan plan(o.optimizer,
                         optim::Groups(manifest, adapters ? optim::adapter_groups() : o.groups),
                         optim::Schedule(o.schedule), clip);
  if (o.ema_decay) plan = plan.with_average(*o.ema_decay);
  for (const std::string& line : split(plan.groups().text(), '\n')) {
    if (!line.empty()) log_line("group " + line);
  }
  if (!o.zero_slots) return plan;
  optim::ZeroPlan zero = optim::zero1(plan, optim::zero_axes(mesh), mesh);
  log_whole_slots(zero.reasons);
  return zero.plan;
}

}  // namespace strata::rl
