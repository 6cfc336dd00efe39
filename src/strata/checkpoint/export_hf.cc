#include "strata/checkpoint/export_hf.h"

#include <cstring>
#include <string>
#include <unordered_map>
#include <vector>

#include "strata/base/error.h"
#include "strata/base/file.h"
#include "strata/base/json.h"
#include "strata/checkpoint/directory.h"
#include "strata/checkpoint/model_files.h"
#include "strata/weights/safetensors_writer.h"

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

void write_weights(const fs::path& directory, TreeReader& tree, const ExportOptions& options) {
  std::vector<TensorSpec> specs = tree.specs();
  uint64_t done = 0, total = 0;
  for (TensorSpec& spec : specs) {
    if (is_float(spec.dtype)) spec.dtype = options.dtype;
    total += spec.byte_size();
  }
  std::unordered_map<std::string, DType> held;
  for (const TensorSpec& spec : tree.specs()) held[spec.name] = spec.dtype;
  weights::ShardedWriter writer(directory, specs, {.max_shard_bytes = options.max_shard_bytes});
  for (const TensorSpec& spec : writer.order()) {
    const DType from = held.at(spec.name);
    tree.read(spec.name, [&](std::span<const std::byte> bytes) {
      if (from == spec.dtype) return writer.write(bytes);
      HostTensor tensor(from, {static_cast<int64_t>(bytes.size() / size_of(from))});
      std::memcpy(tensor.bytes(), bytes.data(), bytes.size());
      tensor = convert(tensor, spec.dtype);
      writer.write({tensor.bytes(), tensor.byte_size()});
    });
    done += spec.byte_size();
    if (options.progress) options.progress(done, total);
  }
  writer.finish();
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
    Json config = with_dtype(read_json(source / "config.json"), options.dtype);
    put_text(temporary / "config.json", config.dump(2) + "\n");
    write_weights(temporary, tree, options);
  });
}

}  // namespace strata::checkpoint
