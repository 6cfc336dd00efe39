#include "strata/weights/gguf.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cstring>
#include <unordered_set>

#include "strata/base/error.h"
#include "strata/base/strings.h"

namespace strata::weights {
namespace {

constexpr std::array<std::string_view, 13> kTypeNames = {
    "u8", "i8", "u16", "i16", "u32", "i32", "f32", "bool", "string", "array", "u64", "i64", "f64"};
// Bytes of a scalar; 0 for string and array.
constexpr std::array<size_t, 13> kTypeBytes = {1, 1, 2, 2, 4, 4, 4, 1, 0, 0, 8, 8, 8};
constexpr int kMaxArrayDepth = 4;
constexpr uint32_t kMaxRank = 4;
constexpr uint64_t kMaxAlignment = uint64_t{1} << 20;
// The fewest bytes of a key-value pair (empty key, one-byte value) and of a tensor info.
constexpr uint64_t kMinPair = 8 + 4 + 1;
constexpr uint64_t kMinTensor = 8 + 4 + 4 + 8;

size_t bytes_of_type(GgufType type) { return kTypeBytes.at(static_cast<size_t>(type)); }

template <class T>
T load(const char* p) {
  T value;
  std::memcpy(&value, p, sizeof value);
  return value;
}

// Reads the file front to back; every step checks what is left.
class Cursor {
 public:
  Cursor(std::span<const std::byte> file, const std::string& where)
      : text_(reinterpret_cast<const char*>(file.data()), file.size()), where_(where) {}

  size_t at() const { return at_; }
  uint64_t left() const { return text_.size() - at_; }

  [[noreturn]] void fail_here(std::string_view id, std::string expected, std::string got) const {
    std::string item = item_.empty() ? "" : ", " + item_;
    fail({.id = id,
          .where = fmt::format("{}{} at byte {}", where_, item, at_),
          .expected = std::move(expected),
          .got = std::move(got),
          .cure = "The file is damaged: fetch it again",
          .code = Code::data_loss});
  }
  // What is being read, for errors.
  void set_item(std::string item) { item_ = std::move(item); }
  const std::string& where() const { return where_; }

  std::string_view take(uint64_t bytes, const char* what) {
    if (bytes > left()) {
      fail_here("weights.gguf_truncated", fmt::format("{} bytes of {}", bytes, what),
                fmt::format("{} before the end of the file", left()));
    }
    std::string_view taken = text_.substr(at_, bytes);
    at_ += bytes;
    return taken;
  }
  template <class T>
  T take(const char* what) {
    return load<T>(take(sizeof(T), what).data());
  }
  std::string_view take_string(const char* what) {
    auto length = take<uint64_t>(what);
    return take(length, what);
  }
  std::string take_name(const char* what) {
    std::string_view name = take_string(what);
    if (!is_utf8(name)) {
      fail_here("weights.gguf_name", fmt::format("UTF-8 in {}", what), "other bytes");
    }
    return std::string(name);
  }
  GgufType take_type() {
    auto type = take<uint32_t>("a value type");
    if (type >= kTypeNames.size()) {
      fail_here("weights.gguf_value_type", "a value type from 0 to 12", std::to_string(type));
    }
    return static_cast<GgufType>(type);
  }
  // A count of items that take at least `smallest` bytes each.
  uint64_t take_count(const char* what, uint64_t smallest) {
    auto count = take<uint64_t>(what);
    if (count > left() / smallest) {
      fail_here(
          "weights.gguf_count",
          fmt::format("at most {} {}, which is what fits into the file", left() / smallest, what),
          std::to_string(count));
    }
    return count;
  }

 private:
  std::string_view text_;
  const std::string& where_;
  std::string item_;
  size_t at_ = 0;
};

GgufValue take_value(Cursor& in, GgufType type, int depth);

void skip_elements(Cursor& in, const GgufValue& array, int depth) {
  size_t size = bytes_of_type(array.element);
  if (size > 0) {
    in.take(array.count * size, "array elements");  // the count was checked against what is left
    return;
  }
  for (uint64_t i = 0; i < array.count; ++i) take_value(in, array.element, depth + 1);
}

GgufValue take_value(Cursor& in, GgufType type, int depth) {
  GgufValue value;
  value.type = type;
  if (type == GgufType::string) {
    value.raw = in.take_string("a string");
  } else if (type == GgufType::array) {
    if (depth >= kMaxArrayDepth) {
      in.fail_here("weights.gguf_depth", fmt::format("at most {} nested arrays", kMaxArrayDepth),
                   "more");
    }
    value.element = in.take_type();
    // A string takes at least its length, an inner array its type and length.
    size_t size = bytes_of_type(value.element);
    size_t smallest = size > 0 ? size : value.element == GgufType::string ? 8 : 12;
    value.count = in.take_count("array elements", smallest);
    Cursor start = in;
    skip_elements(in, value, depth);
    value.raw = start.take(in.at() - start.at(), "array elements");
  } else {
    value.raw = in.take(bytes_of_type(type), "a value");
  }
  return value;
}

void take_magic(Cursor& in, GgufIndex& index) {
  std::string_view magic = in.take(4, "the magic");
  if (magic != "GGUF") {
    in.fail_here("weights.gguf_magic", "a file that begins with GGUF", "another beginning");
  }
  index.version = in.take<uint32_t>("the version");
  bool swapped = index.version != 0 && (index.version & 0xffff) == 0;
  if (swapped || index.version < 2 || index.version > 3) {
    unimplemented({.id = "weights.gguf_version",
                   .where = in.where(),
                   .expected = "GGUF version 2 or 3, little-endian",
                   .got = swapped ? "a big-endian file" : fmt::format("version {}", index.version),
                   .cure = "Convert the file with a current llama.cpp"});
  }
}

void take_metadata(Cursor& in, uint64_t count, GgufIndex& index) {
  std::unordered_set<std::string> keys;
  for (uint64_t i = 0; i < count; ++i) {
    in.set_item(fmt::format("key {} of {}", i + 1, count));
    std::string key = in.take_name("a key");
    in.set_item("key '" + key.substr(0, 200) + "'");
    if (!keys.insert(key).second) {
      in.fail_here("weights.gguf_duplicate", "each key once", "the key twice");
    }
    GgufType type = in.take_type();
    GgufValue value = take_value(in, type, 0);
    index.metadata.emplace_back(std::move(key), value);
  }
}

void take_alignment(Cursor& in, GgufIndex& index) {
  for (const auto& pair : index.metadata) {
    if (pair.first != "general.alignment") continue;
    int64_t alignment = 0;
    bool whole = pair.second.to_int(alignment);
    if (!whole || alignment < 1 || alignment > static_cast<int64_t>(kMaxAlignment) ||
        !std::has_single_bit(static_cast<uint64_t>(alignment))) {
      in.set_item("key 'general.alignment'");
      in.fail_here("weights.gguf_alignment", "a power of two from 1 to 2^20",
                   whole ? std::to_string(alignment) : std::string(name_of(pair.second.type)));
    }
    index.alignment = static_cast<uint64_t>(alignment);
  }
}

// Bytes of the tensor's blocks, after checking that its rows are whole blocks.
uint64_t block_bytes(Cursor& in, const GgufTensor& t) {
  uint64_t blocks = 1;
  bool fits = true;
  for (size_t i = 0; i < t.dims.size(); ++i) {
    auto dim = static_cast<uint64_t>(t.dims[i]);
    bool innermost = i + 1 == t.dims.size();
    if (innermost && dim % t.type->block_elements != 0) {
      in.fail_here("weights.gguf_row",
                   fmt::format("rows of a multiple of {} elements for {}", t.type->block_elements,
                               t.type->name),
                   std::to_string(dim));
    }
    if (innermost) dim /= t.type->block_elements;
    fits = fits && !__builtin_mul_overflow(blocks, dim, &blocks);
  }
  // Element counts must stay in 63 bits as well; a block holds at most 256.
  if (!fits || blocks > uint64_t{INT64_MAX} / 512) {
    in.fail_here("weights.gguf_shape", "a shape whose bytes fit in 63 bits", list_text(t.dims));
  }
  return blocks * t.type->block_bytes;
}

// Leaves in `offset` the offset as stated: relative to the data.
GgufTensor take_tensor(Cursor& in, uint64_t& size) {
  GgufTensor t;
  t.name = in.take_name("a tensor name");
  in.set_item("tensor '" + t.name.substr(0, 200) + "'");
  auto rank = in.take<uint32_t>("the rank");
  if (rank > kMaxRank) {
    in.fail_here("weights.gguf_rank", fmt::format("a rank of at most {}", kMaxRank),
                 std::to_string(rank));
  }
  for (uint32_t i = 0; i < rank; ++i) {
    auto dim = in.take<uint64_t>("a dim");
    if (dim > uint64_t{INT64_MAX}) {
      in.fail_here("weights.gguf_shape", "a dim below 2^63", std::to_string(dim));
    }
    t.dims.insert(t.dims.begin(), static_cast<int64_t>(dim));
  }
  auto type = in.take<uint32_t>("the tensor type");
  t.type = ggml_type(type);
  if (t.type == nullptr) {
    unimplemented({.id = "weights.gguf_tensor_type",
                   .where = fmt::format("{}, tensor '{}'", in.where(), t.name.substr(0, 200)),
                   .expected = "a GGML type that Strata knows",
                   .got = fmt::format("number {}", type),
                   .cure = "Use a file with types such as F16, Q8_0, Q4_0 or Q4_K"});
  }
  if (rank == 0 && t.type->block_elements > 1) {
    in.fail_here("weights.gguf_row", "a rank of at least 1 for block types", "rank 0");
  }
  size = block_bytes(in, t);
  t.offset = in.take<uint64_t>("the offset");
  return t;
}

void check_overlap(const GgufIndex& index, const std::string& where) {
  std::vector<const GgufTensor*> sorted;
  for (const GgufTensor& t : index.tensors) sorted.push_back(&t);
  std::sort(sorted.begin(), sorted.end(), [](const GgufTensor* a, const GgufTensor* b) {
    return std::pair(a->offset, a->bytes.size()) < std::pair(b->offset, b->bytes.size());
  });
  for (size_t i = 1; i < sorted.size(); ++i) {
    const GgufTensor& before = *sorted[i - 1];
    if (before.offset + before.bytes.size() <= sorted[i]->offset) continue;
    fail({.id = "weights.gguf_overlap",
          .where = fmt::format("{}, tensor '{}'", where, sorted[i]->name.substr(0, 200)),
          .expected = "bytes of its own",
          .got = fmt::format("some of tensor '{}'", before.name.substr(0, 200)),
          .cure = "The file is damaged: fetch it again",
          .code = Code::data_loss});
  }
}

// Turns stated offsets into places in the file.
void place_tensors(Cursor& in, std::span<const std::byte> file, const std::vector<uint64_t>& sizes,
                   GgufIndex& index) {
  uint64_t start = (in.at() + index.alignment - 1) / index.alignment * index.alignment;
  uint64_t room = start <= file.size() ? file.size() - start : 0;
  for (size_t i = 0; i < index.tensors.size(); ++i) {
    GgufTensor& t = index.tensors[i];
    in.set_item("tensor '" + t.name.substr(0, 200) + "'");
    if (t.offset % index.alignment != 0) {
      in.fail_here("weights.gguf_offset",
                   fmt::format("an offset that is a multiple of {}", index.alignment),
                   std::to_string(t.offset));
    }
    if (t.offset > room || sizes[i] > room - t.offset) {
      in.fail_here("weights.gguf_past_end",
                   fmt::format("{} bytes from byte {}+{}", sizes[i], start, t.offset),
                   fmt::format("a file of {} bytes (a broken download?)", file.size()));
    }
    t.offset += start;
    t.bytes = file.subspan(std::min<uint64_t>(t.offset, file.size()), sizes[i]);
  }
}

template <class Out, class In>
void widen(std::string_view raw, std::vector<Out>& out) {
  for (size_t at = 0; at < raw.size(); at += sizeof(In)) {
    out.push_back(static_cast<Out>(load<In>(raw.data() + at)));
  }
}

// Whole numbers of `type` out of `raw`; false for other types or a u64 beyond int64.
bool widen_ints(GgufType type, std::string_view raw, std::vector<int64_t>& out) {
  switch (type) {
    case GgufType::u8:
    case GgufType::boolean:
      widen<int64_t, uint8_t>(raw, out);
      return true;
    case GgufType::i8:
      widen<int64_t, int8_t>(raw, out);
      return true;
    case GgufType::u16:
      widen<int64_t, uint16_t>(raw, out);
      return true;
    case GgufType::i16:
      widen<int64_t, int16_t>(raw, out);
      return true;
    case GgufType::u32:
      widen<int64_t, uint32_t>(raw, out);
      return true;
    case GgufType::i32:
      widen<int64_t, int32_t>(raw, out);
      return true;
    case GgufType::u64:
    case GgufType::i64:
      widen<int64_t, int64_t>(raw, out);
      return type == GgufType::i64 ||
             std::none_of(out.begin(), out.end(), [](int64_t v) { return v < 0; });
    default:
      return false;
  }
}

bool widen_doubles(GgufType type, std::string_view raw, std::vector<double>& out) {
  if (type == GgufType::f32) {
    widen<double, float>(raw, out);
  } else if (type == GgufType::f64) {
    widen<double, double>(raw, out);
  } else {
    return false;
  }
  return true;
}

}  // namespace

std::string_view name_of(GgufType type) { return kTypeNames.at(static_cast<size_t>(type)); }

bool GgufValue::to_int(int64_t& out) const {
  std::vector<int64_t> values;
  if (!widen_ints(type, raw, values)) return false;
  out = values.at(0);
  return true;
}

bool GgufValue::to_double(double& out) const {
  std::vector<double> values;
  int64_t whole = 0;
  if (widen_doubles(type, raw, values)) {
    out = values.at(0);
  } else if (to_int(whole)) {
    out = static_cast<double>(whole);
  } else {
    return false;
  }
  return true;
}

std::vector<std::string_view> GgufValue::strings() const {
  std::vector<std::string_view> out;
  if (type != GgufType::array || element != GgufType::string) return out;
  for (size_t at = 0; at < raw.size();) {
    auto length = static_cast<size_t>(load<uint64_t>(raw.data() + at));
    out.push_back(raw.substr(at + 8, length));
    at += 8 + length;
  }
  return out;
}

std::vector<int64_t> GgufValue::ints() const {
  std::vector<int64_t> out;
  if (type != GgufType::array || !widen_ints(element, raw, out)) out.clear();
  return out;
}

std::vector<double> GgufValue::doubles() const {
  std::vector<double> out;
  if (type == GgufType::array) widen_doubles(element, raw, out);
  return out;
}

GgufIndex parse_gguf(std::span<const std::byte> file, const std::string& where) {
  Cursor in(file, where);
  GgufIndex index;
  take_magic(in, index);
  auto tensor_count = in.take<uint64_t>("the tensor count");
  uint64_t pairs = in.take_count("keys", kMinPair);
  take_metadata(in, pairs, index);
  take_alignment(in, index);
  in.set_item("the tensor list");
  if (tensor_count > in.left() / kMinTensor) {
    in.fail_here(
        "weights.gguf_count",
        fmt::format("at most {} tensors, which is what fits into the file", in.left() / kMinTensor),
        std::to_string(tensor_count));
  }
  std::vector<uint64_t> sizes(tensor_count);
  std::unordered_set<std::string> names;
  for (uint64_t i = 0; i < tensor_count; ++i) {
    in.set_item(fmt::format("tensor {} of {}", i + 1, tensor_count));
    index.tensors.push_back(take_tensor(in, sizes[i]));
    if (!names.insert(index.tensors.back().name).second) {
      in.fail_here("weights.gguf_duplicate", "each tensor name once", "the name twice");
    }
  }
  place_tensors(in, file, sizes, index);
  check_overlap(index, where);
  return index;
}

GgufFile::GgufFile(const std::filesystem::path& path)
    : map_(path), index_(parse_gguf(map_.bytes(), path.string())) {
  for (size_t i = 0; i < index_.metadata.size(); ++i) keys_[index_.metadata[i].first] = i;
  for (size_t i = 0; i < index_.tensors.size(); ++i) names_[index_.tensors[i].name] = i;
}

const GgufTensor* GgufFile::find_tensor(std::string_view name) const {
  auto it = names_.find(name);
  return it == names_.end() ? nullptr : &index_.tensors[it->second];
}

const GgufValue* GgufFile::find(std::string_view key) const {
  auto it = keys_.find(key);
  return it == keys_.end() ? nullptr : &index_.metadata[it->second].second;
}

const GgufValue& GgufFile::require_value(const std::string& key) const {
  const GgufValue* value = find(key);
  require(value != nullptr, {.id = "weights.gguf_key",
                             .where = path().string(),
                             .expected = "metadata key '" + key + "'",
                             .got = "no such key",
                             .code = Code::not_found});
  return *value;
}

void GgufFile::fail_type(const std::string& key, const GgufValue& value,
                         const char* expected) const {
  fail({.id = "weights.gguf_key_type",
        .where = fmt::format("{}, metadata key '{}'", path().string(), key),
        .expected = expected,
        .got = value.type == GgufType::array ? fmt::format("an array of {}", name_of(value.element))
                                             : std::string(name_of(value.type))});
}

int64_t GgufFile::get_int(const std::string& key) const {
  const GgufValue& value = require_value(key);
  int64_t out = 0;
  if (value.type == GgufType::boolean || !value.to_int(out)) fail_type(key, value, "an integer");
  return out;
}

int64_t GgufFile::get_int_or(const std::string& key, int64_t fallback) const {
  return find(key) == nullptr ? fallback : get_int(key);
}

double GgufFile::get_double(const std::string& key) const {
  const GgufValue& value = require_value(key);
  double out = 0;
  if (value.type == GgufType::boolean || !value.to_double(out)) fail_type(key, value, "a number");
  return out;
}

double GgufFile::get_double_or(const std::string& key, double fallback) const {
  return find(key) == nullptr ? fallback : get_double(key);
}

std::string GgufFile::get_string(const std::string& key) const {
  const GgufValue& value = require_value(key);
  if (value.type != GgufType::string) fail_type(key, value, "a string");
  return std::string(value.raw);
}

std::string GgufFile::get_string_or(const std::string& key, const std::string& fallback) const {
  return find(key) == nullptr ? fallback : get_string(key);
}

bool GgufFile::get_bool_or(const std::string& key, bool fallback) const {
  const GgufValue* value = find(key);
  if (value == nullptr) return fallback;
  if (value->type != GgufType::boolean) fail_type(key, *value, "a boolean");
  return value->raw[0] != 0;
}

std::vector<std::string_view> GgufFile::get_strings(const std::string& key) const {
  const GgufValue& value = require_value(key);
  if (value.type != GgufType::array || value.element != GgufType::string) {
    fail_type(key, value, "an array of strings");
  }
  return value.strings();
}

std::vector<int64_t> GgufFile::get_ints(const std::string& key) const {
  const GgufValue& value = require_value(key);
  std::vector<int64_t> out = value.ints();
  if (value.type != GgufType::array || out.size() != value.count) {
    fail_type(key, value, "an array of integers");
  }
  return out;
}

void GgufFile::release(const GgufTensor& tensor) const {
  map_.release(tensor.offset, tensor.bytes.size());
}

}  // namespace strata::weights
