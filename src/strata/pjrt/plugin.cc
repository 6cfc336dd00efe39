#include "strata/pjrt/plugin.h"

#include <dlfcn.h>
#include <elf.h>
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <fstream>

#include "strata/base/error.h"
#include "strata/base/strings.h"
#include "strata/pjrt/c_api.h"

namespace strata::pjrt {
namespace {

namespace fs = std::filesystem;

std::string machine_name(int machine) {
  switch (machine) {
    case EM_X86_64:
      return "x86-64";
    case EM_AARCH64:
      return "AArch64";
    case EM_386:
      return "32-bit x86";
    case EM_RISCV:
      return "RISC-V";
    default:
      return "ELF machine " + std::to_string(machine);
  }
}

// What the head of an ELF file tells.
struct ElfHead {
  bool valid = false;
  int bits = 0;
  int machine = 0;
  uint64_t least_size = 0;  // the end of what is loaded from it; 0 where it is of another machine
};

// Reads a struct of the file's own machine at `offset`.
template <class T>
bool read_at(std::ifstream& file, uint64_t offset, T& out) {
  file.seekg(static_cast<std::streamoff>(offset));
  file.read(reinterpret_cast<char*>(&out), sizeof(out));
  return static_cast<bool>(file);
}

ElfHead read_elf_head(const fs::path& path) {
  std::ifstream file(path, std::ios::binary);
  Elf64_Ehdr header{};
  if (!read_at(file, 0, header) || std::memcmp(header.e_ident, ELFMAG, SELFMAG) != 0) return {};
  ElfHead head{.valid = true,
               .bits = header.e_ident[EI_CLASS] == ELFCLASS64 ? 64 : 32,
               .machine = header.e_machine,
               .least_size = 0};
  if (head.bits != 64) return head;
  for (int i = 0; i < header.e_phnum; ++i) {
    Elf64_Phdr segment{};
    if (!read_at(file, header.e_phoff + static_cast<uint64_t>(i) * sizeof(segment), segment)) break;
    if (segment.p_type != PT_LOAD) continue;
    head.least_size = std::max(head.least_size, segment.p_offset + segment.p_filesz);
  }
  return head;
}

// dlopen's own words for these cases mislead ("cannot open shared object file: No such file" for a
// library of another machine), so the head of the file is looked at first.
void check_library_file(const fs::path& path) {
  std::error_code ec;
  if (!fs::exists(path, ec)) {
    fail({.id = "pjrt.plugin_file",
          .where = path.string(),
          .expected = "a plug-in's shared library",
          .got = "no such file",
          .cure = "Give the path of the .so, or one of the names cpu, cuda, rocm, tpu",
          .code = Code::not_found});
  }
  ElfHead head = read_elf_head(path);
  if (!head.valid) {
    fail(
        {.id = "pjrt.plugin_file",
         .where = path.string(),
         .expected = "an ELF shared library",
         .got = fs::is_directory(path, ec) ? "a directory" : "a file that is none, or unreadable"});
  }
  ElfHead self = read_elf_head("/proc/self/exe");
  if (self.valid && (head.machine != self.machine || head.bits != self.bits)) {
    fail({.id = "pjrt.plugin_architecture",
          .where = path.string(),
          .expected = "a plug-in built for " + machine_name(self.machine),
          .got = "one built for " + machine_name(head.machine),
          .cure = "Install the wheel of this machine's architecture",
          .code = Code::failed_precondition});
  }
  // The loader maps without looking at the size, and a library that ends early kills the process.
  uint64_t size = fs::file_size(path, ec);
  if (size < head.least_size) {
    fail({.id = "pjrt.plugin_truncated",
          .where = path.string(),
          .expected = fmt::format("a library of at least {} bytes", head.least_size),
          .got = fmt::format("{} bytes", size),
          .cure = "Fetch the wheel again",
          .code = Code::data_loss});
  }
}

Platform platform_of(std::string_view name_or_path) {
  std::string name = fs::path(name_or_path).filename().string();
  if (name.find("cpu") != std::string::npos) return Platform::cpu;
  if (name.find("cuda") != std::string::npos) return Platform::cuda;
  if (name.find("rocm") != std::string::npos) return Platform::rocm;
  if (name.find("tpu") != std::string::npos) return Platform::tpu;
  return Platform::unknown;
}

constexpr std::array<std::string_view, 16> kExtensionNames = {"gpu_custom_call",
                                                              "profiler",
                                                              "custom_partitioner",
                                                              "stream",
                                                              "layouts",
                                                              "ffi",
                                                              "memory_descriptions",
                                                              "triton",
                                                              "raw_buffer",
                                                              "phase_compile",
                                                              "example",
                                                              "unknown",
                                                              "cross_host_transfers",
                                                              "executable_metadata",
                                                              "callback",
                                                              "host_allocator"};

std::vector<std::string> extension_names(const PJRT_Api* api) {
  std::vector<std::string> names;
  const PJRT_Extension_Base* extension = api->extension_start;
  // The bound only guards against a chain that runs in a circle.
  for (int i = 0; extension != nullptr && i < 256; ++i, extension = extension->next) {
    auto type = static_cast<size_t>(number_of(extension->type));
    names.push_back(type < kExtensionNames.size() ? std::string(kExtensionNames[type])
                                                  : fmt::format("type {} (skipped)", type));
  }
  return names;
}

std::string value_text(const PJRT_NamedValue& v) {
  switch (number_of(v.type)) {
    case PJRT_NamedValue_kString:
      return std::string(v.string_value, v.value_size);
    case PJRT_NamedValue_kInt64:
      return std::to_string(v.int64_value);
    case PJRT_NamedValue_kInt64List:
      return list_text({v.int64_array_value, v.value_size});
    case PJRT_NamedValue_kFloat:
      return fmt::format("{}", v.float_value);
    case PJRT_NamedValue_kBool:
      return v.bool_value ? "true" : "false";
  }
  return "?";
}

}  // namespace

std::string_view name_of(Platform platform) {
  constexpr std::array<std::string_view, 5> kNames = {"cpu", "cuda", "rocm", "tpu", "unknown"};
  return kNames.at(static_cast<size_t>(platform));
}

std::shared_ptr<const Plugin> Plugin::load(std::string_view name_or_path,
                                           const PluginSearch& search) {
  fs::path path = fs::absolute(find_plugin(name_or_path, search));
  check_library_file(path);
  ::setenv("TF_CPP_MIN_LOG_LEVEL", "3", /*overwrite=*/0);
  void* library = ::dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) {
    fail({.id = "pjrt.plugin_load",
          .where = path.string(),
          .expected = "a shared library that loads with all it depends on",
          .got = ::dlerror(),
          .code = Code::failed_precondition});
  }
  using GetApi = const PJRT_Api* (*)();
  auto get_api = reinterpret_cast<GetApi>(::dlsym(library, "GetPjrtApi"));
  if (get_api == nullptr) {
    fail({.id = "pjrt.plugin_symbol",
          .where = path.string(),
          .expected = "a PJRT plug-in, which exports GetPjrtApi",
          .got = "a library without it",
          .cure = "Give the plug-in's own .so"});
  }
  return adopt(get_api(), path, platform_of(path.string()));
}

std::shared_ptr<const Plugin> Plugin::adopt(const PJRT_Api* api, fs::path path, Platform platform) {
  constexpr size_t kLeast = offsetof(PJRT_Api, PJRT_Error_GetCode) + sizeof(void*);
  if (api == nullptr || api->struct_size < kLeast) {
    fail({.id = "pjrt.plugin_table",
          .where = path.string(),
          .expected = fmt::format("a PJRT function table of at least {} bytes", kLeast),
          .got = api == nullptr ? "none" : fmt::format("{} bytes", api->struct_size)});
  }
  std::shared_ptr<const Plugin> plugin(new Plugin(api, std::move(path), platform));
  if (api->pjrt_api_version.major_version != PJRT_API_MAJOR) {
    fail({.id = "pjrt.plugin_version",
          .where = plugin->path().string(),
          .expected = fmt::format("a plug-in of PJRT API {}.x", PJRT_API_MAJOR),
          .got = plugin->version_text(),
          .cure = "Use a plug-in of that major version",
          .code = Code::failed_precondition});
  }
  if (has_slot(*plugin, offset_of(&PJRT_Api::PJRT_Plugin_Initialize))) {
    auto args = zeroed<PJRT_Plugin_Initialize_Args>();
    call(*plugin, &PJRT_Api::PJRT_Plugin_Initialize, args);
  }
  return plugin;
}

Plugin::Plugin(const PJRT_Api* api, fs::path path, Platform platform)
    : api_(api), path_(std::move(path)), name_(path_.filename().string()), platform_(platform) {}

std::string Plugin::version_text() const {
  return fmt::format("{}.{}", api_->pjrt_api_version.major_version,
                     api_->pjrt_api_version.minor_version);
}

PluginReport Plugin::report() const {
  PluginReport report;
  report.path = path_.string();
  report.api_major = api_->pjrt_api_version.major_version;
  report.api_minor = api_->pjrt_api_version.minor_version;
  report.table_bytes = api_->struct_size;
  report.known_table_bytes = PJRT_Api_STRUCT_SIZE;
  report.extensions = extension_names(api_);
  for (size_t i = 0; i < slot_names().size(); ++i) {
    if (!has_slot(*this, kFirstSlot + i * sizeof(void*))) {
      report.missing_slots.emplace_back(slot_names()[i]);
    }
  }
  if (has_slot(*this, offset_of(&PJRT_Api::PJRT_Plugin_Attributes))) {
    auto args = zeroed<PJRT_Plugin_Attributes_Args>();
    call(*this, &PJRT_Api::PJRT_Plugin_Attributes, args);
    for (size_t i = 0; i < args.num_attributes; ++i) {
      const PJRT_NamedValue& v = args.attributes[i];
      report.attributes.emplace_back(std::string(v.name, v.name_size), value_text(v));
    }
  }
  return report;
}

Json PluginReport::json() const {
  Json object = {{"path", path},
                 {"api_version", fmt::format("{}.{}", api_major, api_minor)},
                 {"table_bytes", table_bytes},
                 {"known_table_bytes", known_table_bytes},
                 {"extensions", extensions},
                 {"missing_functions", missing_slots},
                 {"attributes", Json::object()}};
  for (const auto& attribute : attributes) object["attributes"][attribute.first] = attribute.second;
  return object;
}

std::string PluginReport::text() const {
  std::string out = fmt::format("plug-in            {}\n", path);
  out += fmt::format("PJRT API           {}.{} (table {} bytes; this build knows {})\n", api_major,
                     api_minor, table_bytes, known_table_bytes);
  out += fmt::format("extensions         {}\n", join(extensions, ", "));
  out += fmt::format("missing functions  {}\n",
                     missing_slots.empty() ? "none" : join(missing_slots, ", "));
  for (const auto& attribute : attributes) {
    out += fmt::format("{:<18} {}\n", attribute.first, attribute.second);
  }
  return out;
}

}  // namespace strata::pjrt
