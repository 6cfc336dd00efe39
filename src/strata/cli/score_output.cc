#include "strata/cli/score_output.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "strata/base/error.h"
#include "strata/checkpoint/load_parameters.h"
#include "strata/runtime/box_copy.h"
#include "strata/weights/safetensors_writer.h"

namespace strata::cli {
namespace {

namespace fs = std::filesystem;

constexpr size_t kPiece = size_t{16} << 20;  // bytes written at a time
constexpr size_t kLogits = 0, kLogprobs = 1, kLoss = 2, kGradients = 3;

// Layer `k` of a stacked gradient, its layer dim gone.
HostTensor layer_of(const HostTensor& stacked, size_t axis, int64_t k, const Dims& dims) {
  sharding::Box whole{Dims(stacked.dims().size(), 0), stacked.dims()};
  sharding::Box part = whole;
  part.start[axis] = k;
  part.size[axis] = 1;
  HostTensor out(stacked.dtype(), dims);
  runtime::for_each_run(part, whole, part, size_of(stacked.dtype()),
                        [&](size_t from, size_t to, size_t bytes) {
                          std::memcpy(out.bytes() + to, stacked.bytes() + from, bytes);
                        });
  return out;
}

void write_gradient(const sharding::Slot& slot, const HostTensor& gradient,
                    weights::SafetensorsWriter& writer) {
  auto axis = slot.type.position_of(sharding::Role::layer);
  if (!axis) return writer.write({gradient.bytes(), gradient.byte_size()});
  int64_t k = 0;
  for (const weights::Wanted& member : checkpoint::members_of(slot)) {
    HostTensor layer = layer_of(gradient, static_cast<size_t>(*axis), k++, member.dims);
    writer.write({layer.bytes(), layer.byte_size()});
  }
}

// Small odd-sized tensors last, so that the others start aligned.
std::vector<weights::TensorSpec> layout(const sharding::Manifest& manifest,
                                        std::span<const runtime::Array> results) {
  std::vector<weights::TensorSpec> specs{{"logits", DType::f32, results[kLogits].dims()}};
  if (results.size() > kGradients) {
    for (const sharding::Slot& slot : manifest.slots()) {
      for (const weights::Wanted& member : checkpoint::members_of(slot)) {
        specs.push_back({"grad." + member.name, DType::f32, member.dims});
      }
    }
  }
  specs.push_back({"token_logprobs", DType::f32, results[kLogprobs].dims()});
  specs.push_back({"loss", DType::f32, {1}});
  return specs;
}

}  // namespace

void check_output(const fs::path& path) {
  std::error_code ec;
  fs::path directory = path.has_parent_path() ? path.parent_path() : fs::path(".");
  require(fs::is_directory(directory, ec), {.id = "cli.output_missing",
                                            .where = path.string(),
                                            .expected = "a path inside a directory that exists",
                                            .got = "no directory " + directory.string(),
                                            .cure = "Make the directory first",
                                            .code = Code::not_found});
  require(!fs::is_directory(path, ec), {.id = "cli.output_directory",
                                        .where = path.string(),
                                        .expected = "the path of a file to write",
                                        .got = "a directory"});
  // The finished file takes the place of what is there: a device such as /dev/null would be gone.
  bool special = fs::exists(path, ec) && !fs::is_regular_file(path, ec);
  require(!special, {.id = "cli.output_special",
                     .where = path.string(),
                     .expected = "the path of a regular file, or of none yet",
                     .got = "a special file"});
  int refused = ::access(directory.c_str(), W_OK) == 0 ? 0 : errno;
  require(refused == 0, {.id = "cli.output_denied",
                         .where = path.string(),
                         .expected = "a directory that may be written to",
                         .got = std::strerror(refused),
                         .code = Code::permission_denied});
}

void check_not_read(const fs::path& path, std::span<const fs::path> read) {
  for (const fs::path& file : read) {
    std::error_code ec;
    require(!fs::equivalent(path, file, ec), {.id = "cli.output_is_input",
                                              .where = path.string(),
                                              .expected = "a file that the command does not read",
                                              .got = "the input " + file.string(),
                                              .cure = "Choose another name"});
  }
}

ScoreFile write_scores(const fs::path& path, const sharding::Manifest& manifest,
                       std::span<const runtime::Array> results,
                       const std::function<void()>& check) {
  std::vector<weights::TensorSpec> specs = layout(manifest, results);
  ScoreFile file;
  for (const weights::TensorSpec& s : specs) file.bytes += s.byte_size();
  file.tensors = static_cast<int64_t>(specs.size());
  fs::path temporary = path;
  temporary += fmt::format(".tmp-{}", ::getpid());
  {
    weights::SafetensorsWriter writer(temporary, std::move(specs));
    auto write = [&](const HostTensor& t) {
      for (size_t at = 0; at < t.byte_size(); at += kPiece) {
        check();
        writer.write({t.bytes() + at, std::min(kPiece, t.byte_size() - at)});
      }
    };
    write(results[kLogits].get());
    for (size_t i = kGradients; i < results.size(); ++i) {
      check();
      write_gradient(manifest.slots()[i - kGradients], results[i].get(), writer);
    }
    write(results[kLogprobs].get());
    write(results[kLoss].get());
    writer.finish();
  }
  replace_file(temporary, path);
  return file;
}

}  // namespace strata::cli
