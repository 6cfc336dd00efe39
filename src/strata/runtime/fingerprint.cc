#include "strata/runtime/fingerprint.h"

#include <fmt/format.h>
#include <sys/stat.h>

#include <cstdlib>
#include <fstream>

#include "strata/base/hash.h"

namespace strata::runtime {

namespace fs = std::filesystem;

std::string plugin_digest(const fs::path& library, DiskCache& cache) {
  struct stat info {};
  if (::stat(library.c_str(), &info) != 0) return sha256_of_file(library);
  std::string identity = fmt::format(
      "plug-in {} {} {} {}.{} {}.{}", fs::absolute(library).string(), info.st_size, info.st_ino,
      info.st_mtim.tv_sec, info.st_mtim.tv_nsec, info.st_ctim.tv_sec, info.st_ctim.tv_nsec);
  std::string key = sha256(identity);
  if (std::optional<std::string> kept = cache.load(key); kept && kept->size() == 64) return *kept;
  std::string digest = sha256_of_file(library);
  cache.store(key, digest);
  return digest;
}

std::string cpu_features() {
  std::ifstream file("/proc/cpuinfo");
  std::string model, flags, line;
  while (std::getline(file, line) && (model.empty() || flags.empty())) {
    if (line.rfind("model name", 0) == 0) model = line;
    if (line.rfind("flags", 0) == 0 || line.rfind("Features", 0) == 0) flags = line;
  }
  return model + "\n" + flags;
}

std::string machine_fingerprint(const pjrt::Client& client, DiskCache& cache) {
  const pjrt::Plugin& plugin = *client.plugin();
  const char* xla_flags = std::getenv("XLA_FLAGS");
  std::string text =
      fmt::format("{}\n{}\n{}\n{}\n{}\n{}\n", plugin_digest(plugin.path(), cache),
                  plugin.version_text(), client.platform_name(), client.platform_version(),
                  cpu_features(), xla_flags == nullptr ? "" : xla_flags);
  for (const pjrt::Device& device : client.devices()) {
    text += fmt::format("{} {}\n", device.id, device.kind);
  }
  return text;
}

}  // namespace strata::runtime
