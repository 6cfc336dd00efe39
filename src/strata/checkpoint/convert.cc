#include "strata/checkpoint/convert.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <unordered_map>
#include <unordered_set>
#include <utility>

#include "strata/base/error.h"
#include "strata/base/file.h"
#include "strata/base/json.h"
#include "strata/checkpoint/average_source.h"
#include "strata/checkpoint/directory.h"
#include "strata/checkpoint/model_files.h"
#include "strata/checkpoint/tied_names.h"
#include "strata/runtime/box_copy.h"
#include "strata/weights/safetensors_writer.h"

namespace strata::checkpoint {
namespace {

namespace fs = std::filesystem;
using sharding::Box;
using sharding::LayerPlan;
using sharding::LayerRun;
using sharding::Slot;
using weights::TensorSource;
using weights::TensorView;
using weights::Wanted;

// A tensor to be written: one of the source's, or several as layers of one.
struct Output {
  weights::TensorSpec spec;
  std::vector<std::string> members;
  Slot slot = {};  // when stacked
};

// The longest scanned run of a stack, which has the plain names; null when there is none.
const LayerRun* longest_run(const LayerPlan& plan) {
  const LayerRun* longest = nullptr;
  for (const LayerRun& run : plan.runs) {
    if (run.scanned && (longest == nullptr || run.layers() > longest->layers())) longest = &run;
  }
  return longest;
}

class TreeWriter {
 public:
  TreeWriter(const TensorSource& source, const sharding::Manifest& model,
             const ConvertOptions& options)
      : source_(source), model_(model), options_(options) {
    for (const LayerPlan& plan : model.plans()) check(plan);
    std::unordered_set<std::string> known;
    for (const Slot& slot : model.slots()) {
      add(slot);
      for (const Wanted& w : members_of(slot)) known.insert(w.name);
    }
    // What the model does not want was found to be ignorable; it travels along.
    for (const TensorView& t : source.tensors()) {
      if (known.count(t.name) == 0) add_single(t.name);
    }
  }

  ConvertReport write(const fs::path& directory) {
    std::vector<weights::TensorSpec> specs;
    std::unordered_map<std::string, const Output*> by_name;
    ConvertReport report{outputs_.size(), 0, form()};
    for (const Output& output : outputs_) {
      specs.push_back(output.spec);
      by_name[output.spec.name] = &output;
      report.bytes += output.spec.byte_size();
    }
    weights::ShardedWriter writer(
        directory, specs, {.max_shard_bytes = options_.max_shard_bytes, .metadata = metadata()});
    uint64_t done = 0;
    for (const weights::TensorSpec& spec : writer.order()) {
      write_one(*by_name.at(spec.name), writer);
      done += spec.byte_size();
      if (options_.progress) options_.progress(done, report.bytes);
    }
    writer.finish();
    return report;
  }

 private:
  void check(const LayerPlan& plan) const {
    if (options_.names == TreeNames::cycle) return;
    bool alike = std::all_of(plan.runs.begin(), plan.runs.end(),
                             [](const LayerRun& run) { return !run.scanned || run.cycle == 1; });
    if (alike) return;
    fail({.id = "checkpoint.convert_cycle",
          .where = source_.path().string(),
          .expected = "layers of one kind, as one tensor a leaf holds them all",
          .got = "a " + plan.text(),
          .cure = "Convert it to cycle slots (--to cycle)"});
  }

  // Name of the tensor that holds a stacked slot.
  std::string name_of(const sharding::StackedName& name) const {
    for (const LayerPlan& plan : model_.plans()) {
      if (plan.stack != name.stack) continue;
      for (const LayerRun& run : plan.runs) {
        if (!run.scanned || name.begin < run.first || name.begin >= run.first + run.layers()) {
          continue;
        }
        std::string text = name.stack;
        if (&run != longest_run(plan)) {
          text += fmt::format(".layers_{}_{}", run.first, run.first + run.layers());
        }
        if (options_.names == TreeNames::cycle) {
          text += fmt::format(".layer_{}", name.begin - run.first);
        }
        return text + "." + name.leaf;
      }
    }
    invariant(false, "checkpoint.convert_run", "a stacked slot of a scanned run");
    return {};
  }

  void add_single(const std::string& name) {
    const TensorView& t = source_.get(name);
    outputs_.push_back({{name, t.dtype, t.dims}, {name}});
  }

  void add(const Slot& slot) {
    auto parsed = sharding::parse_stacked_name(slot.name);
    std::vector<Wanted> members = members_of(slot);
    if (!parsed) {
      for (const Wanted& w : members) add_single(w.name);
      return;
    }
    const DType dtype = source_.get(members[0].name).dtype;
    Output output{{name_of(*parsed), dtype, slot.type.sizes()}, {}, slot};
    output.slot.type.dtype = dtype;
    for (const Wanted& w : members) {
      const DType own = source_.get(w.name).dtype;
      require(own == dtype,
              {.id = "checkpoint.convert_dtype",
               .where = source_.path().string(),
               .expected = "layers of one element type, to be one tensor",
               .got = fmt::format("{} in {} and {} in {}", members[0].name, strata::name_of(dtype),
                                  w.name, strata::name_of(own))});
      output.members.push_back(w.name);
    }
    outputs_.push_back(std::move(output));
  }

  void write_one(const Output& output, weights::ShardedWriter& writer) {
    bool in_order = output.members.size() == 1 ||
                    runtime::is_contiguous(output.spec.dims, layer_box(output.slot, 0));
    const size_t element = size_of(output.spec.dtype);
    const Box all{Dims(output.spec.dims.size(), 0), output.spec.dims};
    if (!in_order) bucket_.resize(std::max<size_t>(bucket_.size(), output.spec.byte_size()));
    int64_t k = 0;
    for (const std::string& name : output.members) {
      const TensorView& tensor = source_.get(name);
      std::span<const std::byte> bytes = weights::contiguous(tensor, gathered_);
      if (in_order) {
        writer.write(bytes);
      } else {
        const Box box = layer_box(output.slot, k++);
        runtime::for_each_run(box, box, all, element, [&](size_t from, size_t to, size_t n) {
          std::memcpy(bucket_.data() + to, bytes.data() + from, n);
        });
      }
      source_.release(tensor);
    }
    if (!in_order) writer.write(std::span(bucket_).first(output.spec.byte_size()));
  }

  std::string form() const {
    for (const Output& output : outputs_) {
      if (output.slot.name.empty()) continue;
      return fmt::format("{}{} stacked at axis {}",
                         sharding::parse_stacked_name(output.slot.name)->stack,
                         options_.names == TreeNames::cycle ? " in cycle slots," : "", axis());
    }
    return "one tensor a layer";
  }

  // The largest position of a layer dim: what tensors of less rank have is clamped.
  int64_t axis() const {
    int64_t axis = 0;
    for (const Output& output : outputs_) {
      axis = std::max(axis, output.slot.type.position_of(sharding::Role::layer).value_or(0));
    }
    return axis;
  }

  // For readers that find several axes possible.
  weights::Metadata metadata() const {
    weights::Metadata out{{"format", "pt"}};
    bool stacked = std::any_of(outputs_.begin(), outputs_.end(),
                               [](const Output& o) { return !o.slot.name.empty(); });
    if (stacked) {
      out["scan_layers"] = "true";
      out["param_scan_axis"] = std::to_string(axis());
    }
    return out;
  }

  const TensorSource& source_;
  const sharding::Manifest& model_;
  const ConvertOptions& options_;
  std::vector<Output> outputs_;
  std::vector<std::byte> bucket_, gathered_;
};

// A flag in the copied configuration would contradict the tensors.
void write_config(const fs::path& source, const fs::path& target) {
  Json config = read_json(source / "config.json");
  if (!config.is_object() || !config.contains("scan_layers")) {
    put_text(target / "config.json", read_file(source / "config.json"));
    return;
  }
  config.erase("scan_layers");
  put_text(target / "config.json", config.dump(2) + "\n");
}

}  // namespace

ConvertReport convert_tree(const fs::path& source, const fs::path& target,
                           const sharding::Manifest& model, const ConvertOptions& options) {
  std::vector<Wanted> wanted;
  for (const Slot& slot : model.slots()) {
    for (Wanted& w : members_of(slot)) wanted.push_back(std::move(w));
  }
  auto tree = open_weights(source, options.average);
  auto unstacked = weights::unstack(*tree, wanted, options.from);
  const TensorSource& tensors = unstacked ? *unstacked : *tree;
  weights::check_total(tensors, wanted, with_aliases(options.ignorable, model));
  check_tied(tensors, model);
  TreeWriter writer(tensors, model, options);
  ConvertReport report;
  write_directory_atomically(target, [&](const fs::path& temporary) {
    copy_model_files(source, temporary, {"config.json"});
    write_config(source, temporary);
    report = writer.write(temporary);
  });
  return report;
}

}  // namespace strata::checkpoint
