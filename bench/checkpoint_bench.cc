// Speed of saving and loading the checkpoint of a training run (parameters and AdamW's moments)
// against `dd` of as many bytes, in turns; what a save in the background costs the steps beside it;
// and the memory that each takes.
//
//   checkpoint_bench MODEL_DIR OUTPUT_DIR [--rounds N] [--steps N] [--rows N] [--no-dd]
//   [--no-steps]
//
// OUTPUT_DIR must not exist; it is removed at the end. Files are dropped from the page cache before
// they are read (posix_fadvise), and all are written with fsync.
#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <functional>
#include <string>
#include <vector>

#include "batch.h"
#include "strata/base/error.h"
#include "strata/base/log.h"
#include "strata/checkpoint/checkpoint_writer.h"
#include "strata/checkpoint/load_parameters.h"
#include "strata/models/registry.h"
#include "strata/pjrt/plugin.h"
#include "strata/rl/engine.h"
#include "strata/runtime/memory_report.h"
#include "strata/weights/tensor_source.h"

namespace strata::bench {
namespace {

namespace fs = std::filesystem;

struct Arguments {
  fs::path model, output;
  int rounds = 3, steps = 4;
  int64_t rows = 8;
  bool dd = true, beside = true;
};

Arguments parse(int argc, char** argv) {
  Arguments a;
  for (int i = 1; i < argc; ++i) {
    std::string word = argv[i];
    auto value = [&] { return std::atoi(i + 1 < argc ? argv[++i] : "0"); };
    if (word == "--rounds") {
      a.rounds = value();
    } else if (word == "--steps") {
      a.steps = value();
    } else if (word == "--rows") {
      a.rows = value();
    } else if (word == "--no-dd") {
      a.dd = false;
    } else if (word == "--no-steps") {
      a.beside = false;
    } else {
      (a.model.empty() ? a.model : a.output) = word;
    }
  }
  return a;
}

double median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  const size_t n = values.size();
  return n == 0 ? 0 : 0.5 * (values[(n - 1) / 2] + values[n / 2]);
}

std::string list_of(const std::vector<double>& values) {
  std::string out;
  for (double v : values) out += fmt::format(" {:.2f}", v);
  return out;
}

// Drops a synced directory's files from the page cache.
void drop_cached(const fs::path& directory) {
  for (const auto& entry : fs::recursive_directory_iterator(directory)) {
    if (!entry.is_regular_file()) continue;
    int fd = ::open(entry.path().c_str(), O_RDONLY | O_CLOEXEC);
    if (fd < 0) continue;
    ::posix_fadvise(fd, 0, 0, POSIX_FADV_DONTNEED);
    ::close(fd);
  }
}

// A run's state, and what takes it to disk and back.
class Bench {
 public:
  explicit Bench(const Arguments& a)
      : arguments_(a),
        model_(models::build_model(a.model)),
        structure_(*model_, {}, model_->ties()),
        compiler_(std::make_shared<runtime::Compiler>(
            pjrt::Client::create(pjrt::Plugin::load("cpu", {.deps_dir = STRATA_DEPS_DIR})))),
        batch_(batch_of(a.rows, 128, model_->config().vocabulary)) {
    auto source = weights::open_source(a.model);
    rl::Engine::Setup setup;
    setup.model = model_.get();
    setup.structure = &structure_;
    setup.compiler = compiler_;
    setup.options.loss = rl::LossKind::cross_entropy;
    setup.shape = batch_.shape;
    setup.parameters = checkpoint::load_parameters(
        structure_.manifest(), *source, compiler_->client(), {.ignorable = model_->ignorable()});
    engine_ = std::make_unique<rl::Engine>(std::move(setup), plan_of(structure_));
    for (const optim::SlotSpec& s : engine_->plan().slots()) {
      types_.push_back({s.name, sharding::Kind::buffer, s.type});
    }
    bytes_ = checkpoint::snapshot_bytes(structure_.manifest(), types_);
  }

  void run() {
    fs::create_directories(arguments_.output);
    fmt::print("{} rounds, {} of state\n", arguments_.rounds, mib(bytes_));
    if (arguments_.dd) against_dd();
    if (arguments_.beside) beside_steps();
  }

 private:
  static std::string mib(uint64_t bytes) {
    return fmt::format("{:.0f} MiB", static_cast<double>(bytes) / (1 << 20));
  }

  checkpoint::Contents contents(int64_t step) const {
    checkpoint::Contents c;
    c.model = &structure_.manifest();
    c.parameters = checkpoint::refs_of(*engine_->parameters());
    c.slot_types = types_;
    c.slots = checkpoint::refs_of(engine_->slots());
    c.run.step = step;
    c.model_directory = arguments_.model;
    return c;
  }

  // Seconds of `action`, and the most memory it took beyond what was held before.
  struct Cost {
    double seconds = 0;
    int64_t extra = 0;
  };
  static Cost cost_of(const std::function<void()>& action) {
    const int64_t before = runtime::process_memory().held();
    runtime::PeakMemory peak;
    Stopwatch clock;
    action();
    return {clock.seconds(), peak.bytes() - before};
  }

  double dd() const {
    const fs::path file = arguments_.output / "dd";
    const uint64_t block = uint64_t{16} << 20;
    std::string command =
        fmt::format("dd if=/dev/zero of='{}' bs=16M count={} conv=fsync 2>/dev/null", file.string(),
                    (bytes_ + block - 1) / block);
    Stopwatch clock;
    require(std::system(command.c_str()) == 0, {.id = "bench.dd",
                                                .where = file.string(),
                                                .expected = "dd to write it",
                                                .got = "a failure"});
    double seconds = clock.seconds();
    fs::remove(file);
    return seconds;
  }

  Cost save(checkpoint::SaveMode mode, const fs::path& run, double* copy = nullptr) const {
    return cost_of([&] {
      Stopwatch clock;
      checkpoint::CheckpointWriter writer(run, mode);
      writer.save(contents(1));
      if (copy != nullptr) *copy = clock.seconds();
      writer.wait();
    });
  }

  Cost load(const fs::path& run) const {
    const fs::path path = checkpoint::latest_checkpoint(run).path;
    drop_cached(path);
    return cost_of([&] {
      checkpoint::load_checkpoint(path, structure_.manifest(), types_, compiler_->client());
    });
  }

  void against_dd() const {
    std::vector<double> dds, streams, snapshots, copies, loads;
    int64_t stream = 0, snapshot = 0, loading = 0;
    const fs::path a = arguments_.output / "a", b = arguments_.output / "b";
    for (int r = 0; r < arguments_.rounds; ++r) {
      dds.push_back(dd());
      Cost c = save(checkpoint::SaveMode::stream, a);
      streams.push_back(c.seconds);
      stream = std::max(stream, c.extra);
      c = load(a);
      loads.push_back(c.seconds);
      loading = std::max(loading, c.extra);
      fs::remove_all(a);
      dds.push_back(dd());
      copies.push_back(0);
      c = save(checkpoint::SaveMode::snapshot, b, &copies.back());
      snapshots.push_back(c.seconds);
      snapshot = std::max(snapshot, c.extra);
      fs::remove_all(b);
    }
    const double base = median(dds);
    auto line = [&](const char* what, const std::vector<double>& seconds, int64_t extra) {
      fmt::print("{}: {:.2f} s, {:.2f} x dd's speed; at most {} extra;{}\n", what, median(seconds),
                 base / median(seconds), mib(static_cast<uint64_t>(std::max<int64_t>(extra, 0))),
                 list_of(seconds));
    };
    line("dd bs=16M conv=fsync", dds, 0);
    line("save, stream", streams, stream);
    line("save, snapshot, until durable", snapshots, snapshot);
    fmt::print("  of that the copy: {:.2f} s;{}\n", median(copies), list_of(copies));
    line("load, hashes compared", loads, loading - static_cast<int64_t>(bytes_));
  }

  double step() {
    Stopwatch clock;
    engine_->accumulate(batch_, static_cast<double>(batch_.real_tokens), 1.0);
    engine_->update();
    for (const auto& entry : engine_->parameters()->entries()) entry.second->wait();
    return clock.seconds();
  }

  // Steps in turns: one alone, then a save and the steps until it is durable.
  void beside_steps() {
    engine_->prepare(false);
    step();
    std::vector<double> alone, beside, copies, durations;
    const fs::path run = arguments_.output / "steps";
    for (int r = 0; r < arguments_.rounds; ++r) {
      for (int k = 0; k < arguments_.steps; ++k) alone.push_back(step());
      checkpoint::CheckpointWriter writer(run);
      Stopwatch clock;
      writer.save(contents(r + 1));
      copies.push_back(clock.seconds());
      // The first one pays for the copy.
      for (int k = 0; writer.under_way(); ++k) {
        beside.push_back(step() + (k == 0 ? copies.back() : 0));
      }
      durations.push_back(clock.seconds());
      writer.wait();
      fs::remove_all(run);
    }
    fmt::print("step of {} x 128 tokens alone: {:.2f} s;{}\n", arguments_.rows, median(alone),
               list_of(alone));
    fmt::print("step beside a snapshot save: {:.2f} s, {:+.1f} %;{}\n", median(beside),
               100 * (median(beside) / median(alone) - 1), list_of(beside));
    fmt::print("  the copy, part of the first of them: {:.2f} s;{}; a save lasts{} s\n",
               median(copies), list_of(copies), list_of(durations));
  }

  Arguments arguments_;
  std::unique_ptr<models::CausalLm> model_;
  nn::Structure structure_;
  std::shared_ptr<runtime::Compiler> compiler_;
  rl::TokenBatch batch_;
  std::unique_ptr<rl::Engine> engine_;
  std::vector<sharding::Slot> types_;
  uint64_t bytes_ = 0;
};

int run(int argc, char** argv) {
  Arguments a = parse(argc, argv);
  if (a.model.empty() || a.output.empty() || fs::exists(a.output)) {
    fmt::print(stderr, "usage: checkpoint_bench MODEL_DIR OUTPUT_DIR (which does not exist)\n");
    return 2;
  }
  Bench(a).run();
  fs::remove_all(a.output);
  return 0;
}

}  // namespace
}  // namespace strata::bench

int main(int argc, char** argv) {
  try {
    return strata::bench::run(argc, argv);
  } catch (const strata::Error& e) {
    fmt::print(stderr, "checkpoint_bench: {}\n", e.what());
    return 1;
  }
}
