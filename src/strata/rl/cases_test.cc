// Cases F2, F5 and H5 through the model: a checkpoint is loaded, batches are packed, and the device
// computes log-probabilities, losses and gradients. Values: tests/testdata, float64.
#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "strata/base/json.h"
#include "strata/models/registry.h"
#include "strata/optim/sgd.h"
#include "strata/rl/aggregate.h"
#include "strata/rl/engine.h"
#include "strata/rl/mask.h"
#include "strata/rl/score.h"
#include "strata/sample/tiny_for_test.h"
#include "strata/transform/lower.h"

namespace strata::rl {
namespace {

using sample::test_data;

// A model under plain gradient descent at rate 1: a step's change is its gradient.
struct Descent {
  std::unique_ptr<models::CausalLm> model;
  std::unique_ptr<nn::Structure> structure;
  std::shared_ptr<runtime::Compiler> compiler;
  std::unique_ptr<Engine> engine;

  using Load = std::function<std::vector<runtime::Array>(const Descent&)>;
  Descent(std::unique_ptr<models::CausalLm> m, const Load& load, const BatchShape& shape,
          const TrainOptions& options)
      : model(std::move(m)) {
    structure = std::make_unique<nn::Structure>(*model, nn::ScanOptions{}, model->ties());
    compiler = std::make_shared<runtime::Compiler>(testing::Executor().client(),
                                                   runtime::CompilerOptions{.cache_dir = {}});
    Engine::Setup setup;
    setup.model = model.get();
    setup.structure = structure.get();
    setup.compiler = compiler;
    setup.parameters = load(*this);
    setup.shape = shape;
    setup.options = options;
    optim::Groups groups(structure->manifest(), optim::default_groups());
    engine = std::make_unique<Engine>(
        std::move(setup), optim::UpdatePlan(optim::make_sgd({}), groups,
                                            optim::Schedule({.kind = "constant", .peak = 1.0})));
  }

  static Descent of(const std::string& directory, const BatchShape& shape,
                    const TrainOptions& options) {
    auto load = [&](const Descent& d) {
      auto source = weights::open_source(test_data(directory) / "model.safetensors");
      return checkpoint::load_parameters(d.structure->manifest(), *source, d.compiler->client());
    };
    return Descent(models::build_model(test_data(directory)), load, shape, options);
  }

  std::vector<HostTensor> values() const {
    std::vector<HostTensor> out;
    for (const auto& e : engine->parameters()->entries()) out.push_back(e.second->get());
    return out;
  }
};

BatchCompletion completion(std::vector<int32_t> ids, int64_t sample) {
  BatchCompletion c;
  c.sample = sample;
  c.terms.resize(ids.size());
  for (TokenTerm& t : c.terms) t.weight = 1;
  c.ids = std::move(ids);
  return c;
}

double mean_of(const std::vector<double>& v) {
  double sum = 0;
  for (double x : v) sum += x;
  return sum / static_cast<double>(v.size());
}

class PackedDocuments : public ::testing::Test {
 protected:
  // All documents in one row of 16, as groups without a prompt.
  TokenBatch packed(const std::vector<std::vector<int32_t>>& documents) const {
    std::vector<BatchGroup> groups;
    for (const auto& d : documents) {
      groups.push_back({{}, {completion(d, static_cast<int64_t>(groups.size()))}, "document"});
    }
    std::vector<TokenBatch> batches = pack(groups, kShape);
    EXPECT_EQ(batches.size(), 1u);
    return std::move(batches.at(0));
  }
  // Of the tokens that have a predecessor, document by document.
  std::vector<double> nll(Descent& d, const TokenBatch& batch) const {
    std::vector<float> logprobs = d.engine->logprobs(batch, 1.0).logprobs;
    std::vector<double> out;
    for (size_t i = 0; i < batch.scored.size(); ++i) out.push_back(-double{logprobs[i]});
    return out;
  }

  static constexpr BatchShape kShape{1, 16, 16};
  const TrainOptions kOptions{.loss = LossKind::cross_entropy};
  Json case_ = read_json(test_data("cases/packing.json"));
  std::vector<std::vector<int32_t>> documents_ =
      case_.at("documents").get<std::vector<std::vector<int32_t>>>();
};

TEST_F(PackedDocuments, EveryTokenAsAlone) {
  Descent d = Descent::of("cases/packing", kShape, kOptions);
  std::vector<double> got = nll(d, packed(documents_)), want;
  for (const Json& document : case_.at("nll")) {
    for (const Json& x : document) want.push_back(x);
  }
  ASSERT_EQ(got.size(), 11u);  // 14 tokens, three of which have no predecessor
  for (size_t i = 0; i < want.size(); ++i) EXPECT_NEAR(got[i], want[i], 2e-5) << i;
  EXPECT_NEAR(mean_of(got), case_.at("mean"), 1e-5);
  EXPECT_NEAR(case_.at("mean"), 4.184274, 1e-6);
  for (double wrong : case_.at("wrong").get<std::vector<double>>()) {
    EXPECT_GT(std::abs(mean_of(got) - wrong), 0.1);
  }
}

TEST_F(PackedDocuments, AnEarlierDocumentChangesNothingInLaterOnes) {
  Descent d = Descent::of("cases/packing", kShape, kOptions);
  std::vector<double> before = nll(d, packed(documents_));
  documents_[0] = {60, 1, 2, 50, 13};
  std::vector<double> after = nll(d, packed(documents_));
  for (size_t i = 0; i < 4; ++i) EXPECT_NE(before[i], after[i]) << i;
  for (size_t i = 4; i < 11; ++i) EXPECT_EQ(before[i], after[i]) << i;
}

// The gradient of the packed row is the token-weighted mean of the documents' own gradients.
TEST_F(PackedDocuments, LossAndGradientsEqualSeparateRuns) {
  Descent d = Descent::of("cases/packing", kShape, kOptions);
  std::vector<HostTensor> start = d.values();
  std::vector<std::vector<double>> want;
  for (const HostTensor& t : start) want.emplace_back(static_cast<size_t>(t.size()), 0.0);
  for (const auto& document : documents_) {
    auto length = static_cast<int64_t>(document.size());
    auto f = score_function(*d.model, *d.structure, {1, length, true, DType::f32});
    std::vector<HostTensor> inputs = d.values();
    inputs.push_back(HostTensor::of<int32_t>({1, length}, document));
    std::vector<HostTensor> out = testing::Executor().run(*f, inputs);
    for (size_t s = 0; s < want.size(); ++s) {
      for (size_t i = 0; i < want[s].size(); ++i) {
        want[s][i] += static_cast<double>(length - 1) / 11 * out[3 + s].at(static_cast<int64_t>(i));
      }
    }
  }
  d.engine->accumulate(packed(documents_), 11, 1.0);
  EXPECT_NEAR(d.engine->update().loss, case_.at("mean"), 1e-5);
  std::vector<HostTensor> now = d.values();
  double error = 0, norm = 0;
  for (size_t s = 0; s < want.size(); ++s) {
    for (size_t i = 0; i < want[s].size(); ++i) {
      auto k = static_cast<int64_t>(i);
      error += std::pow(start[s].at(k) - now[s].at(k) - want[s][i], 2);
      norm += std::pow(want[s][i], 2);
    }
  }
  EXPECT_GT(norm, 1);
  EXPECT_LE(std::sqrt(error / norm), 1e-5);
}

// F2. Where every ratio is 1 a token's loss is minus its advantage, so the case's losses can be
// asked for.
class MaskedLosses : public ::testing::Test {
 protected:
  // Completions of five tokens that end where the case says; 9 ends one that is not cut.
  std::vector<std::vector<uint8_t>> masks(bool all_cut) const {
    std::vector<std::vector<uint8_t>> out;
    for (size_t i = 0; i < 4; ++i) {
      std::vector<int32_t> ids(case_.at("lengths").at(i).get<size_t>(), 1);
      if (!ids.empty() && !all_cut && !case_.at("truncated").at(i).get<bool>()) ids.back() = 9;
      MaskOptions options{.stop_ids = {9}, .overlong = Overlong::mask};
      out.push_back(completion_mask({.ids = ids}, options).trained);
    }
    return out;
  }
  UpdateStats step(Descent& d, Aggregation aggregation, bool all_cut) const {
    std::vector<std::vector<uint8_t>> trained = masks(all_cut);
    StepWeights weights = step_weights(trained, aggregation, 5);
    BatchGroup group{{5, 9, 31}, {}, "case"};
    for (size_t i = 0; i < 4; ++i) {
      std::vector<int32_t> ids;
      for (size_t t = 0; t < trained[i].size(); ++t) ids.push_back(int32_t(10 * i + t));
      BatchCompletion c = completion(ids, static_cast<int64_t>(i));
      for (size_t t = 0; t < ids.size(); ++t) {
        c.terms[t].weight = weights.weights[i][t];
        c.terms[t].advantage = -case_.at("loss").at(i).at(t).get<float>();
      }
      if (!ids.empty()) group.completions.push_back(c);
    }
    // Several micro-steps: cut between completions.
    std::vector<TokenBatch> batches = pack(std::vector{group}, d.engine->shape());
    EXPECT_GE(batches.size(), 2u);
    double share = 1.0 / static_cast<double>(batches.size());
    for (const TokenBatch& b : batches) d.engine->accumulate(b, share, 1.0);
    return d.engine->update();
  }

  static constexpr BatchShape kShape{1, 8, 9};
  Json case_ = read_json(test_data("rl/cases.json")).at("masked");
};

TEST_F(MaskedLosses, CountNowhere) {
  Descent d = Descent::of("cases/packing", kShape, {});
  UpdateStats token = step(d, Aggregation::token_mean, false);
  EXPECT_NEAR(token.loss, 0.452, 1e-6);
  EXPECT_GT(token.grad_norm, 0.01);
  EXPECT_NEAR(step(d, Aggregation::sequence_mean, false).loss, case_.at("sequence_mean_over_all"),
              1e-6);
}

TEST_F(MaskedLosses, AllMaskedIsExactlyNothing) {
  Descent d = Descent::of("cases/packing", kShape, {});
  std::vector<HostTensor> before = d.values();
  UpdateStats s = step(d, Aggregation::token_mean, true);
  EXPECT_EQ(s.loss, 0);
  EXPECT_EQ(s.grad_norm, 0);
  std::vector<HostTensor> after = d.values();
  for (size_t i = 0; i < before.size(); ++i) {
    EXPECT_EQ(std::memcmp(before[i].bytes(), after[i].bytes(), before[i].byte_size()), 0) << i;
  }
}

// F5. A model whose logits are the case's at every place: the blocks add nothing, and every
// embedding is the same.
class TemperedLogprobs : public ::testing::Test {
 protected:
  std::vector<runtime::Array> weights(const Descent& d) const {
    std::vector<runtime::Array> out;
    for (const sharding::Slot& s : d.structure->manifest().slots()) {
      HostTensor t(DType::f32, s.type.sizes());
      bool head = s.name == "lm_head.weight";
      bool adds = s.name.find("o_proj") != std::string::npos ||
                  s.name.find("down_proj") != std::string::npos;
      int64_t width = t.dims().back();
      for (int64_t i = 0; i < t.size(); ++i) {
        double logit = head ? kLogits[static_cast<size_t>(i / width)] : 0;
        t.set(i, head ? logit / static_cast<double>(width) : adds ? 0.0 : 1.0);
      }
      out.push_back(runtime::Array::put(d.compiler->client(), t));
    }
    return out;
  }
  Descent build() const {
    Json config = {{"model_type", "llama"},
                   {"vocab_size", 5},
                   {"hidden_size", 8},
                   {"intermediate_size", 8},
                   {"num_hidden_layers", 1},
                   {"num_attention_heads", 2},
                   {"num_key_value_heads", 1},
                   {"max_position_embeddings", 64},
                   {"tie_word_embeddings", false},
                   {"rms_norm_eps", 1e-12}};
    return Descent(models::build_model(config, "case F5"),
                   [this](const Descent& d) { return weights(d); }, {1, 16, 16}, {});
  }

  const std::vector<double> kLogits{2.0, 1.0, 0.2, -0.5, -3.0};
  const std::vector<double> kRight{-0.2266628666773902, -1.893329533344057, -3.22666286667739,
                                   -4.393329533344057, -8.559996200010724};
};

TEST_F(TemperedLogprobs, SamplerAndTrainerReportTheSameDistribution) {
  Descent d = build();
  sample::SamplerOptions options{.rows = {8}, .context = 64};
  sample::Sampler sampler(
      {d.model.get(), d.structure.get(), d.compiler, std::nullopt, {}, options});
  sample::Request request{"a", {1, 2}, {}};
  request.settings.temperature = 0.6;
  request.settings.max_new_tokens = 12;
  request.settings.samples = 8;
  request.settings.seed = 3;
  request.settings.ignore_eos = true;
  std::vector<sample::Result> results =
      sample::generate(sampler, {request}, d.engine->parameters());
  ASSERT_EQ(results.size(), 8u);
  std::vector<int> seen(5, 0);
  for (const sample::Result& r : results) {
    BatchGroup group{{1, 2}, {completion(r.tokens, 0)}, "a"};
    std::vector<TokenBatch> batches = pack(std::vector{group}, d.engine->shape());
    std::vector<float> trainer = d.engine->logprobs(batches.at(0), 0.6).logprobs;
    for (size_t t = 0; t < r.tokens.size(); ++t) {
      auto token = static_cast<size_t>(r.tokens[t]);
      ++seen[token];
      EXPECT_NEAR(r.logprobs[t], kRight[token], 1e-5) << token;
      EXPECT_NEAR(trainer[t], kRight[token], 1e-5) << token;
      EXPECT_NEAR(std::exp(trainer[t] - r.logprobs[t]), 1, 1e-5);
    }
  }
  EXPECT_GT(seen[1], 3);  // the case's own token, log-probability -1.893330
  // At temperature 1 it is another one, on both sides.
  BatchGroup group{{1, 2}, {completion({1}, 0)}, "a"};
  std::vector<TokenBatch> batches = pack(std::vector{group}, d.engine->shape());
  EXPECT_NEAR(d.engine->logprobs(batches.at(0), 1.0).logprobs[0], -1.483661, 1e-5);
}

// What is returned is stated: before the filters, or after them where that is asked for.
TEST_F(TemperedLogprobs, AfterTopPOnlyWhereAsked) {
  Descent d = build();
  for (bool processed : {false, true}) {
    sample::SamplerOptions options{.rows = {8}, .context = 64};
    sample::Sampler sampler(
        {d.model.get(), d.structure.get(), d.compiler, std::nullopt, {}, options});
    sample::Request request{"a", {1, 2}, {}};
    request.settings.temperature = 0.6;
    request.settings.top_p = 0.9;
    request.settings.max_new_tokens = 16;
    request.settings.samples = 4;
    request.settings.seed = 5;
    request.settings.ignore_eos = true;
    request.settings.processed_logprobs = processed;
    int seen = 0;
    for (const sample::Result& r : sample::generate(sampler, {request}, d.engine->parameters())) {
      for (size_t t = 0; t < r.tokens.size(); ++t) {
        EXPECT_LE(r.tokens[t], 1);
        if (r.tokens[t] != 1) continue;
        ++seen;
        EXPECT_NEAR(r.logprobs[t], processed ? -1.8396746555525059 : kRight[1], 1e-5);
      }
    }
    EXPECT_GT(seen, 2);
  }
}

}  // namespace
}  // namespace strata::rl
