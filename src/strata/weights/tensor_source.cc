#include "strata/weights/tensor_source.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <unordered_set>

#include "strata/base/error.h"
#include "strata/base/strings.h"
#include "strata/weights/hf_directory.h"
#include "strata/weights/safetensors.h"

namespace strata::weights {
namespace {

constexpr size_t kListed = 20;

// One kind of mismatch: how many, and the first few.
struct Complaint {
  std::string kind;
  size_t count = 0;
  std::vector<std::string> first = {};

  void add(std::string text) {
    ++count;
    if (first.size() < kListed) first.push_back(std::move(text));
  }
  void print(std::string& out) const {
    if (count == 0) return;
    if (!out.empty()) out += "; ";
    out += fmt::format("{} {} ({})", count, kind, join(first, ", "));
    if (count > first.size()) out.insert(out.size() - 1, ", …");
  }
};

void compare(const Wanted& want, const TensorView& have, Complaint& shapes, Complaint& dtypes) {
  if (have.dims != want.dims) {
    shapes.add(fmt::format("{}: expected {}, got {}", want.name, list_text(want.dims),
                           list_text(have.dims)));
  }
  if (want.dtype && *want.dtype != have.dtype) {
    dtypes.add(fmt::format("{}: expected {}, got {}", want.name, name_of(*want.dtype),
                           name_of(have.dtype)));
  }
}

}  // namespace

const TensorView& TensorSource::get(std::string_view name) const {
  const TensorView* tensor = find(name);
  if (tensor != nullptr) return *tensor;
  std::vector<std::string> known;
  for (const TensorView& t : tensors()) known.push_back(t.name);
  fail({.id = "weights.no_tensor",
        .where = path().string(),
        .expected = fmt::format("a tensor '{}'", name),
        .got = fmt::format("{} tensors without it", known.size()),
        .cure = known.empty() ? "" : "The nearest name is '" + nearest(name, known) + "'",
        .code = Code::not_found});
}

uint64_t TensorSource::total_bytes() const {
  uint64_t total = 0;
  for (const TensorView& t : tensors()) total += t.byte_size();
  return total;
}

const Metadata& TensorSource::metadata() const {
  static const Metadata none;
  return none;
}

std::unique_ptr<TensorSource> open_source(const std::filesystem::path& path) {
  std::error_code ec;  // what cannot be examined is for the reader to report
  if (std::filesystem::is_directory(path, ec)) return std::make_unique<HfDirectory>(path);
  return std::make_unique<SafetensorsFile>(path);
}

namespace {

void gather(const TensorView& tensor, std::byte* out) {
  const size_t size = tensor.byte_size();
  if (size == 0) return;
  if (tensor.run == 0) {
    std::memcpy(out, tensor.bytes.data(), size);
    return;
  }
  const std::byte* from = tensor.bytes.data();
  for (size_t at = 0; at < size; at += tensor.run, from += tensor.stride) {
    std::memcpy(out + at, from, tensor.run);
  }
}

}  // namespace

std::span<const std::byte> contiguous(const TensorView& tensor, std::vector<std::byte>& storage) {
  if (tensor.run == 0) return tensor.bytes;
  storage.resize(std::max<size_t>(storage.size(), tensor.byte_size()));
  gather(tensor, storage.data());
  return std::span(storage).first(tensor.byte_size());
}

HostTensor to_host(const TensorView& tensor) {
  HostTensor copy(tensor.dtype, tensor.dims);
  gather(tensor, copy.bytes());
  return copy;
}

void check_total(const TensorSource& source, std::span<const Wanted> wanted,
                 std::span<const std::string> ignorable) {
  Complaint missing{"missing"}, extra{"unexpected"}, shapes{"of another shape"},
      dtypes{"of another element type"};
  std::unordered_set<std::string_view> names;
  for (const Wanted& want : wanted) {
    names.insert(want.name);
    const TensorView* have = source.find(want.name);
    if (have == nullptr) {
      missing.add(want.name);
    } else {
      compare(want, *have, shapes, dtypes);
    }
  }
  for (const TensorView& have : source.tensors()) {
    bool ignored = std::any_of(ignorable.begin(), ignorable.end(),
                               [&](const std::string& p) { return matches(have.name, p); });
    if (names.count(have.name) == 0 && !ignored) extra.add(have.name);
  }
  std::string text;
  for (const Complaint* c : {&missing, &extra, &shapes, &dtypes}) c->print(text);
  if (text.empty()) return;
  fail({.id = "weights.mismatch",
        .where = source.path().string(),
        .expected = fmt::format("exactly the model's {} tensors", wanted.size()),
        .got = text,
        .cure = "Check that the configuration and the weights belong to one model"});
}

bool matches(std::string_view name, std::string_view pattern) {
  // Greedy matching with one point of return: the last star seen.
  size_t n = 0, p = 0, star = std::string_view::npos, resume = 0;
  while (n < name.size()) {
    if (p < pattern.size() && pattern[p] == '*') {
      star = p++;
      resume = n;
    } else if (p < pattern.size() && pattern[p] == name[n]) {
      ++n;
      ++p;
    } else if (star != std::string_view::npos) {
      p = star + 1;
      n = ++resume;
    } else {
      return false;
    }
  }
  return pattern.find_first_not_of('*', p) == std::string_view::npos;
}

}  // namespace strata::weights
