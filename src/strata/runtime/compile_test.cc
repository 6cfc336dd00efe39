#include "strata/runtime/compile.h"

#include <fmt/format.h>
#include <sys/mman.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <thread>

#include "strata/base/file.h"
#include "strata/base/hash.h"
#include "strata/pjrt/test_support.h"
#include "strata/runtime/executor.h"
#include "strata/runtime/fingerprint.h"
#include "strata/runtime/memory_report.h"
#include "strata/runtime/test_support.h"

namespace strata::runtime {
namespace {

namespace fs = std::filesystem;
using pjrt::contains;
using pjrt::error_of;

class CompileTest : public pjrt::OnBothPlugins {
 protected:
  CompilerOptions cached() const { return {.cache_dir = scratch_.path()}; }
  // The one program kept in the cache (the plug-in's digest is kept beside it and is small).
  fs::path entry() const {
    for (const auto& file : fs::directory_iterator(scratch_.path())) {
      if (file.file_size() > 1000) return file.path();
    }
    return {};
  }
  ScratchDir scratch_;
};
INSTANTIATE_TEST_SUITE_P(Plugins, CompileTest, ::testing::ValuesIn(pjrt::kPlugins),
                         pjrt::plugin_label);

std::vector<float> run_add(const std::shared_ptr<const Program>& program) {
  std::vector<HostTensor> arguments;
  arguments.push_back(HostTensor::of<float>({4}, std::vector<float>{1, 2, 3, 4}));
  arguments.push_back(HostTensor::of<float>({4}, std::vector<float>{10, 20, 30, 40}));
  std::vector<HostTensor> results = run_on_host(program, arguments);
  return std::vector<float>(results.at(0).data<float>().begin(), results[0].data<float>().end());
}

const std::vector<float> kSum = {11, 22, 33, 44};

TEST_P(CompileTest, DescribesAProgramByItself) {
  Compiler compiler(client(), {.cache_dir = {}});
  auto program = compiler.compile(pjrt::kIncrement, {.name = "increment"});
  ASSERT_EQ(program->parameters().size(), 1u);
  EXPECT_EQ(program->parameters()[0].spec->text(), "64xf32 on device 0");
  EXPECT_TRUE(program->parameters()[0].donated);
  ASSERT_EQ(program->results().size(), 1u);
  EXPECT_EQ(program->results()[0].spec, program->parameters()[0].spec);
  EXPECT_GT(program->times().compile, 0);
}

TEST_P(CompileTest, CompilesOnceAndRemembers) {
  Compiler compiler(client(), {.cache_dir = {}});
  auto one = compiler.compile(pjrt::kAdd, {.name = "one", .trace_seconds = 0.25});
  auto two = compiler.compile(pjrt::kAdd, {.name = "two", .trace_seconds = 0.5});
  EXPECT_EQ(&one->executable(), &two->executable());
  EXPECT_EQ(run_add(two), kSum);
  CompileCounters counters = compiler.counters();
  EXPECT_EQ(counters.compiles, 1);
  EXPECT_EQ(counters.memory_hits, 1);
  EXPECT_EQ(counters.disk_hits, 0);
  EXPECT_DOUBLE_EQ(counters.trace_seconds, 0.75);
  EXPECT_EQ(two->times().compile, 0);
  EXPECT_EQ(two->times().trace, 0.5);
}

TEST_P(CompileTest, LoadsFromDiskWhatAnotherCompilerKept) {
  auto c = client();
  Compiler(c, cached()).compile(pjrt::kIncrement);
  Compiler second(c, cached());
  auto program = second.compile(pjrt::kIncrement);
  EXPECT_EQ(second.counters().compiles, 0);
  EXPECT_EQ(second.counters().disk_hits, 1);
  EXPECT_GT(program->times().load, 0);
  EXPECT_EQ(program->times().compile, 0);
  EXPECT_TRUE(program->parameters().at(0).donated);
  Array x = Array::put(c, HostTensor(DType::f32, {64}));
  uintptr_t address = x.buffer(0).address();
  Executor executor(program);
  std::vector<Argument> arguments = {Argument::donate(x)};
  std::vector<Array> results = executor.run(arguments);
  EXPECT_EQ(results[0].buffer(0).address(), address);
  EXPECT_EQ(results[0].get().at(63), 1);
}

TEST_P(CompileTest, FlippedBitsOnlyCostACompile) {
  auto c = client();
  Compiler(c, cached()).compile(pjrt::kAdd);
  std::string good = read_file(entry());
  fs::path file = entry();
  for (size_t i = 0; i < 8; ++i) {
    std::string bad = good;
    size_t byte = i * (good.size() - 1) / 7;
    bad[byte] = static_cast<char>(bad[byte] ^ 16);
    write_file_atomically(file, bad);
    Compiler compiler(c, cached());
    ::testing::internal::CaptureStderr();
    EXPECT_EQ(run_add(compiler.compile(pjrt::kAdd)), kSum);
    std::string log = ::testing::internal::GetCapturedStderr();
    EXPECT_TRUE(contains(log, "is damaged")) << log;
    EXPECT_EQ(compiler.counters().compiles, 1) << "byte " << byte;
    // The compile put a good entry back.
    Compiler next(c, cached());
    next.compile(pjrt::kAdd);
    EXPECT_EQ(next.counters().disk_hits, 1);
  }
}

// An entry whose digest is right but whose contents no version of ours wrote.
TEST_P(CompileTest, AnEntryThatDoesNotLoadOnlyCostsACompile) {
  auto c = client();
  Compiler compiler(c, cached());
  std::string key = compiler.key_of(pjrt::kAdd, {});
  DiskCache cache(scratch_.path(), 1 << 30);
  for (const char* payload : {"", "no line", "7\n{\"a\":1}rest", "99999999\n{}", "-1\n{}"}) {
    ASSERT_TRUE(cache.store(key, payload));
    Compiler fresh(c, cached());
    ::testing::internal::CaptureStderr();
    EXPECT_EQ(run_add(fresh.compile(pjrt::kAdd)), kSum);
    std::string log = ::testing::internal::GetCapturedStderr();
    EXPECT_TRUE(contains(log, "does not load")) << log;
    EXPECT_EQ(std::count(log.begin(), log.end(), '\n'), 1) << log;
    EXPECT_EQ(fresh.counters().disk_failures, 1) << payload;
    EXPECT_EQ(fresh.counters().compiles, 1);
  }
}

TEST_P(CompileTest, WorksWithoutAUsableCacheFolder) {
  write_file_atomically(scratch_.path() / "file", "in the way");
  ::testing::internal::CaptureStderr();
  Compiler compiler(client(), {.cache_dir = scratch_.path() / "file" / "below"});
  EXPECT_EQ(run_add(compiler.compile(pjrt::kAdd)), kSum);
  compiler.compile(pjrt::kIncrement);
  EXPECT_EQ(compiler.counters().compiles, 2);
  EXPECT_TRUE(contains(::testing::internal::GetCapturedStderr(), "compile cache: not kept"));
}

TEST_P(CompileTest, TheKeyHoldsAllThatMatters) {
  auto c = client();
  Compiler compiler(c, cached());
  std::string key = compiler.key_of("text", {});
  EXPECT_EQ(key.size(), 64u);
  EXPECT_EQ(key, compiler.key_of("text", {}));
  EXPECT_NE(key, compiler.key_of("text ", {}));
  EXPECT_NE(key, compiler.key_of("text", {.num_partitions = 2}));
  EXPECT_NE(key, compiler.key_of("text", {.xla_options = {{"xla_a", "1"}}}));
  EXPECT_NE(key, Compiler(client(2), cached()).key_of("text", {}));
  ASSERT_EQ(::setenv("XLA_FLAGS", "--xla_cpu_multi_thread_eigen=true", 1), 0);
  EXPECT_NE(key, Compiler(c, cached()).key_of("text", {}));
  ::unsetenv("XLA_FLAGS");
  EXPECT_EQ(key, Compiler(c, cached()).key_of("text", {}));
}

TEST_P(CompileTest, TheFingerprintNamesPluginAndMachine) {
  auto c = client();
  DiskCache cache(scratch_.path(), 1 << 20);
  std::string digest = plugin_digest(c->plugin()->path(), cache);
  EXPECT_EQ(digest, sha256_of_file(c->plugin()->path()));
  EXPECT_EQ(digest, plugin_digest(c->plugin()->path(), cache));
  std::string text = machine_fingerprint(*c, cache);
  EXPECT_TRUE(contains(text, digest));
  EXPECT_TRUE(contains(text, c->plugin()->version_text()));
  EXPECT_TRUE(contains(text, cpu_features()));
}

TEST_P(CompileTest, ThreadsShareOneCompile) {
  Compiler compiler(client(), cached());
  std::vector<std::shared_ptr<const Program>> programs(4);
  std::vector<std::thread> threads;
  for (auto& program : programs) {
    threads.emplace_back([&] { program = compiler.compile(pjrt::kAdd); });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(compiler.counters().compiles, 1);
  EXPECT_EQ(compiler.counters().memory_hits, 3);
  for (auto& program : programs) EXPECT_EQ(run_add(program), kSum);
}

TEST_P(CompileTest, ErrorsNameTheProgramAndAreNotRemembered) {
  Compiler compiler(client(), cached());
  for (int round = 0; round < 2; ++round) {
    Error e = error_of([&] { compiler.compile("module { nonsense }", {.name = "train step"}); });
    EXPECT_EQ(e.id(), "pjrt.call");
    EXPECT_TRUE(contains(e.what(), "while compiling train step")) << e.what();
  }
  EXPECT_EQ(compiler.counters().compiles, 0);
  EXPECT_EQ(compiler.counters().memory_hits, 0);
}

Slot slot(const char* name, DType dtype, Dims dims, bool donated = false) {
  return {.name = name, .spec = ArraySpec::single(dtype, std::move(dims)), .donated = donated};
}

TEST_P(CompileTest, ADescriptionMustFitTheProgram) {
  Compiler compiler(client(), {.cache_dir = {}});
  auto error = [&](std::vector<Slot> parameters) {
    return error_of([&] {
      compiler.compile(pjrt::kIncrement, {.name = "p", .parameters = std::move(parameters)});
    });
  };
  Error count = error({slot("x", DType::f32, {64}, true), slot("y", DType::f32, {64})});
  EXPECT_EQ(count.id(), "runtime.slot_count");
  EXPECT_TRUE(contains(count.what(), "2 parameters, as described, got 1")) << count.what();
  Error type = error({slot("x", DType::f32, {65}, true)});
  EXPECT_EQ(type.id(), "runtime.slot_type");
  EXPECT_EQ(type.code(), Code::internal);  // descriptions are Strata's own
  EXPECT_TRUE(contains(type.what(), "parameter 0 'x'")) << type.what();
  EXPECT_TRUE(contains(type.what(), "got 64xf32")) << type.what();
  EXPECT_EQ(error({slot("x", DType::i32, {64}, true)}).id(), "runtime.slot_type");
  Error donation = error({slot("x", DType::f32, {64}, false)});
  EXPECT_EQ(donation.id(), "runtime.donation");
  EXPECT_TRUE(contains(donation.what(), "memory left alone")) << donation.what();
  EXPECT_NO_THROW(
      compiler.compile(pjrt::kIncrement, {.parameters = {slot("x", DType::f32, {64}, true)}}));
}

TEST_P(CompileTest, LostDonationIsAnError) {
  Compiler compiler(client(), {.cache_dir = {}});
  Error e = error_of([&] {
    compiler.compile(
        pjrt::kAdd, {.parameters = {slot("x", DType::f32, {4}, true), slot("y", DType::f32, {4})}});
  });
  EXPECT_EQ(e.id(), "runtime.donation");
  EXPECT_TRUE(contains(e.what(), "does not reuse")) << e.what();
}

TEST_P(CompileTest, OtherDevicesThanDescribedAreAnError) {
  Compiler compiler(client(2), {.cache_dir = {}});
  Error e = error_of([&] {
    compiler.compile(pjrt::kIncrement, {.options = {.device_ids = {1}},
                                        .parameters = {slot("x", DType::f32, {64}, true)}});
  });
  EXPECT_EQ(e.id(), "runtime.slot_devices");
  EXPECT_TRUE(contains(e.what(), "devices [1]")) << e.what();
}

TEST_P(CompileTest, ValuesThatNoArrayHoldsAreUnimplemented) {
  Compiler compiler(client(), {.cache_dir = {}});
  Error e = error_of([&] {
    compiler.compile(R"(module {
  func.func public @main(%x: tensor<2xf32>) -> tensor<2xcomplex<f32>> {
    %0 = stablehlo.complex %x, %x : tensor<2xcomplex<f32>>
    return %0 : tensor<2xcomplex<f32>>
  }
})");
  });
  EXPECT_EQ(e.id(), "runtime.signature_type");
  EXPECT_EQ(e.code(), Code::unimplemented);
  EXPECT_TRUE(contains(e.what(), "c64[2]")) << e.what();
}

TEST_P(CompileTest, ReportsMemoryAndTimes) {
  Compiler compiler(client(), {.cache_dir = {}});
  MemoryReport report = memory_report(
      *compiler.compile(pjrt::kIncrement, {.name = "increment", .trace_seconds = 1.5}));
  EXPECT_EQ(report.arguments, 256);
  EXPECT_EQ(report.outputs, 256);
  EXPECT_EQ(report.aliases, 256);
  EXPECT_EQ(report.total(), 256 + report.temporaries);
  EXPECT_TRUE(contains(report.text(), "increment: ")) << report.text();
  EXPECT_TRUE(contains(report.text(), "- aliases 256 B")) << report.text();
  EXPECT_TRUE(contains(report.text(), "trace 1.50 s")) << report.text();
  EXPECT_EQ(report.json()["alias_bytes"], 256);
  EXPECT_EQ(report.json()["trace_seconds"], 1.5);
}

TEST(SignatureTest, JsonRoundTrip) {
  Signature signature;
  signature.parameters = {{DType::bf16, {2, 3}, true}, {DType::i32, {}, false}};
  signature.results = {{DType::pred, {0}, false}};
  Signature back = Signature::from_json(signature.json());
  ASSERT_EQ(back.parameters.size(), 2u);
  EXPECT_EQ(back.parameters[0].dtype, DType::bf16);
  EXPECT_EQ(back.parameters[0].dims, (Dims{2, 3}));
  EXPECT_TRUE(back.parameters[0].donated);
  EXPECT_TRUE(back.parameters[1].dims.empty());
  EXPECT_EQ(back.results[0].dims, Dims{0});
  Error e = error_of([] { Signature::from_json("{\"parameters\": []}"); });
  EXPECT_EQ(e.id(), "runtime.signature_json");
  EXPECT_TRUE(contains(e.what(), "'results'")) << e.what();
}

TEST(MemoryReportTest, DeclinedStaysDeclined) {
  MemoryReport report{.program = "p", .declined = "declined: no such function"};
  EXPECT_TRUE(contains(report.text(), "p: memory declined: no such function"));
  EXPECT_EQ(report.json()["memory"], "declined: no such function");
  EXPECT_FALSE(report.json().contains("total_bytes"));
}

TEST(ProcessMemoryTest, ReadsTheKernelsLines) {
  ProcessMemory memory = parse_process_status(
      "Name:\tx\nVmHWM:\t  400 kB\nRssAnon:\t    100 kB\nRssFile:\t 30 kB\nRssShmem:\t 7 kB\n");
  EXPECT_EQ(memory.anonymous, 100 * 1024);
  EXPECT_EQ(memory.shared, 7 * 1024);
  EXPECT_EQ(memory.file, 30 * 1024);
  EXPECT_EQ(memory.peak_total, 400 * 1024);
  EXPECT_EQ(memory.held(), 107 * 1024);
  EXPECT_EQ(parse_process_status("").held(), 0);
  EXPECT_GT(process_memory().anonymous, 0);
}

TEST(ProcessMemoryTest, SeesAPeakThatIsOver) {
  PeakMemory peak(0.001);
  int64_t before = peak.bytes();
  constexpr size_t kSize = 64 << 20;
  // Mapped by hand: an allocator may keep what it gets back.
  void* block = ::mmap(nullptr, kSize, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  ASSERT_NE(block, MAP_FAILED);
  std::memset(block, 1, kSize);
  std::this_thread::sleep_for(std::chrono::milliseconds(30));
  ASSERT_EQ(::munmap(block, kSize), 0);
  EXPECT_GE(peak.bytes(), before + static_cast<int64_t>(kSize) * 9 / 10);
  EXPECT_LT(process_memory().held(), peak.bytes());
}

}  // namespace
}  // namespace strata::runtime
