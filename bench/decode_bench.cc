// Decoding speed: prompts of 40 tokens, 64 new ones each, ROWS at once, drawn at temperature 1.
// Prints the wall time of the fastest and the median round (prompts included) and the CPU time of
// the whole process, which other work on the machine disturbs less.
//
//   decode_bench MODEL_DIR [--shared] [--scan] [--greedy] [--serve] [ROWS…]
//
// --shared: all rows answer one prompt, as the samples of a group do. --scan: equal layers'
// parameters are stacked, as training may keep them. --greedy: temperature 0. --serve: a round of
// the first number of rows for each "go" (serve.h). Default rows: 1 32.
#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>
#include <string>
#include <utility>
#include <vector>

#include "serve.h"
#include "strata/base/error.h"
#include "strata/base/log.h"
#include "strata/checkpoint/load_parameters.h"
#include "strata/models/registry.h"
#include "strata/pjrt/plugin.h"
#include "strata/sample/sampler.h"
#include "strata/weights/tensor_source.h"

namespace strata {
namespace {

constexpr int kRounds = 5;
constexpr int64_t kPrompt = 40;
constexpr int64_t kNew = 64;

struct Arguments {
  std::string model;
  bool shared = false;
  bool scan = false, greedy = false, serve = false;
  std::vector<int64_t> rows;
};

Arguments parse(int argc, char** argv) {
  Arguments out;
  for (int i = 1; i < argc; ++i) {
    std::string word = argv[i];
    if (word == "--shared") {
      out.shared = true;
    } else if (word == "--scan") {
      out.scan = true;
    } else if (word == "--greedy") {
      out.greedy = true;
    } else if (word == "--serve") {
      out.serve = true;
    } else if (out.model.empty()) {
      out.model = word;
    } else {
      out.rows.push_back(std::atoll(word.c_str()));
    }
  }
  if (out.rows.empty()) out.rows = {1, 32};
  return out;
}

std::vector<sample::Request> requests(const Arguments& a, int64_t rows, int64_t vocabulary) {
  std::vector<sample::Request> out;
  for (int64_t r = 0; r < (a.shared ? 1 : rows); ++r) {
    sample::Request request;
    request.id = std::to_string(r);
    for (int64_t i = 0; i < kPrompt; ++i) {
      request.tokens.push_back(static_cast<int32_t>((100 + i * 37 + r * 11) % vocabulary));
    }
    request.settings.max_new_tokens = kNew;
    request.settings.ignore_eos = true;
    request.settings.seed = 1;
    request.settings.samples = a.shared ? rows : 1;
    if (a.greedy) request.settings.temperature = 0;
    out.push_back(std::move(request));
  }
  return out;
}

runtime::TablePtr load(const Arguments& a, const models::CausalLm& model,
                       const nn::Structure& structure, const runtime::ClientPtr& client) {
  auto source = weights::open_source(a.model);
  std::vector<runtime::Array> arrays = checkpoint::load_parameters(
      structure.manifest(), *source, client, {.ignorable = model.ignorable()});
  std::vector<std::pair<std::string, runtime::Array>> named;
  for (size_t i = 0; i < arrays.size(); ++i) {
    named.emplace_back(structure.manifest().slots()[i].name, std::move(arrays[i]));
  }
  return runtime::ParameterTable::make(1, std::move(named));
}

void measure(const Arguments& a, int64_t rows, const models::CausalLm& model,
             const nn::Structure& structure, const std::shared_ptr<runtime::Compiler>& compiler,
             const runtime::TablePtr& parameters) {
  sample::SamplerOptions options;
  options.rows = {rows};
  sample::Sampler sampler({&model, &structure, compiler, std::nullopt, {}, options});
  auto round = [&] {
    sample::generate(sampler, requests(a, rows, model.config().vocabulary), parameters);
  };
  round();  // compiles
  if (a.serve) {
    bench::serve([&] {
      Stopwatch clock;
      round();
      return Json{{"name", "strata"},
                  {"seconds", clock.seconds()},
                  {"work", rows * kNew},
                  {"unit", "tokens"}};
    });
    return;
  }
  std::vector<double> seconds;
  double cpu = bench::cpu_seconds();
  for (int i = 0; i < kRounds; ++i) {
    Stopwatch clock;
    round();
    seconds.push_back(clock.seconds());
  }
  cpu = (bench::cpu_seconds() - cpu) / kRounds;
  std::sort(seconds.begin(), seconds.end());
  auto tokens = static_cast<double>(rows * kNew);
  fmt::print("{:3} rows: {:.1f} tokens/s (median {:.1f}), {:.2f} s of CPU in {:.2f} s\n", rows,
             tokens / seconds.front(), tokens / seconds[kRounds / 2], cpu, seconds[kRounds / 2]);
}

int run(int argc, char** argv) {
  Arguments a = parse(argc, argv);
  if (a.model.empty()) {
    fmt::print(stderr, "usage: decode_bench MODEL_DIR [--shared] [--scan] [ROWS...]\n");
    return 2;
  }
  auto model = models::build_model(std::filesystem::path(a.model));
  nn::ScanMode mode = a.scan ? nn::ScanMode::automatic : nn::ScanMode::off;
  nn::Structure structure(*model, {.mode = mode}, model->ties());
  auto client = pjrt::Client::create(pjrt::Plugin::load("cpu", {.deps_dir = STRATA_DEPS_DIR}));
  auto compiler = std::make_shared<runtime::Compiler>(client);
  runtime::TablePtr parameters = load(a, *model, structure, client);
  if (a.serve) a.rows.resize(1);
  for (int64_t rows : a.rows) measure(a, rows, *model, structure, compiler, parameters);
  return 0;
}

}  // namespace
}  // namespace strata

int main(int argc, char** argv) {
  try {
    return strata::run(argc, argv);
  } catch (const strata::Error& e) {
    fmt::print(stderr, "{}\n", e.what());
    return 1;
  }
}
