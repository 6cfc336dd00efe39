#include "strata/pjrt/plugin.h"

#include <cstdlib>
#include <filesystem>
#include <fstream>

#include "strata/pjrt/c_api.h"
#include "strata/pjrt/test_support.h"
#include "strata/testing/scratch_directory.h"

namespace strata::pjrt {
namespace {

namespace fs = std::filesystem;

class PluginTest : public OnBothPlugins {};
INSTANTIATE_TEST_SUITE_P(Plugins, PluginTest, ::testing::ValuesIn(kPlugins), plugin_label);

// The directory of this process's tests.
const fs::path& scratch_dir() {
  static const testing::ScratchDirectory scratch;
  return scratch.path();
}

TEST_P(PluginTest, ReportsVersionTableAndAttributes) {
  PluginReport report = plugin()->report();
  EXPECT_EQ(report.api_major, 0);
  EXPECT_EQ(report.api_minor, newer() ? 115 : 81);
  EXPECT_EQ(report.table_bytes, newer() ? 1144u : 984u);
  EXPECT_EQ(report.known_table_bytes, 984u);
  EXPECT_TRUE(report.missing_slots.empty() || !newer());
  bool stablehlo = false;
  for (const auto& attribute : report.attributes) {
    if (attribute.first == "stablehlo_current_version") {
      stablehlo = true;
      EXPECT_EQ(attribute.second, newer() ? "[1, 20, 0]" : "[1, 13, 3]");
    }
  }
  EXPECT_TRUE(stablehlo);
  EXPECT_FALSE(report.extensions.empty());
  EXPECT_TRUE(contains(report.text(), newer() ? "0.115" : "0.81")) << report.text();
  EXPECT_TRUE(contains(report.text(), "stablehlo_current_version"));
  Json json = report.json();
  EXPECT_EQ(json["api_version"], newer() ? "0.115" : "0.81");
  EXPECT_EQ(json["missing_functions"].size(), report.missing_slots.size());
}

TEST_P(PluginTest, BothLiveInOneProcess) {
  auto one = Client::create(Plugin::load(std::string(STRATA_DEPS_DIR) + "/" + kPlugins[0]));
  auto two = Client::create(Plugin::load(std::string(STRATA_DEPS_DIR) + "/" + kPlugins[1]));
  for (const auto& c : {one, two}) {
    Executable add = Executable::compile(c, kAdd);
    Buffer x = put<float>(c, {1, 2, 3, 4}, {4});
    EXPECT_EQ(get<float>(add.execute(std::vector<const Buffer*>{&x, &x}).outputs[0]),
              (std::vector<float>{2, 4, 6, 8}));
  }
}

// The plug-in's table with only its first `bytes` bytes, as an older plug-in would have it.
class ShortTable {
 public:
  ShortTable(const Plugin& real, size_t bytes) {
    std::memcpy(&table_, real.api(), sizeof(table_));
    table_.struct_size = bytes;
  }
  PJRT_Api table_;
};

TEST_P(PluginTest, AMissingFunctionIsUnimplementedAndNamed) {
  auto real = plugin();
  ShortTable cut(*real, offsetof(PJRT_Api, PJRT_Buffer_CopyRawToHost));
  auto old = Plugin::adopt(&cut.table_, "old.so", Platform::cpu);
  auto c = Client::create(old);
  Buffer x = put<float>(c, {1, 2, 3, 4}, {4});
  std::vector<std::byte> out(16);
  Error e = error_of([&] { x.copy_raw(out, 0); });
  EXPECT_EQ(e.code(), Code::unimplemented);
  EXPECT_EQ(e.id(), "pjrt.missing_slot");
  EXPECT_TRUE(contains(e.what(), "PJRT_Buffer_CopyRawToHost")) << e.what();
  EXPECT_TRUE(contains(e.what(), "old.so")) << e.what();
  EXPECT_EQ(old->report().missing_slots.front(), "PJRT_Buffer_CopyRawToHost");
  // What lies before the cut still works.
  EXPECT_EQ(get<float>(x), (std::vector<float>{1, 2, 3, 4}));
}

TEST_P(PluginTest, ANullFunctionIsUnimplementedAndNamed) {
  auto real = plugin();
  ShortTable holed(*real, real->api()->struct_size);
  holed.table_.struct_size = sizeof(PJRT_Api);
  holed.table_.PJRT_Client_Compile = nullptr;
  holed.table_.PJRT_Executable_GetCompiledMemoryStats = nullptr;
  auto c = Client::create(Plugin::adopt(&holed.table_, "holed.so", Platform::cpu));
  Error e = error_of([&] { Executable::compile(c, kAdd); });
  EXPECT_EQ(e.id(), "pjrt.missing_slot");
  EXPECT_TRUE(contains(e.what(), "PJRT_Client_Compile")) << e.what();
}

TEST_P(PluginTest, CloningGoesThroughTheHostWhereItMust) {
  auto real = plugin();
  ShortTable holed(*real, sizeof(PJRT_Api));
  holed.table_.PJRT_Buffer_CopyToMemory = nullptr;
  auto c = Client::create(Plugin::adopt(&holed.table_, "holed.so", Platform::cpu));
  Buffer x = put<float>(c, {1, 2, 3, 4}, {4});
  Buffer copy = x.clone();
  EXPECT_NE(copy.address(), x.address());
  EXPECT_EQ(get<float>(copy), (std::vector<float>{1, 2, 3, 4}));
}

TEST_P(PluginTest, AMissingStatisticIsDeclined) {
  auto real = plugin();
  ShortTable cut(*real, offsetof(PJRT_Api, PJRT_Executable_GetCompiledMemoryStats));
  auto c = Client::create(Plugin::adopt(&cut.table_, "old.so", Platform::cpu));
  Declinable<MemoryStats> stats = Executable::compile(c, kAdd).memory_stats();
  EXPECT_FALSE(stats.value);
  EXPECT_TRUE(contains(stats.declined, "declined: ")) << stats.declined;
  EXPECT_TRUE(contains(stats.declined, "PJRT_Executable_GetCompiledMemoryStats"));
}

// What a plug-in of another program format would answer.
PJRT_Error* answer_another_format(PJRT_Executable_OptimizedProgram_Args* args) {
  static constexpr std::string_view kFormat = "bytecode";
  args->program->format = kFormat.data();
  args->program->format_size = kFormat.size();
  args->program->code_size = 8;
  return nullptr;
}

TEST_P(PluginTest, AnotherProgramFormatIsUnimplemented) {
  auto real = plugin();
  ShortTable other(*real, sizeof(PJRT_Api));
  other.table_.PJRT_Executable_OptimizedProgram = &answer_another_format;
  auto c = Client::create(Plugin::adopt(&other.table_, "other.so", Platform::cpu));
  Executable add = Executable::compile(c, kAdd);
  Error e = error_of([&] { add.optimized_program(); });
  EXPECT_EQ(e.id(), "pjrt.program_format");
  EXPECT_TRUE(contains(e.what(), "got bytecode")) << e.what();
}

TEST_P(PluginTest, LoadingQuietensThePluginUnlessTheUserDecided) {
  ::unsetenv("TF_CPP_MIN_LOG_LEVEL");
  plugin();
  EXPECT_STREQ(std::getenv("TF_CPP_MIN_LOG_LEVEL"), "3");
  ASSERT_EQ(::setenv("TF_CPP_MIN_LOG_LEVEL", "1", 1), 0);
  plugin();
  EXPECT_STREQ(std::getenv("TF_CPP_MIN_LOG_LEVEL"), "1");
}

TEST_P(PluginTest, AnotherMajorVersionIsRefused) {
  auto real = plugin();
  ShortTable other(*real, sizeof(PJRT_Api));
  other.table_.pjrt_api_version.major_version = 7;
  Error e = error_of([&] { Plugin::adopt(&other.table_, "future.so", Platform::cpu); });
  EXPECT_EQ(e.id(), "pjrt.plugin_version");
  EXPECT_TRUE(contains(e.what(), "got 7.")) << e.what();
}

TEST_P(PluginTest, AUselessTableIsRefused) {
  auto real = plugin();
  ShortTable tiny(*real, 40);
  Error e = error_of([&] { Plugin::adopt(&tiny.table_, "tiny.so", Platform::cpu); });
  EXPECT_EQ(e.id(), "pjrt.plugin_table");
  EXPECT_TRUE(contains(e.what(), "got 40 bytes")) << e.what();
  EXPECT_EQ(error_of([] { Plugin::adopt(nullptr, "null.so", Platform::cpu); }).id(),
            "pjrt.plugin_table");
}

TEST(PluginSearchTest, FindsCpuInTheDependencyFolder) {
  fs::path deps = STRATA_DEPS_DIR;
  EXPECT_EQ(find_plugin("cpu", {.deps_dir = deps}), deps / kPlugins[0]);
  ASSERT_EQ(::setenv("STRATA_DEPS", STRATA_DEPS_DIR, 1), 0);
  EXPECT_EQ(find_plugin("cpu"), deps / kPlugins[0]);
  ::unsetenv("STRATA_DEPS");
}

TEST(PluginSearchTest, FallsBackToInstalledWheels) {
  fs::path root = scratch_dir() / "site-packages";
  fs::create_directories(root / "jax_plugins/xla_cuda13");
  std::ofstream(root / "jax_plugins/xla_cuda13/xla_cuda_plugin.so") << "x";
  EXPECT_EQ(find_plugin("cuda", {.deps_dir = scratch_dir() / "none", .python_dirs = {root}}),
            root / "jax_plugins/xla_cuda13/xla_cuda_plugin.so");
  // A virtual environment is searched without being asked for.
  fs::path venv = scratch_dir() / "venv";
  fs::path packages = venv / "lib/python3.12/site-packages";
  fs::create_directories(packages / "libtpu");
  std::ofstream(packages / "libtpu/libtpu.so") << "x";
  ASSERT_EQ(::setenv("VIRTUAL_ENV", venv.c_str(), 1), 0);
  EXPECT_EQ(find_plugin("tpu"), packages / "libtpu/libtpu.so");
  ::unsetenv("VIRTUAL_ENV");
}

TEST(PluginSearchTest, SaysWhereItLooked) {
  fs::path none = scratch_dir() / "none";
  Error e =
      error_of([&] { find_plugin("rocm", {.deps_dir = none, .python_dirs = {none / "py"}}); });
  EXPECT_EQ(e.id(), "pjrt.plugin_not_found");
  EXPECT_EQ(e.code(), Code::not_found);
  EXPECT_TRUE(contains(e.what(), (none / "jax_plugins/xla_rocm7/xla_rocm_plugin.so").string()))
      << e.what();
  EXPECT_TRUE(contains(e.what(), (none / "py/jax_plugins").string())) << e.what();
}

TEST(PluginSearchTest, AnUnknownNameNamesTheNearest) {
  Error e = error_of([] { find_plugin("cuba"); });
  EXPECT_EQ(e.id(), "pjrt.plugin_name");
  EXPECT_TRUE(contains(e.what(), "Did you mean 'cuda'?")) << e.what();
}

TEST(PluginLoadTest, MissingFile) {
  Error e = error_of([] { Plugin::load("/no/such/plugin.so"); });
  EXPECT_EQ(e.id(), "pjrt.plugin_file");
  EXPECT_EQ(e.code(), Code::not_found);
  EXPECT_TRUE(contains(e.what(), "/no/such/plugin.so")) << e.what();
}

TEST(PluginLoadTest, NotALibrary) {
  fs::path file = scratch_dir() / "text.so";
  std::ofstream(file) << "this is a text of more than twenty bytes\n";
  Error e = error_of([&] { Plugin::load(file.string()); });
  EXPECT_EQ(e.id(), "pjrt.plugin_file");
  EXPECT_TRUE(contains(e.what(), "expected an ELF shared library")) << e.what();
  EXPECT_TRUE(
      contains(error_of([&] { Plugin::load(scratch_dir().string()); }).what(), "a directory"));
  std::ofstream(scratch_dir() / "empty.so");
  EXPECT_EQ(error_of([&] { Plugin::load((scratch_dir() / "empty.so").string()); }).id(),
            "pjrt.plugin_file");
}

// Writes the head of a plug-in with the machine number changed.
TEST(PluginLoadTest, AnotherArchitecture) {
  std::ifstream real(std::string(STRATA_DEPS_DIR) + "/" + kPlugins[0], std::ios::binary);
  std::string head(4096, '\0');
  real.read(head.data(), static_cast<std::streamsize>(head.size()));
  head[18] = static_cast<char>(head[18] == 62 ? 183 : 62);
  fs::path file = scratch_dir() / "foreign.so";
  std::ofstream(file, std::ios::binary) << head;
  Error e = error_of([&] { Plugin::load(file.string()); });
  EXPECT_EQ(e.id(), "pjrt.plugin_architecture");
  EXPECT_TRUE(contains(e.what(), "AArch64")) << e.what();
}

TEST(PluginLoadTest, ATruncatedLibrary) {
  std::ifstream real(std::string(STRATA_DEPS_DIR) + "/" + kPlugins[0], std::ios::binary);
  std::string head(4096, '\0');
  real.read(head.data(), static_cast<std::streamsize>(head.size()));
  fs::path file = scratch_dir() / "cut.so";
  std::ofstream(file, std::ios::binary) << head;
  Error e = error_of([&] { Plugin::load(file.string()); });
  EXPECT_EQ(e.id(), "pjrt.plugin_truncated");
  EXPECT_TRUE(contains(e.what(), "got 4096 bytes")) << e.what();
}

// An executable passes for a library until the loader looks closer.
TEST(PluginLoadTest, TheLoadersMessageIsQuoted) {
  Error e = error_of([] { Plugin::load("/proc/self/exe"); });
  EXPECT_EQ(e.id(), "pjrt.plugin_load");
  EXPECT_TRUE(contains(e.what(), "cannot dynamically load")) << e.what();
}

TEST(PluginLoadTest, AnotherLibraryIsNoPlugin) {
  Error e = error_of([] { Plugin::load(STRATA_OTHER_LIBRARY); });
  EXPECT_EQ(e.id(), "pjrt.plugin_symbol");
  EXPECT_TRUE(contains(e.what(), "GetPjrtApi")) << e.what();
}

class ClientTest : public OnBothPlugins {};
INSTANTIATE_TEST_SUITE_P(Plugins, ClientTest, ::testing::ValuesIn(kPlugins), plugin_label);

TEST_P(ClientTest, MakesAsManyDevicesAsAsked) {
  for (int count : {1, 4, 512}) {
    auto c = client(count);
    EXPECT_EQ(c->devices().size(), static_cast<size_t>(count));
    EXPECT_EQ(c->platform_name(), "cpu");
    EXPECT_EQ(c->device(count - 1).id, count - 1);
  }
}

TEST_P(ClientTest, RefusesBadOptions) {
  for (int count : {-1, 5000}) {
    Error e = error_of([&] { client(count); });
    EXPECT_EQ(e.id(), "pjrt.device_count");
    EXPECT_TRUE(contains(e.what(), std::to_string(count)));
  }
  Error e = error_of([&] { Client::create(plugin(), {.memory_fraction = 1.5}); });
  EXPECT_EQ(e.id(), "pjrt.memory_fraction");
  EXPECT_TRUE(contains(e.what(), "1.5")) << e.what();
}

TEST_P(ClientTest, AnUnknownDeviceIdListsTheIds) {
  Error e = error_of([&] { client(2)->device(7); });
  EXPECT_EQ(e.id(), "pjrt.device_id");
  EXPECT_TRUE(contains(e.what(), "[0, 1], got 7")) << e.what();
}

TEST_P(ClientTest, GpuOptionsAreDeclinedOnCpu) {
  auto c = Client::create(plugin(), {.memory_fraction = 0.5, .preallocate = true});
  ASSERT_EQ(c->declined().size(), 2u);
  EXPECT_TRUE(contains(c->declined()[0], "memory_fraction: declined: the cpu plug-in"));
  EXPECT_TRUE(contains(c->declined()[1], "preallocate: declined"));
  EXPECT_TRUE(contains(c->text(), "preallocate: declined"));
}

TEST_P(ClientTest, DeviceMemoryIsDeclinedOnCpu) {
  auto c = client();
  Declinable<DeviceMemory> memory = c->device_memory(c->devices()[0]);
  EXPECT_FALSE(memory.value);
  EXPECT_TRUE(contains(memory.declined, "declined: ")) << memory.declined;
  EXPECT_TRUE(contains(memory.declined, "PJRT_Device_MemoryStats")) << memory.declined;
  EXPECT_EQ(c->json()["devices"][0]["memory"], memory.declined);
}

}  // namespace
}  // namespace strata::pjrt
