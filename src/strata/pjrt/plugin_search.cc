// Turning "cpu" into the path of a shared library.
#include <array>
#include <cstdlib>
#include <span>

#include "strata/base/error.h"
#include "strata/base/strings.h"
#include "strata/pjrt/plugin.h"

namespace strata::pjrt {
namespace {

namespace fs = std::filesystem;

// Where the wheels of each platform keep their library, newest first.
struct Known {
  std::string_view name;
  std::array<std::string_view, 3> files;
};
constexpr std::array<Known, 4> kKnown = {{
    {"cpu",
     {"lammps_jax_pjrt_cpu/pjrt_c_api_cpu_plugin.so", "xla_plugins/xla_cpu_pjrt/xla_cpu_pjrt.so"}},
    {"cuda",
     {"jax_plugins/xla_cuda13/xla_cuda_plugin.so", "jax_plugins/xla_cuda12/xla_cuda_plugin.so"}},
    {"rocm",
     {"jax_plugins/xla_rocm7/xla_rocm_plugin.so", "jax_plugins/xla_rocm60/xla_rocm_plugin.so"}},
    {"tpu", {"libtpu/libtpu.so"}},
}};

std::string environment(const char* name) {
  const char* value = std::getenv(name);
  return value == nullptr ? "" : value;
}

fs::path default_deps_dir() {
  if (std::string deps = environment("STRATA_DEPS"); !deps.empty()) return deps;
  std::error_code ec;
  fs::path self = fs::read_symlink("/proc/self/exe", ec);
  return ec ? fs::path() : (self.parent_path() / "../../.deps").lexically_normal();
}

// Adds `lib`/python3*/{site,dist}-packages that exist.
void add_python_libs(const fs::path& lib, std::vector<fs::path>& out) {
  std::error_code ec;
  for (const auto& entry : fs::directory_iterator(lib, ec)) {
    if (entry.path().filename().string().rfind("python3", 0) != 0) continue;
    for (const char* packages : {"site-packages", "dist-packages"}) {
      if (fs::is_directory(entry.path() / packages, ec)) out.push_back(entry.path() / packages);
    }
  }
}

std::vector<fs::path> default_python_dirs() {
  std::vector<fs::path> dirs;
  for (const std::string& dir : split(environment("PYTHONPATH"), ':')) {
    if (!dir.empty()) dirs.emplace_back(dir);
  }
  std::string venv = environment("VIRTUAL_ENV");
  if (!venv.empty()) add_python_libs(fs::path(venv) / "lib", dirs);
  std::string home = environment("HOME");
  if (!home.empty()) add_python_libs(fs::path(home) / ".local/lib", dirs);
  add_python_libs("/usr/local/lib", dirs);
  add_python_libs("/usr/lib", dirs);
  return dirs;
}

const Known& known_platform(std::string_view name) {
  std::vector<std::string> names;
  for (const Known& known : kKnown) {
    if (known.name == name) return known;
    names.emplace_back(known.name);
  }
  fail({.id = "pjrt.plugin_name",
        .where = "plug-in '" + std::string(name) + "'",
        .expected = "one of " + join(names, ", ") + ", or the path of a .so file",
        .got = "'" + std::string(name) + "'",
        .cure = "Did you mean '" + nearest(name, names) + "'?"});
}

}  // namespace

fs::path find_plugin(std::string_view name_or_path, const PluginSearch& search) {
  bool is_path = name_or_path.find('/') != std::string_view::npos ||
                 fs::path(name_or_path).extension() == ".so";
  if (is_path) return name_or_path;
  const Known& known = known_platform(name_or_path);
  std::vector<fs::path> roots = {search.deps_dir.empty() ? default_deps_dir() : search.deps_dir};
  std::vector<fs::path> python =
      search.python_dirs.empty() ? default_python_dirs() : search.python_dirs;
  roots.insert(roots.end(), python.begin(), python.end());
  std::string tried;
  for (const fs::path& root : roots) {
    for (std::string_view file : known.files) {
      if (file.empty() || root.empty()) continue;
      std::error_code ec;
      if (fs::is_regular_file(root / file, ec)) return root / file;
      tried += "\n    " + (root / file).string();
    }
  }
  fail({.id = "pjrt.plugin_not_found",
        .where = "plug-in '" + std::string(name_or_path) + "'",
        .expected = "its shared library in one of:" + tried + "\n  ",
        .got = "none of them",
        .cure = "Run `make setup`, set STRATA_DEPS, or give the path of the .so",
        .code = Code::not_found});
}

}  // namespace strata::pjrt
