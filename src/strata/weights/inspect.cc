#include "strata/weights/inspect.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>

#include "strata/base/error.h"
#include "strata/base/file.h"
#include "strata/base/strings.h"
#include "strata/weights/gguf.h"
#include "strata/weights/hf_directory.h"
#include "strata/weights/safetensors.h"

namespace strata::weights {
namespace {

namespace fs = std::filesystem;

constexpr uint64_t kWholeArray = 16;  // longer arrays are only counted
constexpr size_t kWholeText = 100;    // longer texts are cut in the table
constexpr size_t kShownHash = 12;     // characters of a hash in the table

// Replaces what is not UTF-8, so that any text can be printed as JSON.
std::string printable(std::string_view text) {
  if (is_utf8(text)) return std::string(text);
  return fmt::format("({} bytes that are not UTF-8)", text.size());
}

Json json_of(const GgufValue& v) {
  int64_t whole = 0;
  double real = 0;
  switch (v.type) {
    case GgufType::string:
      return printable(v.raw);
    case GgufType::boolean:
      return v.raw[0] != 0;
    case GgufType::array: {
      if (v.count > kWholeArray || v.element == GgufType::array) {
        return fmt::format("{} of {}", v.count, name_of(v.element));
      }
      Json list = Json::array();
      for (std::string_view s : v.strings()) list.push_back(printable(s));
      for (int64_t n : v.ints()) list.push_back(n);
      for (double d : v.doubles()) list.push_back(d);
      return list;
    }
    default:
      if (v.to_int(whole)) return whole;
      if (v.type == GgufType::u64) {
        uint64_t big = 0;
        std::memcpy(&big, v.raw.data(), sizeof big);
        return big;
      }
      v.to_double(real);
      return real;
  }
}

Inspection inspect_gguf(const fs::path& path) {
  GgufFile file(path);
  Inspection out{"gguf", path, Json::object(), {}};
  out.metadata["GGUF.version"] = file.index().version;
  auto& pairs = out.metadata.get_ref<Json::object_t&>();
  for (const auto& pair : file.index().metadata) {
    pairs.emplace_back(pair.first, json_of(pair.second));
  }
  for (const GgufTensor& t : file.tensors()) {
    out.rows.push_back({t.name, std::string(t.type->name), t.dims, t.bytes.size(), ""});
  }
  return out;
}

void add_rows(const TensorSource& source, Inspection& out) {
  auto files = source.files();
  for (const TensorView& t : source.tensors()) {
    out.rows.push_back({t.name, std::string(name_of(t.dtype)), t.dims, t.bytes.size(),
                        files.size() > 1 ? files[t.file].filename().string() : ""});
  }
}

Inspection inspect_directory(const fs::path& path) {
  HfDirectory directory(path);
  Inspection out{"hf_directory", path, Json::object(), {}};
  std::error_code ec;
  if (fs::exists(config_path(path), ec)) out.metadata["config"] = read_json(config_path(path));
  if (fs::exists(generation_config_path(path), ec)) {
    out.metadata["generation_config"] = read_json(generation_config_path(path));
  }
  out.metadata["weights"] = directory.metadata();
  add_rows(directory, out);
  return out;
}

Inspection inspect_safetensors(const fs::path& path) {
  SafetensorsFile file(path);
  Inspection out{"safetensors", path, Json(file.metadata()), {}};
  if (out.metadata.is_null()) out.metadata = Json::object();
  add_rows(file, out);
  return out;
}

// "2 x 3 x 4", or "scalar".
std::string dims_text(const Dims& dims) {
  return dims.empty() ? "scalar" : fmt::format("{}", fmt::join(dims, " x "));
}

void print_metadata(const Json& metadata, const std::string& prefix, std::string& out) {
  for (const auto& item : metadata.items()) {
    if (item.value().is_object() && !item.value().empty()) {
      print_metadata(item.value(), prefix + item.key() + ".", out);
      continue;
    }
    std::string text = item.value().dump();
    if (text.size() > kWholeText) {
      // Cut between characters: continuation bytes of UTF-8 start with bits 10.
      size_t end = kWholeText;
      while (end > 0 && (text[end] & 0xc0) == 0x80) --end;
      text = text.substr(0, end) + "…";
    }
    out += fmt::format("  {}{} = {}\n", prefix, item.key(), text);
  }
}

}  // namespace

int64_t Inspection::parameters() const {
  int64_t total = 0;
  for (const InspectionRow& r : rows) total += element_count(r.dims);
  return total;
}

uint64_t Inspection::bytes() const {
  uint64_t total = 0;
  for (const InspectionRow& r : rows) total += r.bytes;
  return total;
}

Inspection inspect_path(const fs::path& path) {
  std::error_code ec;  // what cannot be examined is for MappedFile to report
  if (fs::is_directory(path, ec)) return inspect_directory(path);
  MappedFile file(path);
  auto bytes = file.bytes();
  auto begins = [&](std::string_view magic) {
    return bytes.size() >= magic.size() &&
           std::memcmp(bytes.data(), magic.data(), magic.size()) == 0;
  };
  if (begins("GGUF")) return inspect_gguf(path);
  bool json_follows = bytes.size() > 8 && bytes[8] == std::byte{'{'};
  if (json_follows || path.extension() == ".safetensors") return inspect_safetensors(path);
  fail({.id = "weights.inspect_kind",
        .where = path.string(),
        .expected = "a safetensors file, a GGUF file or a model directory",
        .got = fmt::format("a file of {} that begins as neither", bytes_text(bytes.size()))});
}

std::string to_text(const Inspection& in) {
  std::string out = fmt::format("{}: {}\n", in.path.string(), in.kind);
  print_metadata(in.metadata, "", out);
  size_t name_width = 4, dtype_width = 5, shape_width = 5, hash_width = 0;
  for (const InspectionRow& r : in.rows) {
    name_width = std::max(name_width, r.name.size());
    dtype_width = std::max(dtype_width, r.dtype.size());
    shape_width = std::max(shape_width, dims_text(r.dims).size());
    if (!r.sha256.empty()) hash_width = kShownHash;
  }
  auto line = [&](std::string_view name, std::string_view dtype, std::string_view shape,
                  std::string_view size, std::string_view hash, std::string_view file) {
    std::string text = fmt::format("{:{}}  {:{}}  {:{}}  {:>10}  ", name, name_width, dtype,
                                   dtype_width, shape, shape_width, size);
    if (hash_width > 0) text += fmt::format("{:{}}  ", hash, hash_width);
    text += file;
    text.erase(text.find_last_not_of(' ') + 1);
    out += text + "\n";
  };
  line("name", "dtype", "shape", "size", hash_width > 0 ? "sha256" : "", "");
  for (const InspectionRow& r : in.rows) {
    line(r.name, r.dtype, dims_text(r.dims), bytes_text(r.bytes),
         std::string_view(r.sha256).substr(0, hash_width), r.file);
  }
  out += fmt::format("{} tensors, {} parameters, {}\n", in.rows.size(), in.parameters(),
                     bytes_text(in.bytes()));
  return out;
}

Json to_json(const Inspection& in) {
  Json tensors = Json::array();
  for (const InspectionRow& r : in.rows) {
    Json row = {{"name", r.name}, {"dtype", r.dtype}, {"shape", r.dims}, {"bytes", r.bytes}};
    if (!r.sha256.empty()) row["sha256"] = r.sha256;
    if (!r.file.empty()) row["file"] = r.file;
    tensors.push_back(std::move(row));
  }
  return {{"kind", in.kind},
          {"path", in.path.string()},
          {"metadata", in.metadata},
          {"tensors", std::move(tensors)},
          {"parameters", in.parameters()},
          {"bytes", in.bytes()}};
}

}  // namespace strata::weights
