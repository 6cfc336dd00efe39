#include "strata/rl/tensorboard.h"

#include <fmt/format.h>
#include <unistd.h>

#include <array>
#include <bit>
#include <cstring>

#include "strata/base/error.h"

namespace strata::rl {
namespace {

static_assert(std::endian::native == std::endian::little, "event files are little-endian");

constexpr std::array<uint32_t, 256> crc_table() {
  std::array<uint32_t, 256> table{};
  for (uint32_t i = 0; i < 256; ++i) {
    uint32_t crc = i;
    for (int bit = 0; bit < 8; ++bit) crc = (crc >> 1) ^ ((crc & 1) != 0 ? 0x82f63b78u : 0u);
    table[i] = crc;
  }
  return table;
}

template <class T>
void append_raw(std::string& out, T value) {
  char bytes[sizeof(T)];
  std::memcpy(bytes, &value, sizeof(T));
  out.append(bytes, sizeof(T));
}

// Protobuf wire types.
enum class Wire : uint32_t { varint = 0, fixed64 = 1, bytes = 2, fixed32 = 5 };

void append_varint(std::string& out, uint64_t value) {
  while (value >= 0x80) {
    out += static_cast<char>((value & 0x7f) | 0x80);
    value >>= 7;
  }
  out += static_cast<char>(value);
}

void append_key(std::string& out, uint32_t field, Wire wire) {
  append_varint(out, (uint64_t{field} << 3) | static_cast<uint32_t>(wire));
}

void append_double(std::string& out, uint32_t field, double value) {
  append_key(out, field, Wire::fixed64);
  append_raw(out, value);
}

void append_float(std::string& out, uint32_t field, float value) {
  append_key(out, field, Wire::fixed32);
  append_raw(out, value);
}

void append_int(std::string& out, uint32_t field, int64_t value) {
  append_key(out, field, Wire::varint);
  append_varint(out, static_cast<uint64_t>(value));
}

void append_bytes(std::string& out, uint32_t field, std::string_view value) {
  append_key(out, field, Wire::bytes);
  append_varint(out, value.size());
  out += value;
}

// Event: wall_time = 1, step = 2, file_version = 3, summary = 5, session_log = 7.
std::string event(double wall_time, int64_t step) {
  std::string out;
  append_double(out, 1, wall_time);
  if (step != 0) append_int(out, 2, step);
  return out;
}

std::filesystem::path new_file_name(const std::filesystem::path& directory) {
  std::error_code error;
  std::filesystem::create_directories(directory, error);
  // The open that follows says what is wrong, if anything is.
  std::array<char, 256> host{};
  if (::gethostname(host.data(), host.size() - 1) != 0 || host[0] == '\0') host[0] = 'h';
  auto seconds = static_cast<int64_t>(StepMetrics::now(0).wall_time);
  for (int n = 0;; ++n) {
    std::filesystem::path path = directory / fmt::format("events.out.tfevents.{}.{}.{}.{}", seconds,
                                                         host.data(), ::getpid(), n);
    if (!std::filesystem::exists(path, error)) return path;
  }
}

}  // namespace

uint32_t crc32c(std::string_view bytes) {
  static constexpr std::array<uint32_t, 256> kTable = crc_table();
  uint32_t crc = 0xffffffffu;
  for (char c : bytes) crc = kTable[(crc ^ static_cast<uint8_t>(c)) & 0xff] ^ (crc >> 8);
  return ~crc;
}

uint32_t masked_crc32c(std::string_view bytes) {
  return std::rotr(crc32c(bytes), 15) + 0xa282ead8u;
}

std::string tf_record(std::string_view bytes) {
  std::string length;
  append_raw(length, uint64_t{bytes.size()});
  std::string out = length;
  append_raw(out, masked_crc32c(length));
  out += bytes;
  append_raw(out, masked_crc32c(bytes));
  return out;
}

std::string version_event(double wall_time) {
  std::string out = event(wall_time, 0);
  append_bytes(out, 3, "brain.Event:2");
  return out;
}

std::string session_start_event(double wall_time, int64_t step) {
  // SessionLog: status = 1; START is 1.
  std::string session;
  append_int(session, 1, 1);
  std::string out = event(wall_time, step);
  append_bytes(out, 7, session);
  return out;
}

std::string scalars_event(const StepMetrics& metrics) {
  // Summary: repeated value = 1; Value: tag = 1, simple_value = 2.
  std::string summary;
  for (const Scalar& s : metrics.scalars) {
    std::string value;
    append_bytes(value, 1, s.name);
    append_float(value, 2, static_cast<float>(s.value));
    append_bytes(summary, 1, value);
  }
  std::string out = event(metrics.wall_time, metrics.step);
  append_bytes(out, 5, summary);
  return out;
}

TensorBoardSink::TensorBoardSink(const std::filesystem::path& directory,
                                 std::optional<int64_t> resume_at)
    : file_(new_file_name(directory), AppendFile::Mode::fresh) {
  double now = StepMetrics::now(0).wall_time;
  file_.append(tf_record(version_event(now)));
  if (resume_at) file_.append(tf_record(session_start_event(now, *resume_at)));
}

void TensorBoardSink::write(const StepMetrics& metrics) {
  file_.append(tf_record(scalars_event(metrics)));
}

}  // namespace strata::rl
