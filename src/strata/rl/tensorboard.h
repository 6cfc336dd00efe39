// TensorBoard event files, written from scratch: TFRecord framing (length, masked CRC-32C of the
// length, bytes, masked CRC-32C of the bytes) around Event messages in protobuf wire format.
// Facts: tensorflow/core/util/event.proto, summary.proto and lib/io/record_writer.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "strata/rl/append_file.h"
#include "strata/rl/metrics.h"

namespace strata::rl {

// CRC-32C (Castagnoli), and its masked form as TFRecord stores it.
uint32_t crc32c(std::string_view bytes);
uint32_t masked_crc32c(std::string_view bytes);

// One TFRecord around `bytes`.
std::string tf_record(std::string_view bytes);

// Event messages: the one that opens a file ("brain.Event:2"); a session start at `step`, which
// tells TensorBoard to forget that step and later ones of earlier files; and the scalars of a step.
std::string version_event(double wall_time);
std::string session_start_event(double wall_time, int64_t step);
std::string scalars_event(const StepMetrics& metrics);

class TensorBoardSink : public MetricsSink {
 public:
  // Makes `directory` if need be and opens a new file
  // events.out.tfevents.<seconds>.<host>.<pid>.<n> in it. A resumed run gives the step at which it
  // goes on. Throws as AppendFile.
  TensorBoardSink(const std::filesystem::path& directory, std::optional<int64_t> resume_at);
  // Scalars that are not finite are written as they are: TensorBoard marks them.
  void write(const StepMetrics& metrics) override;
  const std::filesystem::path& path() const { return file_.path(); }

 private:
  AppendFile file_;
};

}  // namespace strata::rl
