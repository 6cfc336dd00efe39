#include "strata/checkpoint/average_source.h"

#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "strata/base/error.h"
#include "strata/checkpoint/checkpoint_files.h"

namespace strata::checkpoint {
namespace {

namespace fs = std::filesystem;
using weights::TensorView;

[[noreturn]] void fail_without(const fs::path& path, const char* got) {
  fail({.id = "checkpoint.no_average",
        .where = path.string(),
        .expected = "a checkpoint with a weight average, as optimizer.ema_decay makes it",
        .got = got,
        .cure = "Take the parameters themselves: leave out --average",
        .code = Code::failed_precondition});
}

class AverageSource final : public weights::TensorSource {
 public:
  explicit AverageSource(const fs::path& path) : files_(path) {
    bool any = false;
    for (const TensorEntry& parameter : files_.index().parameters) {
      const TensorView* average = files_.find(kAverageRole + parameter.name);
      any = any || average != nullptr;
      tensors_.push_back(average != nullptr ? *average : files_.get(parameter.name));
      tensors_.back().name = parameter.name;
    }
    if (!any) fail_without(path, "one without");
    for (size_t i = 0; i < tensors_.size(); ++i) by_name_[tensors_[i].name] = i;
  }

  const fs::path& path() const override { return files_.path(); }
  std::vector<fs::path> files() const override { return files_.files(); }
  std::span<const TensorView> tensors() const override { return tensors_; }
  const TensorView* find(std::string_view name) const override {
    auto it = by_name_.find(name);
    return it == by_name_.end() ? nullptr : &tensors_[it->second];
  }
  void release(const TensorView& tensor) const override { files_.release(tensor); }

 private:
  CheckpointFiles files_;
  std::vector<TensorView> tensors_;
  std::unordered_map<std::string_view, size_t> by_name_;
};

}  // namespace

std::unique_ptr<weights::TensorSource> open_average(const fs::path& checkpoint) {
  std::error_code ec;
  if (!fs::exists(checkpoint / "manifest.json", ec)) {
    fail_without(checkpoint, "no checkpoint: it has no manifest.json");
  }
  return std::make_unique<AverageSource>(checkpoint);
}

std::unique_ptr<weights::TensorSource> open_weights(const fs::path& path, bool average) {
  return average ? open_average(path) : weights::open_source(path);
}

}  // namespace strata::checkpoint
