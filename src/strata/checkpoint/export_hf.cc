#include "strata/checkpoint/export_hf.h"

#include <cstring>
#include <optional>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "strata/base/error.h"
#include "strata/base/file.h"
#include "strata/base/json.h"
#include "strata/checkpoint/average_source.h"
#include "strata/checkpoint/directory.h"
#include "strata/checkpoint/model_files.h"
#include "strata/weights/safetensors_writer.h"
#include "strata/weights/stacked_tree.h"
#include "strata/weights/tensor_source.h"

namespace strata::checkpoint {
namespace {

namespace fs = std::filesystem;
using weights::TensorSpec;

// The newer key where the file has it, else the one that every version reads.
Json with_dtype(Json config, DType dtype) {
  const char* name = dtype == DType::f32 ? "float32" : "bfloat16";
  config[config.contains("dtype") ? "dtype" : "torch_dtype"] = name;
  if (config.contains("torch_dtype")) config["torch_dtype"] = name;
  return config;
}

HostTensor read_tensor(TreeReader& tree, const TensorSpec& spec) {
  HostTensor out(spec.dtype, spec.dims);
  size_t at = 0;
  tree.read(spec.name, [&](std::span<const std::byte> bytes) {
    std::memcpy(out.bytes() + at, bytes.data(), bytes.size());
    at += bytes.size();
  });
  return spec.dtype == DType::f32 ? std::move(out) : convert(out, DType::f32);
}

// The merges of a tree, with all their adapters in memory.
class Merges {
 public:
  Merges(TreeReader& tree, const std::vector<LowRankMerge>& merges) {
    std::unordered_map<std::string, TensorSpec> specs;
    for (const TensorSpec& spec : tree.specs()) specs[spec.name] = spec;
    for (const LowRankMerge& m : merges) {
      for (const std::string* name : {&m.weight, &m.a, &m.b}) {
        require(specs.contains(*name), {.id = "checkpoint.merge",
                                        .where = "adapters of " + m.weight,
                                        .expected = "a tensor '" + *name + "'",
                                        .got = "none",
                                        .code = Code::not_found});
      }
      adapters_[m.a] = read_tensor(tree, specs[m.a]);
      adapters_[m.b] = read_tensor(tree, specs[m.b]);
      of_[m.weight] = &m;
    }
  }

  bool is_adapter(const std::string& name) const { return adapters_.contains(name); }
  bool changes(const std::string& name) const { return of_.contains(name); }

  // weight + scale · b a.
  void add_to(HostTensor& weight, const std::string& name) const {
    const LowRankMerge& m = *of_.at(name);
    const HostTensor &a = adapters_.at(m.a), &b = adapters_.at(m.b);
    const auto rank = static_cast<size_t>(a.dims()[0]), in = static_cast<size_t>(a.dims()[1]);
    const auto scale = static_cast<float>(m.scale);
    std::span<float> w = weight.data<float>();
    std::span<const float> rows = a.data<float>(), factors = b.data<float>();
    invariant(w.size() * rank == factors.size() * in, "checkpoint.merge_dims", "adapters that fit");
    for (size_t o = 0; o < w.size() / in; ++o) {
      for (size_t r = 0; r < rank; ++r) {
        const float factor = scale * factors[o * rank + r];
        for (size_t i = 0; i < in; ++i) w[o * in + i] += factor * rows[r * in + i];
      }
    }
  }

 private:
  std::unordered_map<std::string, HostTensor> adapters_;
  std::unordered_map<std::string, const LowRankMerge*> of_;
};

// Writes the tensors of a tree, floats in `dtype` or (without) in their own types.
void write_weights(const fs::path& directory, TreeReader& tree, const ExportOptions& options,
                   std::optional<DType> dtype) {
  Merges merges(tree, options.merges);
  std::vector<TensorSpec> specs;
  std::unordered_map<std::string, TensorSpec> held;
  uint64_t done = 0, total = 0;
  for (TensorSpec spec : tree.specs()) {
    if (merges.is_adapter(spec.name)) continue;
    held[spec.name] = spec;
    if (dtype && is_float(spec.dtype)) spec.dtype = *dtype;
    total += spec.byte_size();
    specs.push_back(std::move(spec));
  }
  weights::ShardedWriter writer(directory, specs, {.max_shard_bytes = options.max_shard_bytes});
  auto write = [&](const HostTensor& t) { writer.write({t.bytes(), t.byte_size()}); };
  for (const TensorSpec& spec : writer.order()) {
    const TensorSpec& from = held.at(spec.name);
    if (merges.changes(spec.name)) {
      HostTensor weight = read_tensor(tree, from);
      merges.add_to(weight, spec.name);
      spec.dtype == DType::f32 ? write(weight) : write(convert(weight, spec.dtype));
    } else {
      tree.read(spec.name, [&](std::span<const std::byte> bytes) {
        if (from.dtype == spec.dtype) return writer.write(bytes);
        HostTensor tensor(from.dtype, {static_cast<int64_t>(bytes.size() / size_of(from.dtype))});
        std::memcpy(tensor.bytes(), bytes.data(), bytes.size());
        write(convert(tensor, spec.dtype));
      });
    }
    done += spec.byte_size();
    if (options.progress) options.progress(done, total);
  }
  writer.finish();
}

Json config_of(const fs::path& source, const ExportOptions& options) {
  return options.config.is_null() ? read_json(source / "config.json") : options.config;
}

}  // namespace

void export_hf(const fs::path& directory, const sharding::Manifest& model,
               const ArrayRefs& parameters, const fs::path& source, const ExportOptions& options) {
  require(options.dtype == DType::f32 || options.dtype == DType::bf16,
          {.id = "checkpoint.export_dtype",
           .where = directory.string(),
           .expected = "f32 or bf16",
           .got = std::string(name_of(options.dtype))});
  TreeReader tree(model.slots(), parameters);
  write_directory_atomically(directory, [&](const fs::path& temporary) {
    copy_model_files(source, temporary, {"config.json"});
    Json config = with_dtype(config_of(source, options), options.dtype);
    put_text(temporary / "config.json", config.dump(2) + "\n");
    write_weights(temporary, tree, options, options.dtype);
  });
}

void export_merged(const fs::path& directory, const sharding::Manifest& model,
                   const fs::path& source, const ExportOptions& options,
                   const std::vector<std::string>& ignorable) {
  auto files = open_weights(source, options.average);
  std::vector<sharding::Slot> slots = model.slots();
  std::vector<weights::Wanted> wanted;
  for (const sharding::Slot& slot : slots) wanted.push_back({slot.name, slot.type.sizes()});
  auto unstacked = weights::unstack(*files, wanted);
  const weights::TensorSource& tensors = unstacked ? *unstacked : *files;
  weights::check_total(tensors, wanted, ignorable);
  std::vector<std::span<const std::byte>> bytes;
  std::vector<std::vector<std::byte>> gathered(slots.size());
  for (sharding::Slot& slot : slots) {
    const weights::TensorView& tensor = tensors.get(slot.name);
    slot.type.dtype = tensor.dtype;
    bytes.push_back(weights::contiguous(tensor, gathered[bytes.size()]));
  }
  TreeReader tree(slots, std::move(bytes));
  write_directory_atomically(directory, [&](const fs::path& temporary) {
    copy_model_files(source, temporary, {"config.json"});
    put_text(temporary / "config.json", config_of(source, options).dump(2) + "\n");
    write_weights(temporary, tree, options, std::nullopt);
  });
}

void export_adapter(const fs::path& directory, const sharding::Manifest& model,
                    const ArrayRefs& parameters, const Json& config) {
  std::vector<sharding::Slot> slots;
  ArrayRefs arrays;
  for (size_t i = 0; i < model.size(); ++i) {
    if (model.slots()[i].kind != sharding::Kind::adapter) continue;
    slots.push_back(model.slots()[i]);
    arrays.push_back(parameters.at(i));
  }
  TreeReader tree(slots, arrays);
  std::vector<HostTensor> tensors;
  std::vector<weights::NamedTensor> named;
  for (const TensorSpec& spec : tree.specs()) tensors.push_back(read_tensor(tree, spec));
  for (size_t i = 0; i < tensors.size(); ++i) {
    named.push_back({"base_model.model." + tree.specs()[i].name, &tensors[i]});
  }
  write_directory_atomically(directory, [&](const fs::path& temporary) {
    put_text(temporary / "adapter_config.json", config.dump(2) + "\n");
    weights::write_safetensors(temporary / "adapter_model.safetensors", named, {{"format", "pt"}});
  });
}

}  // namespace strata::checkpoint
