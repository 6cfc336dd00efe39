// Speed of a train step (gradients and AdamW) of 8 x 128 tokens (unless said otherwise), all
// scored, against the time its products take alone (--products), against a peer (--serve, see
// serve.h), or from the start of the process to the dispatch of the first step (--first).
//
//   train_bench MODEL_DIR [--bf16] [--unrolled] [--remat POLICY] [--chunk TOKENS] [--policy]
//               [--rows N] [--tokens N] [--steps N] [--products | --serve | --first] [--program
//               FILE]
//
// --policy: the policy loss with entropy metrics instead of cross entropy. --program: writes the
// compiled text of the gradients.
#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "batch.h"
#include "products.h"
#include "serve.h"
#include "strata/base/error.h"
#include "strata/base/file.h"
#include "strata/base/log.h"
#include "strata/checkpoint/load_parameters.h"
#include "strata/models/registry.h"
#include "strata/pjrt/plugin.h"
#include "strata/rl/engine.h"
#include "strata/transform/lower.h"
#include "strata/weights/tensor_source.h"

namespace strata::bench {
namespace {

struct Arguments {
  std::string model, program, remat = "dots";
  bool bf16 = false, unrolled = false, policy = false;
  bool products = false, serve = false, first = false;
  int64_t chunk = 0;
  int64_t rows = 8, tokens = 128;
  int steps = 5;
};

Arguments parse(int argc, char** argv) {
  Arguments a;
  for (int i = 1; i < argc; ++i) {
    std::string word = argv[i];
    auto value = [&] { return std::string(i + 1 < argc ? argv[++i] : ""); };
    if (word == "--bf16")
      a.bf16 = true;
    else if (word == "--unrolled")
      a.unrolled = true;
    else if (word == "--policy")
      a.policy = true;
    else if (word == "--products")
      a.products = true;
    else if (word == "--serve")
      a.serve = true;
    else if (word == "--first")
      a.first = true;
    else if (word == "--remat")
      a.remat = value();
    else if (word == "--chunk")
      a.chunk = std::atoll(value().c_str());
    else if (word == "--rows")
      a.rows = std::atoll(value().c_str());
    else if (word == "--tokens")
      a.tokens = std::atoll(value().c_str());
    else if (word == "--steps")
      a.steps = std::atoi(value().c_str());
    else if (word == "--program")
      a.program = value();
    else
      a.model = word;
  }
  return a;
}

struct Trainer {
  Stopwatch since_start;
  std::unique_ptr<models::CausalLm> model;
  std::unique_ptr<nn::Structure> structure;
  std::shared_ptr<runtime::Compiler> compiler;
  rl::TrainOptions options;
  rl::TokenBatch batch;
  std::unique_ptr<rl::Engine> engine;
  double load_seconds = 0;

  explicit Trainer(const Arguments& a)
      : model(models::build_model(std::filesystem::path(a.model))) {
    nn::ScanMode mode = a.unrolled ? nn::ScanMode::off : nn::ScanMode::automatic;
    structure = std::make_unique<nn::Structure>(
        *model, nn::ScanOptions{mode, 0, ops::parse_remat(a.remat)}, model->ties());
    compiler = std::make_shared<runtime::Compiler>(
        pjrt::Client::create(pjrt::Plugin::load("cpu", {.deps_dir = STRATA_DEPS_DIR})));
    batch = batch_of(a.rows, a.tokens, model->config().vocabulary);
    options.loss = a.policy ? rl::LossKind::policy : rl::LossKind::cross_entropy;
    options.compute = a.bf16 ? DType::bf16 : DType::f32;
    if (a.chunk > 0) options.chunk = a.chunk;
    auto source = weights::open_source(a.model);
    rl::Engine::Setup setup;
    setup.model = model.get();
    setup.structure = structure.get();
    setup.compiler = compiler;
    Stopwatch load;
    setup.parameters = checkpoint::load_parameters(
        structure->manifest(), *source, compiler->client(), {.ignorable = model->ignorable()});
    load_seconds = load.seconds();
    setup.shape = batch.shape;
    setup.options = options;
    engine = std::make_unique<rl::Engine>(std::move(setup), plan_of(*structure));
  }

  std::unique_ptr<ir::Function> gradients() const {
    return rl::gradients_function({model.get(), structure.get()}, engine->plan(), batch.shape,
                                  options, false);
  }

  // Everything up to the first step: what is left then is to send the batch and start it.
  Json first() {
    engine->prepare(false);
    runtime::CompileCounters c = compiler->counters();
    return {{"name", "strata"},
            {"seconds", since_start.seconds()},
            {"load", load_seconds},
            {"trace", c.trace_seconds},
            {"compile", c.compile_seconds},
            {"from_disk", c.load_seconds}};
  }

  Json step() {
    Stopwatch clock;
    double cpu = cpu_seconds(), host = thread_seconds();
    engine->accumulate(batch, static_cast<double>(batch.real_tokens), 1.0);
    double gradients = clock.seconds();
    rl::UpdateStats stats = engine->update();
    host = thread_seconds() - host;
    for (const auto& entry : engine->parameters()->entries()) entry.second->wait();
    return {{"name", "strata"},       {"seconds", clock.seconds()},
            {"gradients", gradients}, {"cpu", cpu_seconds() - cpu},
            {"host", host},           {"loss", stats.loss}};
  }
};

void print_products(const std::vector<Product>& products) {
  for (const Product& p : products) {
    fmt::print("{:4} x {:6.2f} ms {:6.1f} GFLOP/s {:4.1f} % of the bound  {}\n", p.count,
               p.seconds * 1e3, p.flops / p.seconds * 1e-9,
               100 * p.seconds * static_cast<double>(p.count) / bound_of(products).seconds, p.text);
  }
}

void run_steps(const Arguments& a, Trainer& t) {
  auto function = t.gradients();
  std::vector<Product> products = products_of(*function);
  t.step();  // compiles
  std::vector<double> seconds, bounds;
  for (int i = 0; i < a.steps; ++i) {
    Json step = t.step();
    seconds.push_back(step["seconds"]);
    fmt::print("{}\n", step.dump());
    if (!a.products) continue;
    measure(products, *t.compiler, 3);
    bounds.push_back(bound_of(products).seconds);
  }
  std::sort(seconds.begin(), seconds.end());
  double median = seconds[seconds.size() / 2];
  fmt::print("median {:.3f} s\n", median);
  if (!a.products) return;
  print_products(products);
  std::sort(bounds.begin(), bounds.end());
  double bound = bounds[bounds.size() / 2];
  fmt::print("products: {:.3f} TFLOP in {:.3f} s alone; {:.3f} of the bound\n",
             bound_of(products).flops * 1e-12, bound, bound / median);
}

int run(int argc, char** argv) {
  Arguments a = parse(argc, argv);
  if (a.model.empty()) {
    fmt::print(stderr, "usage: train_bench MODEL_DIR [options]; see the head of its source\n");
    return 2;
  }
  Trainer t(a);
  if (!a.program.empty()) {
    std::string text = transform::program_text(*t.gradients());
    auto program = pjrt::Executable::compile(t.compiler->client(), text);
    write_file_atomically(a.program, program.optimized_program().text());
    auto memory = program.memory_stats();
    if (memory.value) fmt::print("temporaries {:.0f} MB\n", memory.value->temporaries * 1e-6);
  }
  if (a.first) {
    fmt::print("{}\n", t.first().dump());
  } else if (a.serve) {
    t.step();
    serve([&] { return t.step(); });
  } else {
    run_steps(a, t);
  }
  return 0;
}

}  // namespace
}  // namespace strata::bench

int main(int argc, char** argv) {
  try {
    return strata::bench::run(argc, argv);
  } catch (const strata::Error& e) {
    fmt::print(stderr, "{}\n", e.what());
    return 1;
  }
}
