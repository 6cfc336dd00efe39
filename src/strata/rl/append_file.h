// A file that records are appended to while a run goes on: each record reaches the kernel before
// `append` returns, so a run that is killed loses none of them, and readers see whole records.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string_view>

namespace strata::rl {

// Not thread-safe.
class AppendFile {
 public:
  // `fresh` refuses a file that exists; `extend` goes on at its end, or creates it.
  enum class Mode { fresh, extend };

  // Throws already_exists (rl.metrics_exists), not_found, permission_denied or resource_exhausted
  // (rl.metrics_open); each names the path.
  AppendFile(std::filesystem::path path, Mode mode);
  AppendFile(const AppendFile&) = delete;
  AppendFile& operator=(const AppendFile&) = delete;
  ~AppendFile();

  // Throws resource_exhausted on a full disk, else data_loss (rl.metrics_write): then the file
  // holds no part of the record, where the system allows that.
  void append(std::string_view record);

  const std::filesystem::path& path() const { return path_; }

 private:
  std::filesystem::path path_;
  int fd_ = -1;
};

}  // namespace strata::rl
