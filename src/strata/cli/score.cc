#include "strata/rl/score.h"

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <cmath>

#include "strata/base/error.h"
#include "strata/base/log.h"
#include "strata/base/strings.h"
#include "strata/checkpoint/load_parameters.h"
#include "strata/checkpoint/model_files.h"
#include "strata/cli/commands.h"
#include "strata/cli/interrupted.h"
#include "strata/cli/layout.h"
#include "strata/cli/score_output.h"
#include "strata/models/registry.h"
#include "strata/runtime/executor.h"
#include "strata/runtime/memory_report.h"
#include "strata/transform/lower.h"

namespace strata::cli {
namespace {

struct Flags {
  std::string model;
  std::string input;
  std::string out;
  bool gradients = false;
  std::string dtype = "f32";
  LayoutFlags layout;
  bool json = false;
};

// `input_ids` of the input file: (B, T) i32, every id one of the vocabulary's.
HostTensor read_ids(const std::string& path, int64_t vocabulary) {
  auto source = weights::open_source(path);
  const weights::TensorView& view = source->get("input_ids");
  std::string where = path + ", tensor 'input_ids'";
  require(view.dtype == DType::i32 && view.dims.size() == 2,
          {.id = "cli.score_input",
           .where = where,
           .expected = "i32 with dims [rows, tokens]",
           .got = fmt::format("{} with dims {}", name_of(view.dtype), list_text(view.dims))});
  HostTensor ids = weights::to_host(view);
  std::span<const int32_t> values = std::as_const(ids).data<int32_t>();
  for (size_t i = 0; i < values.size(); ++i) {
    if (values[i] >= 0 && values[i] < vocabulary) continue;
    size_t tokens = static_cast<size_t>(view.dims[1]);
    fail({.id = "cli.score_token",
          .where = fmt::format("{} [{}, {}]", where, i / tokens, i % tokens),
          .expected = fmt::format("an id of the model's vocabulary, 0 to {}", vocabulary - 1),
          .got = std::to_string(values[i]),
          .cure = "Tokenize with this model's own tokenizer",
          .code = Code::out_of_range});
  }
  return ids;
}

struct Seconds {
  double load = 0, trace = 0, run = 0, write = 0, total = 0;
};

// What a run of the command was, for its report.
struct Report {
  Dims dims;  // of input_ids
  double loss = 0;
  int64_t parameters = 0;
  std::vector<std::string> plans, reasons;
  ScoreFile file;
  runtime::CompileCounters compiled;
  runtime::MemoryReport memory;
  Seconds seconds;
};

Json json_of(const Report& r, const Flags& flags) {
  Json seconds = {{"load", r.seconds.load},
                  {"trace", r.seconds.trace},
                  {"compile", r.memory.times.compile},
                  {"cache", r.memory.times.load},
                  {"run", r.seconds.run},
                  {"write", r.seconds.write},
                  {"total", r.seconds.total}};
  return {{"out", flags.out},
          {"tensors", r.file.tensors},
          {"bytes", r.file.bytes},
          {"rows", r.dims[0]},
          {"tokens", r.dims[1]},
          {"loss", r.loss},
          {"parameters", r.parameters},
          {"dtype", flags.dtype},
          {"layers", r.plans},
          {"not_scanned", r.reasons},
          {"compiles", r.compiled.compiles},
          {"seconds", std::move(seconds)},
          {"memory", r.memory.json()}};
}

void print_report(const Report& r, const Flags& flags) {
  if (flags.json) {
    fmt::print("{}\n", json_of(r, flags).dump(-1, ' ', false, Json::error_handler_t::replace));
    return;
  }
  fmt::print("loss {:.6f} nats a token over {} tokens\n", r.loss, r.dims[0] * (r.dims[1] - 1));
  for (const std::string& plan : r.plans) fmt::print("{}\n", plan);
  for (const std::string& reason : r.reasons) fmt::print("  not scanned: {}\n", reason);
  fmt::print("{}: {} tensors, {}\n", flags.out, r.file.tensors, bytes_text(r.file.bytes));
  fmt::print("{:.1f} s: load {:.1f}, compile {:.1f}{}, run {:.1f}, write {:.1f}\n", r.seconds.total,
             r.seconds.load, r.memory.times.compile + r.memory.times.load,
             r.compiled.compiles == 0 ? " (from the cache)" : "", r.seconds.run, r.seconds.write);
}

// One scoring of one file. The steps run in the order in which they are cheap, so that wrong input
// is told before anything is computed.
class Scorer {
 public:
  explicit Scorer(const Flags& flags)
      : flags_(flags),
        progress_("score"),
        model_(models::build_model(std::filesystem::path(flags.model))),
        ids_(read_ids(flags.input, model_->config().vocabulary)),
        structure_(make_structure(*model_, flags.layout)) {
    check_output(flags.out);
    check_not_read(flags.out, std::vector<std::filesystem::path>{flags.input});
    report_.dims = ids_.dims();
    report_.parameters = structure_->manifest().elements(sharding::Kind::param);
    for (const auto& plan : structure_->manifest().plans()) report_.plans.push_back(plan.text());
    report_.reasons = structure_->reasons();
  }

  Report run() {
    std::unique_ptr<ir::Function> function = trace();
    load();
    std::vector<runtime::Array> results = execute(*function);
    report_.loss = results[2].get().at(0);
    if (!std::isfinite(report_.loss)) log_warning("the loss is not finite");
    progress_.update(3, 4, "writing");
    Stopwatch watch;
    // Before this there is nothing to remove: Ctrl-C ends the process at once.
    InterruptFlag interrupt;
    report_.file = write_scores(flags_.out, structure_->manifest(), results,
                                [&] { stop_if_raised(interrupt, flags_.out); });
    report_.seconds.write = watch.seconds();
    report_.seconds.total = total_.seconds();
    return std::move(report_);
  }

 private:
  std::unique_ptr<ir::Function> trace() {
    Stopwatch watch;
    options_ = {ids_.dims()[0], ids_.dims()[1], flags_.gradients, parse_dtype(flags_.dtype)};
    auto function = rl::score_function(*model_, *structure_, options_);
    text_ = transform::program_text(*function);
    report_.seconds.trace = watch.seconds();
    return function;
  }

  void load() {
    progress_.update(0, 4, "loading");
    Stopwatch watch;
    auto source = weights::open_source(flags_.model);
    check_not_read(flags_.out, source->files());
    compiler_ = open_compiler(flags_.layout, structure_->mesh());
    arrays_ =
        checkpoint::load_parameters(structure_->manifest(), *source, compiler_->client(),
                                    {.mesh = structure_->mesh(), .ignorable = model_->ignorable()});
    report_.seconds.load = watch.seconds();
  }

  std::vector<runtime::Array> execute(const ir::Function& function) {
    progress_.update(1, 4, "compiling");
    runtime::CompileRequest request = runtime::request_for(function, "score");
    request.trace_seconds = report_.seconds.trace;
    auto program = compiler_->compile(text_, request);
    report_.compiled = compiler_->counters();
    report_.memory = runtime::memory_report(*program);
    progress_.update(2, 4, "running");
    Stopwatch watch;
    sharding::Resolved ids = rl::score_input_type(structure_->placement(), options_);
    for (const std::string& reason : ids.reasons) log_warning(reason);
    auto spec = runtime::ArraySpec::sharded(ids.type, structure_->mesh(), "input_ids");
    arrays_.push_back(
        runtime::Array::put(compiler_->client(), spec, {ids_.bytes(), ids_.byte_size()}));
    std::vector<runtime::Argument> arguments;
    for (const runtime::Array& a : arrays_) arguments.push_back(runtime::Argument::borrow(a));
    runtime::Executor executor(program);
    std::vector<runtime::Array> results = executor.run(arguments);
    executor.wait();
    report_.seconds.run = watch.seconds();
    return results;
  }

  const Flags& flags_;
  Stopwatch total_;
  Progress progress_;
  std::unique_ptr<models::CausalLm> model_;
  HostTensor ids_;
  std::unique_ptr<nn::Structure> structure_;
  rl::ScoreOptions options_;
  std::string text_;
  std::shared_ptr<runtime::Compiler> compiler_;
  std::vector<runtime::Array> arrays_;
  Report report_;
};

Report score(const Flags& flags) { return Scorer(flags).run(); }

void declare(CLI::App& app) {
  auto flags = std::make_shared<Flags>();
  app.add_option("--model", flags->model, "A model directory, checkpoint, run or stacked tree")
      ->required();
  app.add_option("--input", flags->input,
                 "A safetensors file with `input_ids`, i32 [rows, tokens]; others are not read")
      ->required();
  app.add_option("--out", flags->out,
                 "The safetensors file to write: logits, token_logprobs, loss (f32)")
      ->required();
  app.add_flag("--grads", flags->gradients, "Write grad.NAME, the gradient of the loss, as well");
  app.add_option("--dtype", flags->dtype, "Element type inside the model: f32 or bf16")
      ->check(CLI::IsMember({"f32", "bf16"}))
      ->capture_default_str();
  declare_layout(app, flags->layout);
  app.add_flag("--json", flags->json, "Print the report as one JSON object");
  app.callback([flags] {
    flags->model = checkpoint::model_path(flags->model).string();
    print_report(score(*flags), *flags);
  });
}

}  // namespace

Command score_command() {
  return {"score", "Log-probabilities, loss and gradients of given tokens under a model",
          "strata score --model DIR --input ids.safetensors --out scores.safetensors\n"
          "strata score --model DIR --input ids.safetensors --out scores.safetensors --grads\n"
          "strata score --model DIR --input ids.safetensors --out scores.safetensors --dtype bf16 "
          "--json\n",
          declare};
}

}  // namespace strata::cli
