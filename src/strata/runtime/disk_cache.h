// Blobs on disk by key, shared by any number of processes: whatever goes wrong costs a miss, never
// an error and never wrong bytes.
#pragma once

#include <atomic>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>

namespace strata::runtime {

// $STRATA_CACHE, or $XDG_CACHE_HOME/strata, or $HOME/.cache/strata; empty when none is set.
std::filesystem::path default_cache_dir();

// An entry is one file, KEY.bin: "STRATAC1", the SHA-256 of the payload (64 hex digits), the
// payload's length (8 bytes, little endian), the payload. Entries are written under another name
// and renamed, so a reader sees a whole one or none. Thread-safe.
class DiskCache {
 public:
  // An empty `directory` gives a cache that holds nothing. The directory is made on the first
  // store. `limit` bounds the bytes of all entries.
  DiskCache(std::filesystem::path directory, uint64_t limit);

  const std::filesystem::path& directory() const { return directory_; }

  // The payload, or nothing. A damaged file is told in one log line and removed. Marks the entry
  // as used now.
  std::optional<std::string> load(const std::string& key);
  // Keeps the payload, then removes the entries that were not used for longest until the rest fits
  // (the new one stays). Returns whether it was kept; a failure is told in one log line and ends
  // storing for this object, so that a full disk is not tried again and again.
  bool store(const std::string& key, std::string_view payload);
  // Forgets an entry whose payload proved useless.
  void remove(const std::string& key);

 private:
  std::filesystem::path path_of(const std::string& key) const;
  void evict(const std::filesystem::path& newest);

  std::filesystem::path directory_;
  uint64_t limit_;
  std::atomic<bool> storing_ = true;
};

}  // namespace strata::runtime
