#include "strata/rl/sampler_rollouts.h"

#include "strata/base/error.h"
#include "strata/rl/engine.h"
#include "strata/sample/generation_config.h"
#include "strata/sample/sampler.h"

namespace strata::rl {
namespace {

class SamplerRollouts : public RolloutSource {
 public:
  SamplerRollouts(const Session& session, Engine& engine)
      : session_(session), engine_(engine), sampler_(setup(session)) {}

  std::vector<RolloutGroup> sample(std::span<const Example* const> examples,
                                   const RolloutSpec& spec) override {
    std::vector<RolloutGroup> groups;
    std::vector<sample::Request> requests;
    for (size_t i = 0; i < examples.size(); ++i) {
      RolloutGroup g;
      g.example = examples[i];
      g.prompt = session_.prompt_ids(examples[i]->messages);
      requests.push_back(request(g, spec, i));
      groups.push_back(std::move(g));
    }
    std::vector<sample::Result> results =
        sample::generate(sampler_, std::move(requests), engine_.parameters(), spec.interrupted);
    if (results.empty()) return {};
    auto each = static_cast<size_t>(spec.group_size);
    invariant(results.size() == examples.size() * each, "rl.rollout_count",
              "one result per sample of each prompt");
    for (size_t i = 0; i < results.size(); ++i) {
      groups[i / each].rollouts.push_back(rollout(results[i], *examples[i / each]));
    }
    return groups;
  }

 private:
  static sample::SamplerSetup setup(const Session& session) {
    sample::SamplerSetup s;
    s.model = session.model.get();
    s.structure = session.structure.get();
    s.compiler = session.compiler;
    s.tokenizer = session.tokenizer;
    s.eos = session.eos_ids();
    s.options.rows = {8, 16, 32, 64};
    return s;
  }

  // The id makes the random stream: the run's seed, the step, the prompt's place.
  static sample::Request request(const RolloutGroup& g, const RolloutSpec& spec, size_t place) {
    sample::Request r;
    r.id = g.example->id + "@" + std::to_string(spec.stream) + "." + std::to_string(place);
    r.tokens = g.prompt;
    r.settings.max_new_tokens = spec.max_new_tokens;
    r.settings.temperature = spec.temperature;
    r.settings.samples = spec.group_size;
    r.settings.seed = spec.seed;
    return r;
  }

  static Rollout rollout(sample::Result& r, const Example& example) {
    require(r.finish_reason != sample::FinishReason::error, {.id = "rl.rollout_failed",
                                                             .where = "sampling " + example.id,
                                                             .expected = "an answer",
                                                             .got = r.error,
                                                             .code = Code::aborted});
    Rollout out;
    out.ids = std::move(r.tokens);
    out.logprobs = std::move(r.logprobs);
    out.text = std::move(r.text);
    out.finished = r.finish_reason == sample::FinishReason::stop;
    out.version = r.first_version;
    return out;
  }

  const Session& session_;
  Engine& engine_;
  sample::Sampler sampler_;
};

}  // namespace

std::unique_ptr<RolloutSource> make_sampler_rollouts(const Session& session, Engine& engine) {
  return std::make_unique<SamplerRollouts>(session, engine);
}

}  // namespace strata::rl
