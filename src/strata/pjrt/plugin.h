// A PJRT plug-in: a shared library whose GetPjrtApi returns a table of functions. Loading finds
// the library, checks that it can be used at all, and reads what it says about itself.
#pragma once

#include <cstddef>
#include <filesystem>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "strata/base/json.h"

struct PJRT_Api;

namespace strata::pjrt {

// Where a plug-in asked for by name is looked for, in this order: `deps_dir` (or, when that is
// empty, $STRATA_DEPS, or else ../../.deps seen from the executable's folder), then the
// site-packages folders of `python_dirs` (or, when those are empty, of $PYTHONPATH, $VIRTUAL_ENV,
// the user and the system).
struct PluginSearch {
  std::filesystem::path deps_dir = {};
  std::vector<std::filesystem::path> python_dirs = {};
};

// The platform a plug-in serves as far as its name tells; it decides how options are spelled.
enum class Platform { cpu, cuda, rocm, tpu, unknown };
std::string_view name_of(Platform platform);

// What a plug-in says about itself; `strata inspect --plugin` prints it.
struct PluginReport {
  std::string path;
  int api_major = 0;
  int api_minor = 0;
  size_t table_bytes = 0;        // of the plug-in's function table
  size_t known_table_bytes = 0;  // of the table this build was compiled against
  std::vector<std::string> extensions;
  std::vector<std::pair<std::string, std::string>> attributes;
  std::vector<std::string> missing_slots;  // functions of our header that the plug-in lacks

  Json json() const;
  std::string text() const;
};

// The path of a plug-in. `name_or_path` is cpu, cuda, rocm or tpu, or a path (it holds a '/' or
// ends in ".so"). Throws invalid_argument "pjrt.plugin_name" for an unknown name and not_found
// "pjrt.plugin_not_found" listing every place that was tried.
std::filesystem::path find_plugin(std::string_view name_or_path, const PluginSearch& search = {});

// Immutable and thread-safe. The library stays loaded for the life of the process, since plug-ins
// leave threads behind that do not survive being unloaded.
class Plugin {
 public:
  // Finds, checks, loads and initialises. The library's symbols stay local to it;
  // TF_CPP_MIN_LOG_LEVEL is set to 3 unless the environment has it. Throws, besides what
  // find_plugin does: "pjrt.plugin_file" (no shared library), "pjrt.plugin_architecture" (built for
  // another machine), "pjrt.plugin_truncated", "pjrt.plugin_load" (the loader's own message),
  // "pjrt.plugin_symbol" (a library without GetPjrtApi), "pjrt.plugin_table" and
  // "pjrt.plugin_version".
  static std::shared_ptr<const Plugin> load(std::string_view name_or_path,
                                            const PluginSearch& search = {});

  // Wraps a table that is already in the process; it must outlive the result. Throws
  // "pjrt.plugin_table" (too short to report errors) or "pjrt.plugin_version" (another major
  // version).
  static std::shared_ptr<const Plugin> adopt(const PJRT_Api* api, std::filesystem::path path,
                                             Platform platform);

  const PJRT_Api* api() const { return api_; }
  const std::filesystem::path& path() const { return path_; }
  // Short name for messages: the file's name.
  const std::string& name() const { return name_; }
  Platform platform() const { return platform_; }
  // "0.115".
  std::string version_text() const;
  PluginReport report() const;

 private:
  Plugin(const PJRT_Api* api, std::filesystem::path path, Platform platform);

  const PJRT_Api* api_;
  std::filesystem::path path_;
  std::string name_;
  Platform platform_;
};

}  // namespace strata::pjrt
