#include "strata/weights/safetensors.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <unordered_set>
#include <utility>

#include "strata/base/error.h"
#include "strata/base/json.h"
#include "strata/base/strings.h"

namespace strata::weights {
namespace {

constexpr size_t kLengthBytes = 8;
constexpr uint64_t kMaxHeader = 100'000'000;  // the format's own limit

constexpr std::array<std::pair<std::string_view, DType>, 16> kTypes = {{
    {"BOOL", DType::pred},
    {"I8", DType::i8},
    {"I16", DType::i16},
    {"I32", DType::i32},
    {"I64", DType::i64},
    {"U8", DType::u8},
    {"U16", DType::u16},
    {"U32", DType::u32},
    {"U64", DType::u64},
    {"F8_E4M3", DType::f8e4m3fn},
    {"F8_E5M2", DType::f8e5m2},
    {"F8_E8M0", DType::f8e8m0fnu},
    {"F16", DType::f16},
    {"BF16", DType::bf16},
    {"F32", DType::f32},
    {"F64", DType::f64},
}};

constexpr std::array<std::string_view, 6> kNotServed = {"F4",  "F6_E2M3",     "F6_E3M2",
                                                        "C64", "F8_E4M3FNUZ", "F8_E5M2FNUZ"};

std::string tensor_where(const std::string& where, const std::string& name) {
  return fmt::format("{}, tensor '{}'", where, name.substr(0, 200));
}

[[noreturn]] void fail_format(std::string_view id, std::string where, std::string expected,
                              std::string got) {
  fail({.id = id,
        .where = std::move(where),
        .expected = std::move(expected),
        .got = std::move(got),
        .cure = "The file is damaged or not safetensors: fetch or write it again",
        .code = Code::data_loss});
}

DType dtype_of_name(const std::string& name, const std::string& where) {
  for (const auto& row : kTypes) {
    if (row.first == name) return row.second;
  }
  if (std::find(kNotServed.begin(), kNotServed.end(), name) != kNotServed.end()) {
    unimplemented({.id = "weights.st_dtype_not_served",
                   .where = where,
                   .expected = "an element type that Strata reads",
                   .got = name,
                   .cure = "Convert the tensor to BF16 or F32 first"});
  }
  std::vector<std::string> known;
  for (const auto& row : kTypes) known.emplace_back(row.first);
  fail_format("weights.st_dtype", where,
              "an element type of the format, one of " + join(known, ", "),
              "'" + name.substr(0, 40) + "'");
}

// One entry as the header states it, before it is compared with the file.
struct RawEntry {
  std::string name;
  std::string dtype;
  std::vector<uint64_t> shape;
  std::vector<uint64_t> offsets;
  bool has_dtype = false, has_shape = false, has_offsets = false;
};

// Reads the header as a stream of events, so that duplicates are seen and no tree is built.
// Unknown fields of an entry are skipped, as the reference implementation does.
class HeaderReader final : public nlohmann::json_sax<Json> {
 public:
  explicit HeaderReader(const std::string& where) : where_(where) {}

  std::vector<RawEntry> take_entries() { return std::move(entries_); }
  Metadata take_metadata() { return std::move(metadata_); }

  bool null() override {
    if (scalar_skipped()) return true;
    if (place_ == Place::header && entry_key_ == "__metadata__") return true;
    return unexpected("null");
  }
  bool boolean(bool) override { return scalar_skipped() || unexpected("a boolean"); }
  bool number_integer(number_integer_t v) override {
    return scalar_skipped() || unexpected(fmt::format("the negative number {}", v));
  }
  bool number_float(number_float_t, const string_t& text) override {
    return scalar_skipped() || unexpected("the number " + text.substr(0, 40));
  }
  bool binary(binary_t&) override { return unexpected("binary data"); }
  bool number_unsigned(number_unsigned_t v) override {
    if (scalar_skipped()) return true;
    if (place_ == Place::shape) {
      entries_.back().shape.push_back(v);
    } else if (place_ == Place::offsets) {
      entries_.back().offsets.push_back(v);
    } else {
      return unexpected(fmt::format("the number {}", v));
    }
    return true;
  }
  bool string(string_t& text) override {
    if (scalar_skipped()) return true;
    if (place_ == Place::metadata) {
      metadata_[metadata_key_] = text;
    } else if (place_ == Place::entry && field_ == "dtype") {
      entries_.back().dtype = text;
    } else {
      return unexpected("the text '" + text.substr(0, 40) + "'");
    }
    return true;
  }
  bool start_object(std::size_t) override;
  bool end_object() override;
  bool start_array(std::size_t) override;
  bool end_array() override;
  bool key(string_t& name) override;
  bool parse_error(std::size_t position, const std::string&,
                   const nlohmann::detail::exception& e) override {
    std::string reason = e.what();
    size_t colon = reason.find("] ");
    if (colon != std::string::npos) reason = reason.substr(colon + 2);
    fail_format("weights.st_header_json", where_, "a JSON header",
                fmt::format("an error at byte {} of the file: {}", kLengthBytes + position,
                            reason.substr(0, 200)));
  }

 private:
  enum class Place { start, header, metadata, entry, shape, offsets, done };

  // Whether this value belongs to an unknown field; a bare one ends that field.
  bool scalar_skipped() {
    if (!unknown_) return false;
    if (skip_ == 0) unknown_ = false;
    return true;
  }
  bool unexpected(const std::string& what) const;
  void start_entry();
  void set_once(bool& seen);

  const std::string& where_;
  Place place_ = Place::start;
  std::string entry_key_, metadata_key_, field_;
  bool unknown_ = false;  // the field being read is not one of ours
  size_t skip_ = 0;       // open brackets within it
  std::vector<RawEntry> entries_;
  std::unordered_set<std::string> names_;
  Metadata metadata_;
};

bool HeaderReader::unexpected(const std::string& what) const {
  switch (place_) {
    case Place::start:
    case Place::done:
      fail_format("weights.st_header_type", where_, "a header that is a JSON object", what);
    case Place::metadata:
      fail_format("weights.st_metadata", where_ + ", __metadata__", "text values only",
                  fmt::format("{} for '{}'", what, metadata_key_.substr(0, 100)));
    case Place::header:
      if (entry_key_ == "__metadata__") {
        fail_format("weights.st_metadata", where_ + ", __metadata__", "an object of texts", what);
      }
      break;
    default:
      break;
  }
  std::string field = place_ == Place::header ? "" : ", field '" + field_.substr(0, 40) + "'";
  fail_format("weights.st_entry", tensor_where(where_, entry_key_) + field,
              "an object of dtype (text), shape and data_offsets (whole numbers)", what);
}

void HeaderReader::start_entry() {
  entries_.emplace_back();
  entries_.back().name = entry_key_;
  place_ = Place::entry;
}

bool HeaderReader::start_object(std::size_t) {
  if (unknown_) {
    ++skip_;
  } else if (place_ == Place::start) {
    place_ = Place::header;
  } else if (place_ == Place::header && entry_key_ == "__metadata__") {
    place_ = Place::metadata;
  } else if (place_ == Place::header) {
    start_entry();
  } else {
    return unexpected("an object");
  }
  return true;
}

bool HeaderReader::end_object() {
  if (skip_ > 0) {
    if (--skip_ == 0) unknown_ = false;
    return true;
  }
  if (place_ == Place::entry) {
    const RawEntry& e = entries_.back();
    if (!e.has_dtype || !e.has_shape || !e.has_offsets) {
      fail_format("weights.st_entry", tensor_where(where_, entry_key_),
                  "dtype, shape and data_offsets",
                  std::string("no ") + (!e.has_dtype   ? "dtype"
                                        : !e.has_shape ? "shape"
                                                       : "data_offsets"));
    }
  }
  place_ = place_ == Place::header ? Place::done : Place::header;
  return true;
}

bool HeaderReader::start_array(std::size_t) {
  if (unknown_) {
    ++skip_;
  } else if (place_ == Place::entry && field_ == "shape") {
    place_ = Place::shape;
  } else if (place_ == Place::entry && field_ == "data_offsets") {
    place_ = Place::offsets;
  } else {
    return unexpected("an array");
  }
  return true;
}

bool HeaderReader::end_array() {
  if (skip_ > 0) {
    if (--skip_ == 0) unknown_ = false;
  } else {
    place_ = Place::entry;
  }
  return true;
}

void HeaderReader::set_once(bool& seen) {
  if (seen) {
    fail_format("weights.st_duplicate", tensor_where(where_, entry_key_), "each field once",
                "'" + field_ + "' twice");
  }
  seen = true;
}

bool HeaderReader::key(string_t& name) {
  if (skip_ > 0) return true;
  if (place_ == Place::header) {
    entry_key_ = name;
    if (!names_.insert(name).second) {
      fail_format("weights.st_duplicate", tensor_where(where_, name), "each name once",
                  "the name twice");
    }
  } else if (place_ == Place::metadata) {
    metadata_key_ = name;
    if (metadata_.count(name) > 0) {
      fail_format("weights.st_duplicate", where_ + ", __metadata__", "each key once",
                  "'" + name.substr(0, 100) + "' twice");
    }
  } else {
    RawEntry& e = entries_.back();
    field_ = name;
    unknown_ = name != "dtype" && name != "shape" && name != "data_offsets";
    if (!unknown_) {
      set_once(name == "dtype" ? e.has_dtype : name == "shape" ? e.has_shape : e.has_offsets);
    }
  }
  return true;
}

// The header's text. Checks the length against the file before anything is read.
std::string_view header_text(std::span<const std::byte> file, const std::string& where) {
  if (file.size() < kLengthBytes) {
    fail_format("weights.st_size", where, "a header length of 8 bytes",
                fmt::format("a file of {} bytes", file.size()));
  }
  uint64_t length = 0;
  std::memcpy(&length, file.data(), kLengthBytes);
  uint64_t room = file.size() - kLengthBytes;
  if (length == 0 || length > room || length > kMaxHeader) {
    bool html = std::memcmp(file.data(), "<", 1) == 0;
    bool lfs = room > 0 && std::memcmp(file.data(), "version ", kLengthBytes) == 0;
    fail_format("weights.st_header_length", where + ", bytes 0 to 8",
                fmt::format("a header length from 1 to {}", std::min(room, kMaxHeader)),
                fmt::format("{}{}", length,
                            html  ? " (an HTML page saved under this name?)"
                            : lfs ? " (a Git LFS pointer: the real file was not fetched)"
                                  : ""));
  }
  const char* text = reinterpret_cast<const char*>(file.data()) + kLengthBytes;
  return {text, static_cast<size_t>(length)};
}

// Bytes that dims of `dtype` take; an error when the product overflows.
uint64_t stated_bytes(const RawEntry& e, DType dtype, const std::string& where) {
  uint64_t bytes = size_of(dtype);
  for (uint64_t dim : e.shape) {
    bool fits = dim <= uint64_t{INT64_MAX} && !__builtin_mul_overflow(bytes, dim, &bytes);
    if (!fits || bytes > uint64_t{INT64_MAX}) {
      fail_format("weights.st_shape", where, "a shape whose bytes fit in 63 bits",
                  fmt::format("[{}] of {}", fmt::join(e.shape, ", "), e.dtype));
    }
  }
  return bytes;
}

TensorView view_of(RawEntry e, std::span<const std::byte> file, uint64_t data_start,
                   const std::string& where) {
  std::string place = tensor_where(where, e.name);
  if (e.offsets.size() != 2) {
    fail_format("weights.st_entry", place + ", field 'data_offsets'", "two numbers",
                fmt::format("{}", e.offsets.size()));
  }
  TensorView view;
  view.dtype = dtype_of_name(e.dtype, place);
  uint64_t begin = e.offsets[0], end = e.offsets[1], room = file.size() - data_start;
  if (begin > end) {
    fail_format("weights.st_offsets", place, "data_offsets [begin, end] with begin <= end",
                fmt::format("[{}, {}]", begin, end));
  }
  uint64_t needed = stated_bytes(e, view.dtype, place);
  if (needed != end - begin) {
    fail_format("weights.st_bytes", place,
                fmt::format("{} bytes for {}[{}]", needed, e.dtype, fmt::join(e.shape, ", ")),
                fmt::format("{} bytes between its data_offsets", end - begin));
  }
  if (end > room) {
    fail_format("weights.st_past_end", place,
                fmt::format("its last byte within the {} bytes of the file", file.size()),
                fmt::format("a tensor that lacks its last {} bytes (a broken download?)",
                            std::min(end - room, needed)));
  }
  view.name = std::move(e.name);
  view.dims.assign(e.shape.begin(), e.shape.end());
  view.offset = data_start + begin;
  view.bytes = file.subspan(data_start + begin, end - begin);
  return view;
}

// Tensors, sorted by place, must tile the data without overlap, hole or rest.
void check_coverage(const std::vector<TensorView>& sorted, uint64_t data_start, uint64_t file_size,
                    const std::string& where) {
  uint64_t at = data_start;
  const TensorView* previous = nullptr;
  for (const TensorView& t : sorted) {
    if (t.offset < at) {
      fail_format("weights.st_overlap", tensor_where(where, t.name),
                  fmt::format("a start at byte {}", at),
                  fmt::format("{}, inside tensor '{}'", t.offset, previous->name.substr(0, 200)));
    }
    if (t.offset > at) {
      fail_format(
          "weights.st_hole", tensor_where(where, t.name), fmt::format("a start at byte {}", at),
          fmt::format("{}: {} bytes before it belong to no tensor", t.offset, t.offset - at));
    }
    at = t.offset + t.bytes.size();
    previous = &t;
  }
  if (at != file_size) {
    fail_format("weights.st_trailing", where,
                fmt::format("the end of the file at byte {}, after the last tensor", at),
                fmt::format("{} more bytes", file_size - at));
  }
}

}  // namespace

SafetensorsIndex parse_safetensors(std::span<const std::byte> file, const std::string& where) {
  std::string_view text = header_text(file, where);
  // The JSON library takes a NUL for the end of the text and skips a byte-order mark.
  size_t nul = text.find('\0');
  if (nul != std::string_view::npos || text.substr(0, 1) == "\xef") {
    fail_format("weights.st_header_json", where, "a JSON header",
                nul == std::string_view::npos
                    ? std::string("a byte-order mark")
                    : fmt::format("a NUL at byte {}", kLengthBytes + nul));
  }
  HeaderReader reader(where);
  Json::sax_parse(text.begin(), text.end(), &reader);
  SafetensorsIndex index;
  index.metadata = reader.take_metadata();
  uint64_t data_start = kLengthBytes + text.size();
  for (RawEntry& e : reader.take_entries()) {
    index.tensors.push_back(view_of(std::move(e), file, data_start, where));
  }
  std::stable_sort(
      index.tensors.begin(), index.tensors.end(), [](const TensorView& a, const TensorView& b) {
        return std::pair(a.offset, a.bytes.size()) < std::pair(b.offset, b.bytes.size());
      });
  check_coverage(index.tensors, data_start, file.size(), where);
  return index;
}

std::string_view safetensors_name(DType dtype) {
  for (const auto& row : kTypes) {
    if (row.second == dtype) return row.first;
  }
  invariant(false, "weights.st_name", "every element type has a safetensors name");
  return {};
}

SafetensorsFile::SafetensorsFile(const std::filesystem::path& path)
    : map_(path), index_(parse_safetensors(map_.bytes(), path.string())) {
  for (size_t i = 0; i < index_.tensors.size(); ++i) by_name_[index_.tensors[i].name] = i;
}

const TensorView* SafetensorsFile::find(std::string_view name) const {
  auto it = by_name_.find(name);
  return it == by_name_.end() ? nullptr : &index_.tensors[it->second];
}

void SafetensorsFile::release(const TensorView& tensor) const {
  map_.release(tensor.offset, tensor.bytes.size());
}

}  // namespace strata::weights
