#include "strata/weights/import_gguf.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <span>
#include <string>
#include <vector>

#include "strata/base/error.h"
#include "strata/base/file.h"
#include "strata/base/json.h"
#include "strata/base/log.h"
#include "strata/weights/gguf.h"
#include "strata/weights/gguf_model.h"
#include "strata/weights/gguf_tokenizer.h"
#include "strata/weights/safetensors_writer.h"

namespace strata::weights {
namespace {

namespace fs = std::filesystem;

constexpr int64_t kChunkElements = 1 << 18;

// Turns f32 values into the bytes of the output type.
class Encoder {
 public:
  explicit Encoder(DType dtype) : dtype_(dtype) {}
  // The result is valid until the next call.
  std::span<const std::byte> encode(std::span<const float> values) {
    if (dtype_ == DType::f32) return std::as_bytes(values);
    half_.resize(values.size());
    std::transform(values.begin(), values.end(), half_.begin(), f32_to_bf16);
    return std::as_bytes(std::span(half_));
  }

 private:
  DType dtype_;
  std::vector<uint16_t> half_;
};

// The file's row that holds row `row` of Hugging Face's order.
int64_t source_row(const GgufTensorPlan& plan, int64_t row) {
  if (plan.head_dim == 0) return row;
  int64_t head = row / plan.head_dim, within = row % plan.head_dim, half = plan.head_dim / 2;
  return head * plan.head_dim + 2 * (within % half) + within / half;
}

// A vector is one row of the file; its elements stand for the rows of the matrix it belongs to.
void convert_vector(const GgufTensorPlan& plan, const std::string& where, Encoder& encoder,
                    ShardedWriter& out) {
  std::vector<float> stored(static_cast<size_t>(plan.dims[0])), ordered(stored.size());
  dequantise(*plan.source->type, plan.source->bytes, stored, where);
  for (size_t i = 0; i < ordered.size(); ++i) {
    ordered[i] = stored[static_cast<size_t>(source_row(plan, static_cast<int64_t>(i)))];
  }
  out.write(encoder.encode(ordered));
}

void convert_matrix(const GgufTensorPlan& plan, const std::string& where, Encoder& encoder,
                    ShardedWriter& out, const std::function<void()>& check) {
  const GgufTensor& t = *plan.source;
  int64_t rows = plan.dims[0], columns = plan.dims[1];
  int64_t chunk = std::clamp<int64_t>(kChunkElements / columns, 1, rows);
  std::vector<float> values;
  for (int64_t begin = 0; begin < rows; begin += chunk) {
    int64_t end = std::min(begin + chunk, rows);
    values.resize(static_cast<size_t>((end - begin) * columns));
    for (int64_t row = begin; row < end; ++row) {
      size_t at = static_cast<size_t>(source_row(plan, row)) * t.row_bytes();
      dequantise(*t.type, t.bytes.subspan(at, t.row_bytes()),
                 std::span(values).subspan(static_cast<size_t>((row - begin) * columns),
                                           static_cast<size_t>(columns)),
                 where);
    }
    out.write(encoder.encode(values));
    if (check) check();
  }
}

void write_weights(const GgufFile& file, const GgufModelPlan& model, const fs::path& directory,
                   const ImportOptions& options, ImportReport& report) {
  std::map<std::string, const GgufTensorPlan*> plans;
  std::vector<TensorSpec> specs;
  for (const GgufTensorPlan& p : model.tensors) {
    plans[p.name] = &p;
    specs.push_back({p.name, options.dtype, p.dims});
    report.parameters += element_count(p.dims);
    report.bytes += specs.back().byte_size();
  }
  report.tensors = std::ssize(specs);
  ShardOptions shards;
  shards.max_shard_bytes = options.max_shard_bytes;
  ShardedWriter writer(directory, std::move(specs), shards);
  Encoder encoder(options.dtype);
  Progress progress("importing");
  double done = 0;
  for (const TensorSpec& spec : writer.order()) {
    const GgufTensorPlan& plan = *plans.at(spec.name);
    std::string where = fmt::format("{}, tensor '{}'", file.path().string(), plan.source->name);
    if (plan.dims.size() == 1) {
      convert_vector(plan, where, encoder, writer);
    } else {
      convert_matrix(plan, where, encoder, writer, options.check);
    }
    file.release(*plan.source);
    done += static_cast<double>(spec.byte_size());
    progress.update(done, static_cast<double>(report.bytes), spec.name);
  }
  writer.finish();
}

void write_text(const fs::path& path, const std::string& text) {
  FileWriter writer(path);
  writer.write(text);
  writer.commit();
}

Json complete_config(const GgufModelPlan& model, const GgufTokenizer& tokenizer, DType dtype) {
  Json config = model.config;
  config["torch_dtype"] = dtype == DType::f32 ? "float32" : "bfloat16";
  for (const auto& item : tokenizer.generation_config.items()) config[item.key()] = item.value();
  return config;
}

}  // namespace

ImportReport import_gguf(const fs::path& file, const fs::path& directory,
                         const ImportOptions& options) {
  require(options.dtype == DType::f32 || options.dtype == DType::bf16,
          {.id = "weights.import_dtype",
           .where = file.string(),
           .expected = "f32 or bf16",
           .got = std::string(name_of(options.dtype))});
  Stopwatch clock;
  ImportReport report;
  GgufFile gguf(file);
  GgufModelPlan model = plan_gguf_model(gguf);
  GgufTokenizer tokenizer = read_gguf_tokenizer(gguf, model.vocab_size, model.context_length);
  write_directory_atomically(directory, [&](const fs::path& temporary) {
    auto put = [&](const char* name, const Json& json) {
      write_text(temporary / name, json.dump(2) + "\n");
    };
    put("config.json", complete_config(model, tokenizer, options.dtype));
    put("generation_config.json", tokenizer.generation_config);
    put("tokenizer.json", tokenizer.tokenizer);
    put("tokenizer_config.json", tokenizer.tokenizer_config);
    if (!tokenizer.chat_template.empty()) {
      write_text(temporary / "chat_template.jinja", tokenizer.chat_template);
    }
    write_weights(gguf, model, temporary, options, report);
  });
  report.seconds = clock.seconds();
  return report;
}

}  // namespace strata::weights
