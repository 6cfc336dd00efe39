// What scanning the layers costs and saves, on a small random model (hidden 256, 4 x 128 tokens
// unless said otherwise), AdamW:
//
//   scan_bench [--compile] [--steps] [--trace] [--memory] [--family qwen3|llama] [--hidden N]
//              [--rows N] [--tokens N] [--remat POLICY] [--repeat N]     (no choice: all four)
//
// --compile: seconds to compile a scanned train step of 4 and of 64 layers. --steps: seconds of a
// step, scanned and unrolled, of 8 and of 32 layers, taking turns. --trace: seconds to trace and
// print a step of 32 layers. --memory: temporaries that each layer adds under remat full, in units
// of one residual stream (rows x tokens x hidden float32 numbers). Every figure of time is the
// least of several.
#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>
#include <functional>
#include <limits>
#include <memory>
#include <string>
#include <vector>

#include "batch.h"
#include "strata/base/error.h"
#include "strata/base/log.h"
#include "strata/models/registry.h"
#include "strata/pjrt/plugin.h"
#include "strata/rl/engine.h"
#include "strata/transform/lower.h"

namespace strata::bench {
namespace {

struct Arguments {
  bool compile = false, steps = false, trace = false, memory = false;
  std::string family = "qwen3", remat = "dots";
  int64_t hidden = 256, rows = 4, tokens = 128;
  int repeat = 5;
};

Arguments parse(int argc, char** argv) {
  Arguments a;
  for (int i = 1; i < argc; ++i) {
    std::string word = argv[i];
    auto value = [&] { return std::string(i + 1 < argc ? argv[++i] : ""); };
    auto number = [&] { return std::max<int64_t>(1, std::atoll(value().c_str())); };
    if (word == "--compile") a.compile = true;
    if (word == "--steps") a.steps = true;
    if (word == "--trace") a.trace = true;
    if (word == "--memory") a.memory = true;
    if (word == "--family") a.family = value();
    if (word == "--remat") a.remat = value();
    if (word == "--hidden") a.hidden = number();
    if (word == "--rows") a.rows = number();
    if (word == "--tokens") a.tokens = number();
    if (word == "--repeat") a.repeat = static_cast<int>(number());
  }
  if (!a.compile && !a.steps && !a.trace && !a.memory) {
    a.compile = a.steps = a.trace = a.memory = true;
  }
  return a;
}

Json config_of(const Arguments& a, int64_t layers) {
  return {{"model_type", a.family},          {"vocab_size", 512},
          {"hidden_size", a.hidden},         {"intermediate_size", 3 * a.hidden},
          {"num_hidden_layers", layers},     {"num_attention_heads", 4},
          {"num_key_value_heads", 2},        {"head_dim", a.hidden / 4},
          {"max_position_embeddings", 4096}, {"rms_norm_eps", 1e-6},
          {"rope_theta", 10000.0},           {"hidden_act", "silu"},
          {"tie_word_embeddings", true}};
}

// A model in one form, and the programs of its train step.
struct Model {
  std::unique_ptr<models::CausalLm> model;
  std::unique_ptr<nn::Structure> structure;
  rl::BatchShape shape;
  rl::TrainOptions options;

  Model(const Arguments& a, int64_t layers, nn::ScanMode mode, const std::string& remat)
      : model(models::build_model(config_of(a, layers), "scan_bench")),
        structure(std::make_unique<nn::Structure>(
            *model, nn::ScanOptions{mode, 0, ops::parse_remat(remat)}, model->ties())),
        shape{a.rows, a.tokens, a.rows * a.tokens} {
    options.loss = rl::LossKind::cross_entropy;
  }

  std::string gradients_text() const {
    return transform::program_text(*rl::gradients_function(
        {model.get(), structure.get()}, plan_of(*structure), shape, options, false));
  }
  std::string update_text() const {
    return transform::program_text(*rl::update_function(plan_of(*structure)));
  }
};

using Client = std::shared_ptr<const pjrt::Client>;

double seconds_of(const std::function<void()>& action) {
  Stopwatch clock;
  action();
  return clock.seconds();
}

void bench_compile(const Arguments& a, const Client& client) {
  const std::vector<int64_t> layers = {4, 64};
  std::vector<std::string> gradients, updates;
  for (int64_t l : layers) {
    Model m(a, l, nn::ScanMode::automatic, a.remat);
    gradients.push_back(m.gradients_text());
    updates.push_back(m.update_text());
  }
  constexpr double kNever = std::numeric_limits<double>::infinity();
  std::vector<double> of_gradients(2, kNever), of_updates(2, kNever);
  for (int r = 0; r < a.repeat; ++r) {
    for (size_t i = 0; i < 2; ++i) {
      auto compile = [&](const std::string& text) {
        return seconds_of([&] { pjrt::Executable::compile(client, text); });
      };
      of_gradients[i] = std::min(of_gradients[i], compile(gradients[i]));
      of_updates[i] = std::min(of_updates[i], compile(updates[i]));
    }
  }
  for (size_t i = 0; i < 2; ++i) {
    fmt::print("compile, {:2} layers scanned: gradients {:.3f} s, update {:.3f} s\n", layers[i],
               of_gradients[i], of_updates[i]);
  }
  fmt::print("compile, 64 layers / 4 layers: {:.3f}\n",
             (of_gradients[1] + of_updates[1]) / (of_gradients[0] + of_updates[0]));
}

// A model under training.
struct Trainer {
  Model m;
  rl::TokenBatch batch;
  std::unique_ptr<rl::Engine> engine;

  Trainer(const Arguments& a, int64_t layers, nn::ScanMode mode, const Client& client)
      : m(a, layers, mode, a.remat),
        batch(batch_of(a.rows, a.tokens, m.model->config().vocabulary)) {
    rl::Engine::Setup setup;
    setup.model = m.model.get();
    setup.structure = m.structure.get();
    setup.compiler =
        std::make_shared<runtime::Compiler>(client, runtime::CompilerOptions{.cache_dir = {}});
    setup.shape = m.shape;
    setup.options = m.options;
    uint32_t word = 1;
    for (const sharding::Slot& slot : m.structure->manifest().slots()) {
      HostTensor t(DType::f32, slot.type.sizes());
      for (float& x : t.data<float>()) {
        word = word * 1664525u + 1013904223u;
        x = (static_cast<float>(word >> 8) / static_cast<float>(1 << 24) - 0.5f) * 0.1f;
      }
      setup.parameters.push_back(runtime::Array::put(client, t));
    }
    engine = std::make_unique<rl::Engine>(std::move(setup), plan_of(*m.structure));
  }

  void step() {
    engine->accumulate(batch, static_cast<double>(batch.real_tokens), 1.0);
    engine->update();
    for (const auto& entry : engine->parameters()->entries()) entry.second->wait();
  }
};

void bench_steps(const Arguments& a, const Client& client) {
  for (int64_t layers : {8, 32}) {
    Trainer scanned(a, layers, nn::ScanMode::automatic, client);
    Trainer unrolled(a, layers, nn::ScanMode::off, client);
    scanned.step();
    unrolled.step();
    double least_scanned = std::numeric_limits<double>::infinity(), least_unrolled = least_scanned;
    for (int r = 0; r < 3 * a.repeat; ++r) {
      least_scanned = std::min(least_scanned, seconds_of([&] { scanned.step(); }));
      least_unrolled = std::min(least_unrolled, seconds_of([&] { unrolled.step(); }));
    }
    fmt::print(
        "step, {:2} layers: scanned {:.4f} s, unrolled {:.4f} s, scanned / unrolled {:.3f}\n",
        layers, least_scanned, least_unrolled, least_scanned / least_unrolled);
  }
}

void bench_trace(const Arguments& a) {
  for (nn::ScanMode mode : {nn::ScanMode::automatic, nn::ScanMode::off}) {
    double build = std::numeric_limits<double>::infinity(), trace = build;
    size_t bytes = 0;
    for (int r = 0; r < a.repeat; ++r) {
      std::unique_ptr<Model> m;
      build =
          std::min(build, seconds_of([&] { m = std::make_unique<Model>(a, 32, mode, a.remat); }));
      trace = std::min(
          trace, seconds_of([&] { bytes = m->gradients_text().size() + m->update_text().size(); }));
    }
    fmt::print("trace and lower, 32 layers {}: {:.4f} s (building and planning {:.4f} s; {} kB)\n",
               mode == nn::ScanMode::off ? "unrolled" : "scanned", trace, build, bytes / 1000);
  }
}

int64_t temporaries_of(const Arguments& a, int64_t layers, nn::ScanMode mode,
                       const std::string& remat, const Client& client) {
  Model m(a, layers, mode, remat);
  auto stats = pjrt::Executable::compile(client, m.gradients_text()).memory_stats();
  require(stats.value.has_value(), {.id = "bench.memory",
                                    .where = "scan_bench --memory",
                                    .expected = "a plug-in that tells a program's memory",
                                    .got = stats.declined});
  return stats.value->temporaries;
}

void bench_memory(const Arguments& a, const Client& client) {
  const double stream = static_cast<double>(a.rows * a.tokens * a.hidden * 4);
  for (const std::string& remat : {std::string("full"), a.remat, std::string("none")}) {
    int64_t few = temporaries_of(a, 8, nn::ScanMode::automatic, remat, client);
    int64_t many = temporaries_of(a, 24, nn::ScanMode::automatic, remat, client);
    fmt::print(
        "temporaries, remat {:4}: {:.1f} MB at 8 layers, {:.1f} MB at 24: {:.2f} residual "
        "streams a layer\n",
        remat, static_cast<double>(few) * 1e-6, static_cast<double>(many) * 1e-6,
        static_cast<double>(many - few) / 16 / stream);
  }
}

void run(const Arguments& a) {
  Client client = pjrt::Client::create(pjrt::Plugin::load("cpu", {.deps_dir = STRATA_DEPS_DIR}));
  if (a.trace) bench_trace(a);
  if (a.memory) bench_memory(a, client);
  if (a.compile) bench_compile(a, client);
  if (a.steps) bench_steps(a, client);
}

}  // namespace
}  // namespace strata::bench

int main(int argc, char** argv) {
  try {
    strata::bench::run(strata::bench::parse(argc, argv));
  } catch (const strata::Error& e) {
    fmt::print(stderr, "{}\n", e.what());
    return 1;
  }
}
