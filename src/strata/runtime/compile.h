// From StableHLO text to a program, compiled once: equal text, options, plug-in and machine are
// found again in memory or on disk.
#pragma once

#include <cstdint>
#include <filesystem>
#include <future>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "strata/ir/ir.h"
#include "strata/pjrt/executable.h"
#include "strata/runtime/disk_cache.h"
#include "strata/runtime/program.h"

namespace strata::runtime {

struct CompilerOptions {
  // Where compiled programs are kept; empty = nowhere.
  std::filesystem::path cache_dir = default_cache_dir();
  // Bytes of all of them; the longest unused go first.
  uint64_t cache_limit = uint64_t{4} << 30;
};

// A request's options select the program with the text (both are part of the key; layouts stand in
// the text as mhlo.layout_mode). The rest describes it: see Program for what is checked.
struct CompileRequest {
  std::string name = "program";
  pjrt::CompileOptions options = {};
  // Empty = as the program says (one device only).
  std::vector<Slot> parameters = {};
  std::vector<Slot> results = {};
  // Seconds the caller spent on making the text, for reports.
  double trace_seconds = 0;
};

// The request for a traced program: over a mesh, its devices and how each argument and result lies,
// as the ports say; on one device the compiled program tells that itself.
CompileRequest request_for(const ir::Function& function, std::string name);

struct CompileCounters {
  int64_t compiles = 0;  // by XLA
  int64_t memory_hits = 0;
  int64_t disk_hits = 0;
  int64_t disk_failures = 0;  // entries that were there and did not load
  double trace_seconds = 0;
  double compile_seconds = 0;
  double load_seconds = 0;
};

// Thread-safe. Different programs compile at the same time; the same one is compiled by the first
// that asks while the others wait.
class Compiler {
 public:
  explicit Compiler(std::shared_ptr<const pjrt::Client> client, CompilerOptions options = {});

  const std::shared_ptr<const pjrt::Client>& client() const { return client_; }

  // Throws what XLA finds wrong with the text (as "pjrt.call", with "while compiling NAME" and the
  // text's own locations), and what Program finds wrong with the description. An unusable cache is
  // never an error.
  std::shared_ptr<const Program> compile(std::string_view text, CompileRequest request = {});

  // The key of a program: hex SHA-256 over text, options and, with a disk cache,
  // machine_fingerprint.
  std::string key_of(std::string_view text, const pjrt::CompileOptions& options);

  CompileCounters counters() const;

 private:
  struct Loaded {
    std::shared_ptr<const pjrt::Executable> executable;
    Signature signature;
    double compile_seconds = 0;
    double load_seconds = 0;
  };
  using LoadedPtr = std::shared_ptr<const Loaded>;

  LoadedPtr find_or_make(const std::string& key, std::string_view text,
                         const CompileRequest& request, bool& from_memory);
  LoadedPtr load(const std::string& key);
  LoadedPtr compile_now(const std::string& key, std::string_view text,
                        const CompileRequest& request);
  const std::string& fingerprint();

  std::shared_ptr<const pjrt::Client> client_;
  DiskCache disk_;
  std::once_flag fingerprint_once_;
  std::string fingerprint_;

  mutable std::mutex mutex_;
  std::unordered_map<std::string, std::shared_future<LoadedPtr>> programs_;
  CompileCounters counters_;
};

}  // namespace strata::runtime
