// What loading and saving cost in host memory, counted as the process's anonymous and shared pages.
// On a CPU device memory is host memory, so a loaded model counts once.
#include <malloc.h>

#include <atomic>
#include <chrono>
#include <fstream>
#include <thread>

#include "strata/checkpoint/checkpoint_for_test.h"
#include "strata/checkpoint/checkpoint_store.h"
#include "strata/checkpoint/checkpoint_writer.h"
#include "strata/checkpoint/convert.h"
#include "strata/weights/safetensors_writer.h"

namespace strata::checkpoint {
namespace {

namespace fs = std::filesystem;

// Of this process, in MiB.
double resident() {
  std::ifstream status("/proc/self/status");
  std::string key;
  double total = 0, kib = 0;
  while (status >> key) {
    if ((key == "RssAnon:" || key == "RssShmem:") && status >> kib) total += kib / 1024;
  }
  return total;
}

// What is resident once the allocator has given back what it kept for later.
double trimmed() {
  ::malloc_trim(0);
  return resident();
}

// The most that is resident while it lives, sampled by a thread.
class Peak {
 public:
  Peak() : before_(trimmed()), highest_(before_), sampler_([this] { sample(); }) {}
  ~Peak() { stop(); }
  // MiB above what was resident at the start.
  double stop() {
    stopping_ = true;
    if (sampler_.joinable()) sampler_.join();
    return highest_ - before_;
  }

 private:
  void sample() {
    while (!stopping_) {
      highest_ = std::max(highest_, resident());
      std::this_thread::sleep_for(std::chrono::microseconds(200));
    }
    highest_ = std::max(highest_, resident());
  }
  double before_, highest_;
  std::atomic<bool> stopping_ = false;
  std::thread sampler_;
};

class MemoryTest : public ::testing::Test {
 protected:
  // Writes a model of `leaves` parameters in each of 8 layers, of 1 MiB each as float32.
  void write_model(int leaves, DType dtype) {
    for (int layer = 0; layer < 8; ++layer) {
      for (int leaf = 0; leaf < leaves; ++leaf) {
        wanted_.push_back(
            {"model.layers." + std::to_string(layer) + ".leaf" + std::to_string(leaf) + ".weight",
             {512, 512}});
      }
    }
    std::vector<weights::TensorSpec> specs;
    for (const weights::Wanted& w : wanted_) specs.push_back({w.name, dtype, w.dims});
    weights::SafetensorsWriter writer(scratch_ / "model.safetensors", specs);
    HostTensor one = convert(HostTensor::of<float>({1}, {1.5f}), dtype);
    HostTensor ones(dtype, {512, 512});
    for (size_t i = 0; i < ones.byte_size(); ++i) ones.bytes()[i] = one.bytes()[i % size_of(dtype)];
    for (size_t i = 0; i < specs.size(); ++i) writer.write({ones.bytes(), ones.byte_size()});
    writer.finish();
    weights::put_file(scratch_ / "config.json", "{}");
  }
  std::vector<runtime::Array> load(const sharding::Manifest& model) {
    auto source = weights::open_source(scratch_ / "model.safetensors");
    return load_parameters(model, *source, client_);
  }

  weights::ScratchDirectory scratch_;
  runtime::ClientPtr client_ = new_client();
  std::vector<weights::Wanted> wanted_;
};

TEST_F(MemoryTest, LoadingNeedsOneModel) {
  for (DType dtype : {DType::f32, DType::bf16}) {
    for (Form form : {Form(0), Form(1), Form(std::nullopt)}) {
      wanted_.clear();
      write_model(8, dtype);
      sharding::Manifest model = manifest_of(wanted_, form);
      Peak peak;
      std::vector<runtime::Array> arrays = load(model);
      double used = peak.stop();
      EXPECT_LE(used, 1.1 * 64) << name_of(dtype) << ", axis " << form.value_or(-1);
      EXPECT_GE(used, 0.9 * 64) << "the arrays themselves are not seen";
    }
  }
}

TEST_F(MemoryTest, StreamingNeedsOneBucketMore) {
  write_model(8, DType::f32);
  for (Form form : {Form(0), Form(1), Form(std::nullopt)}) {
    sharding::Manifest model = manifest_of(wanted_, form);
    std::vector<runtime::Array> arrays = load(model);
    Contents contents{&model, refs_of(arrays), {}, {}, {}, scratch_.path()};
    CheckpointStore store(scratch_ / ("run" + std::to_string(form.value_or(9))));
    Peak peak;
    fs::path path = store.save(contents);
    double used = peak.stop();
    // The only buckets are the arrays of 8 MiB that are stacked at axis 1; pieces and bookkeeping
    // take the rest.
    const double bucket = form == Form(1) ? 8 : 0;
    EXPECT_LE(used, bucket + 4) << "axis " << form.value_or(-1);
    EXPECT_GE(used, bucket - 1) << "the bucket is not seen";

    arrays.clear();
    Peak restoring;
    Restored back = load_checkpoint(path, model, {}, client_);
    EXPECT_LE(restoring.stop(), 1.1 * 64);
  }
}

TEST_F(MemoryTest, SnapshotsNeedOneCopyWhileTheyAreWritten) {
  write_model(8, DType::f32);
  for (Form form : {Form(0), Form(1)}) {
    sharding::Manifest model = manifest_of(wanted_, form);
    std::vector<runtime::Array> arrays = load(model);
    Contents contents{&model, refs_of(arrays), {}, {}, {}, scratch_.path()};
    CheckpointWriter writer(scratch_ / ("snapshots" + std::to_string(*form)));
    EXPECT_EQ(snapshot_bytes(model, {}), uint64_t{64} << 20);
    Peak peak;
    const double before = trimmed();
    for (int64_t step = 1; step <= 3; ++step) {
      contents.run.step = step;
      writer.save(contents);
    }
    writer.wait();
    double used = peak.stop();
    EXPECT_LE(used, 64 + 4);
    EXPECT_GE(used, 0.9 * 64) << "the copy is not seen";
    EXPECT_LE(trimmed() - before, 4);
  }
}

// Rewriting a model holds no more than a bucket: what is read can be dropped.
TEST_F(MemoryTest, ConvertingNeedsOneBucket) {
  write_model(8, DType::f32);
  sharding::Manifest single = manifest_of(wanted_, std::nullopt);
  for (int64_t axis : {0, 1}) {
    const fs::path tree = scratch_ / ("tree" + std::to_string(axis));
    const double bucket = axis == 0 ? 0 : 8;
    {
      Peak peak;
      convert_tree(scratch_.path(), tree, manifest_of(wanted_, axis));
      EXPECT_LE(peak.stop(), bucket + 4) << "to axis " << axis;
    }
    Peak peak;
    convert_tree(tree, scratch_ / ("back" + std::to_string(axis)), single);
    // A layer that is not one piece is gathered: 1 MiB.
    EXPECT_LE(peak.stop(), 1 + 4) << "from axis " << axis;
  }
}

// Case I2: 20 saves and 20 loads of 24 MiB. What the allocator keeps for later comes and goes by
// whole arrays and is left out: it says nothing about a leak.
TEST_F(MemoryTest, NothingStaysBehind) {
  write_model(3, DType::f32);
  const double model_mib = 24;
  sharding::Manifest model = manifest_of(wanted_, 0);
  std::vector<runtime::Array> arrays = load(model);
  Contents contents{&model, refs_of(arrays), {}, {}, {}, scratch_.path()};
  CheckpointStore store(scratch_ / "run", {.keep_last = 2});
  std::vector<double> after;
  for (int64_t i = 1; i <= 20; ++i) {
    contents.run.step = i;
    fs::path path = store.save(contents);
    load_checkpoint(path, model, {}, client_);
    after.push_back(trimmed());
  }
  // Least squares over the 5th to the 20th.
  double n = 0, x = 0, y = 0, xx = 0, xy = 0;
  for (size_t i = 4; i < after.size(); ++i) {
    auto at = static_cast<double>(i);
    n += 1, x += at, y += after[i], xx += at * at, xy += at * after[i];
  }
  double slope = (n * xy - x * y) / (n * xx - x * x);
  std::string seen;
  for (double mib : after) seen += std::to_string(mib) + " ";
  EXPECT_LT(slope, 0.01 * model_mib) << "MiB a save: " << seen;
  EXPECT_EQ(find_checkpoints(scratch_ / "run").size(), 2u);
}

}  // namespace
}  // namespace strata::checkpoint
