#include "strata/rl/grpo_step.h"

#include <algorithm>

#include "strata/base/error.h"
#include "strata/base/log.h"

namespace strata::rl {
namespace {

void check_range(bool ok, const char* field, const char* expected, double got) {
  require(
      ok,
      {.id = "rl.grpo_options", .where = field, .expected = expected, .got = std::to_string(got)});
}

// Adds up metrics of micro-steps: sums, and maxima at the end.
void merge(std::vector<float>& total, const std::vector<float>& part) {
  if (total.empty()) {
    total = part;
    return;
  }
  size_t maxima = total.size() - kMaximaMetrics;
  for (size_t i = 0; i < total.size(); ++i) {
    total[i] = i < maxima ? total[i] + part[i] : std::max(total[i], part[i]);
  }
}

}  // namespace

void check(const GrpoOptions& o) {
  check_range(o.temperature > 0, "temperature", "a temperature above 0", o.temperature);
  check_range(o.max_new_tokens > 0, "max_new_tokens", "at least 1",
              static_cast<double>(o.max_new_tokens));
  check_range(o.iterations > 0, "iterations", "at least 1", static_cast<double>(o.iterations));
  check_range(o.max_version_lag >= 0, "max_version_lag", "0 or more",
              static_cast<double>(o.max_version_lag));
}

// Samples lie group by group; dropped ones are gone.
struct GrpoStep::Judged {
  std::vector<RolloutGroup> groups;
  std::vector<int64_t> sizes;
  std::vector<CompletionMask> masks;
  std::vector<double> rewards;
  std::vector<uint8_t> solved;
  Advantages advantages;
  StepWeights weights;
};

GrpoStep::GrpoStep(Engine& engine, RewardSet& rewards, const GrpoOptions& options,
                   PhaseClock& clock, const runtime::ParameterTable* reference)
    : engine_(engine), rewards_(rewards), options_(options), clock_(clock), reference_(reference) {
  check(options_);
  invariant(!options_.use_reference || reference != nullptr, "rl.grpo_reference",
            "a reference policy when beta > 0");
}

GrpoStep::Judged GrpoStep::judge(std::vector<RolloutGroup> groups, StepMetrics& metrics) {
  PhaseClock::Scope phase(clock_, "reward");
  uint64_t now = engine_.parameters()->version(), lag = 0;
  int64_t stale = 0;
  Judged j;
  for (RolloutGroup& g : groups) {
    for (const Rollout& r : g.rollouts) lag = std::max(lag, now - r.version);
    auto fresh = [&](const Rollout& r) {
      return now - r.version <= static_cast<uint64_t>(options_.max_version_lag);
    };
    auto kept = std::stable_partition(g.rollouts.begin(), g.rollouts.end(), fresh);
    stale += g.rollouts.end() - kept;
    g.rollouts.erase(kept, g.rollouts.end());
    if (g.rollouts.size() < 2) continue;
    j.sizes.push_back(static_cast<int64_t>(g.rollouts.size()));
    j.groups.push_back(std::move(g));
  }
  std::vector<RewardSample> samples;
  std::vector<std::string> ids;
  std::vector<std::vector<uint8_t>> trained;
  for (const RolloutGroup& g : j.groups) {
    for (size_t i = 0; i < g.rollouts.size(); ++i) {
      const Rollout& r = g.rollouts[i];
      CompletionMask m = completion_mask({r.ids, {}, r.finished}, options_.mask);
      ids.push_back(g.example->id + "#" + std::to_string(i));
      samples.push_back({ids.back(), g.example, r.text, m.finished, m.length});
      trained.push_back(m.trained);
      j.masks.push_back(std::move(m));
    }
  }
  metrics.add("sync/version_lag", static_cast<double>(lag));
  if (stale > 0) metrics.add("sync/stale_samples", static_cast<double>(stale));
  if (samples.empty()) return j;
  RewardTable table = rewards_.score(samples);
  j.rewards = table.totals;
  j.solved = solved(samples);
  j.advantages = group_advantages(j.rewards, j.sizes, options_.advantage, ids);
  j.weights = step_weights(trained, options_.aggregation, options_.max_new_tokens);
  add_rewards(metrics, table);
  add_advantages(metrics, j.advantages.stats);
  add_solved(metrics, solved_stats(j.solved, j.sizes));
  add_completions(metrics, j.masks);
  return j;
}

// Samples whose gradient is exactly zero (advantage 0 and no KL term) are left out: their weight
// is already part of the others' denominators.
std::vector<BatchGroup> GrpoStep::batch_groups(const Judged& j) const {
  std::vector<BatchGroup> out;
  size_t sample = 0;
  for (const RolloutGroup& g : j.groups) {
    BatchGroup group{g.prompt, {}, g.example->id};
    for (const Rollout& r : g.rollouts) {
      size_t s = sample++;
      float advantage = j.advantages.values[s];
      if (advantage == 0 && !options_.use_reference) continue;
      if (j.masks[s].trained_tokens == 0) continue;
      BatchCompletion c;
      c.sample = static_cast<int64_t>(s);
      auto length = static_cast<size_t>(j.masks[s].length);
      c.ids.assign(r.ids.begin(), r.ids.begin() + static_cast<ptrdiff_t>(length));
      c.terms.resize(length);
      for (size_t t = 0; t < length; ++t) {
        c.terms[t].weight = j.weights.weights[s][t];
        c.terms[t].advantage = advantage;
        c.terms[t].sampler_logprob = r.logprobs[t];
      }
      group.completions.push_back(std::move(c));
    }
    if (!group.completions.empty()) out.push_back(std::move(group));
  }
  return out;
}

// Fills old and reference log-probs from forward passes.
void GrpoStep::score(std::vector<BatchGroup>& groups) {
  bool old = options_.iterations > 1;
  if (!old && !options_.use_reference) return;
  PhaseClock::Scope phase(clock_, "score");
  std::vector<BatchCompletion*> by_sample;
  for (BatchGroup& g : groups) {
    for (BatchCompletion& c : g.completions) {
      by_sample.resize(std::max(by_sample.size(), static_cast<size_t>(c.sample) + 1));
      by_sample[static_cast<size_t>(c.sample)] = &c;
    }
  }
  for (const TokenBatch& batch : pack(groups, engine_.shape())) {
    auto fill = [&](const runtime::ParameterTable* table, float TokenTerm::*field) {
      std::vector<float> values = engine_.logprobs(batch, options_.temperature, table).logprobs;
      for (const ScoredToken& s : batch.scored) {
        BatchCompletion& c = *by_sample[static_cast<size_t>(s.sample)];
        c.terms[static_cast<size_t>(s.position)].*field = values[static_cast<size_t>(s.place)];
      }
    };
    if (old) fill(nullptr, &TokenTerm::old_logprob);
    if (options_.use_reference) fill(reference_, &TokenTerm::reference_logprob);
  }
}

bool GrpoStep::train(GrpoWork& work, const std::function<bool()>& stop) {
  PhaseClock::Scope phase(clock_, "train");
  const auto batches = static_cast<int64_t>(work.batches.size());
  while (work.done < options_.iterations * batches) {
    if (stop()) return false;
    const TokenBatch& b = work.batches[static_cast<size_t>(work.done % batches)];
    // The aggregation's weights are those of the whole step, so the batches' shares sum to 1.
    double share = 1.0 / static_cast<double>(batches);
    merge(work.sums, engine_.accumulate(b, share, options_.temperature));
    clock_.add_tokens("train", b.real_tokens);
    ++work.done;
    if (work.done % batches != 0) continue;
    work.result.update = engine_.update();
    set_mark(work, engine_);
  }
  return true;
}

void GrpoStep::report_loss(const std::vector<float>& sums, StepMetrics& metrics) const {
  double tokens = std::max(1.0f, sums[0]);
  if (options_.use_reference) metrics.add("loss/kl", sums[1] / tokens);
  metrics.add("loss/entropy", sums[2] / tokens);
  metrics.add("loss/clip_low", sums[3] / tokens);
  metrics.add("loss/clip_high", sums[4] / tokens);
  metrics.add("mismatch/mean", sums[5] / tokens);
  metrics.add("mismatch/kl", sums[6] / tokens);
  metrics.add("loss/ratio_max", sums[7]);
  metrics.add("mismatch/max", sums[8]);
}

GrpoWork GrpoStep::begin(int64_t step, std::vector<RolloutGroup> groups) {
  GrpoWork work;
  work.result.metrics = StepMetrics::now(step);
  Judged judged = judge(std::move(groups), work.result.metrics);
  if (!judged.rewards.empty()) work.groups = batch_groups(judged);
  if (!work.groups.empty()) {
    score(work.groups);
    work.batches = pack(work.groups, engine_.shape());
  }
  work.result.rewards = std::move(judged.rewards);
  work.result.solved = std::move(judged.solved);
  set_mark(work, engine_);
  return work;
}

GrpoStepResult GrpoStep::finish(GrpoWork work) const {
  GrpoStepResult out = std::move(work.result);
  out.trained = !work.batches.empty();
  if (out.trained) {
    report_loss(work.sums, out.metrics);
    out.metrics.add("loss/total", out.update.loss);
    out.metrics.add("loss/grad_norm", out.update.grad_norm);
    out.metrics.add("loss/lr", out.update.lr);
  }
  out.metrics.add("train/updates_skipped", static_cast<double>(engine_.counts().steps_skipped));
  return out;
}

}  // namespace strata::rl
