// One test per way in which room base refuses something: id, code, and a telling part of the text.
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/resource.h>
#include <unistd.h>

#include <functional>

#include "strata/base/config.h"
#include "strata/base/error.h"
#include "strata/base/file.h"
#include "strata/base/host_tensor.h"
#include "strata/base/json.h"
#include "strata/base/log.h"
#include "strata/base/process.h"
#include "strata/testing/scratch_directory.h"

namespace strata {
namespace {

namespace fs = std::filesystem;

void expect_error(const std::function<void()>& run, const std::string& id, Code code,
                  const std::string& part) {
  try {
    run();
    ADD_FAILURE() << "nothing was thrown, expected " << id;
  } catch (const Error& e) {
    EXPECT_EQ(e.id(), id) << e.what();
    EXPECT_EQ(name_of(e.code()), name_of(code)) << e.what();
    EXPECT_NE(std::string(e.what()).find(part), std::string::npos) << e.what();
  }
}

// Lowers a resource limit while it lives.
class Limit {
 public:
  Limit(int resource, rlim_t soft) : resource_(resource) {
    ::getrlimit(static_cast<__rlimit_resource>(resource_), &old_);
    rlimit lowered{soft, old_.rlim_max};
    ::setrlimit(static_cast<__rlimit_resource>(resource_), &lowered);
  }
  Limit(const Limit&) = delete;
  Limit& operator=(const Limit&) = delete;
  ~Limit() { ::setrlimit(static_cast<__rlimit_resource>(resource_), &old_); }

 private:
  int resource_;
  rlimit old_{};
};

class FileErrorTest : public ::testing::Test {
 protected:
  testing::ScratchDirectory scratch_;
  const fs::path& dir_ = scratch_.path();
};

TEST(BaseErrorTest, DTypeNames) {
  expect_error([] { parse_dtype("float32"); }, "base.dtype_name", Code::invalid_argument, "bf16");
}

TEST(BaseErrorTest, DimsOfHostTensors) {
  expect_error(
      [] {
        HostTensor(DType::f32, {2, -1});
      },
      "base.negative_dim", Code::invalid_argument, "-1");
  expect_error(
      [] {
        element_count(Dims{int64_t{1} << 40, int64_t{1} << 40});
      },
      "base.dims_overflow", Code::out_of_range, "2^63");
  expect_error([] { HostTensor(DType::f64, {int64_t{1} << 61}); }, "base.dims_overflow",
               Code::out_of_range, "fewer than 2^63 bytes");
  expect_error([] { HostTensor(DType::f32, {int64_t{1} << 46}); }, "base.host_memory",
               Code::resource_exhausted, "host memory");
}

TEST(BaseErrorTest, AccessToHostTensors) {
  HostTensor t(DType::f32, {2});
  expect_error([&] { t.data<int32_t>(); }, "base.tensor_view", Code::invalid_argument, "i32");
  expect_error([&] { t.data<uint16_t>(); }, "base.tensor_view", Code::invalid_argument, "u16");
  expect_error([&] { (void)t.at(2); }, "base.tensor_index", Code::out_of_range, "below 2");
  expect_error([&] { t.set(-1, 0); }, "base.tensor_index", Code::out_of_range, "-1");
  expect_error([] { HostTensor::of<float>({3}, std::vector<float>{1}); }, "base.value_count",
               Code::invalid_argument, "12 bytes");
  HostTensor f8(DType::f8e5m2, {1});
  expect_error([&] { f8.set(0, 1); }, "base.store_f8", Code::unimplemented, "f8e5m2");
}

TEST_F(FileErrorTest, Reading) {
  expect_error([&] { read_file(dir_ / "none"); }, "file.open", Code::not_found, "none");
  expect_error([&] { read_file(dir_); }, "file.not_regular", Code::invalid_argument, "a directory");
  expect_error([&] { MappedFile(dir_ / "none" / "x"); }, "file.open", Code::not_found, "none/x");
}

TEST_F(FileErrorTest, Writing) {
  expect_error([&] { FileWriter(dir_ / "no" / "a"); }, "file.create", Code::not_found, "no/a");
  fs::create_directories(dir_ / "full" / "x");
  expect_error([&] { write_file_atomically(dir_ / "full", "text"); }, "file.rename",
               Code::data_loss, "full");
  EXPECT_EQ(std::distance(fs::directory_iterator(dir_), fs::directory_iterator()), 1);
  write_file_atomically(dir_ / "file", "");
  auto nothing = [](const fs::path&) {};
  expect_error([&] { write_directory_atomically(dir_ / "file" / "d", nothing); }, "file.mkdir",
               Code::not_found, "file/d");
  expect_error([&] { write_directory_atomically(dir_ / "full", nothing); }, "file.exists",
               Code::already_exists, "Choose another name");
}

TEST_F(FileErrorTest, ADiskThatIsFull) {
  ::signal(SIGXFSZ, SIG_IGN);
  FileWriter writer(dir_ / "a");
  {
    Limit limit(RLIMIT_FSIZE, 1000);
    expect_error([&] { writer.write(std::string(5000, 'x')); }, "file.write",
                 Code::resource_exhausted, "at byte 1000: expected room for 4000 more bytes");
  }
  ::signal(SIGXFSZ, SIG_DFL);
}

TEST_F(FileErrorTest, Directories) {
  expect_error([&] { sync_directory(dir_ / "none"); }, "file.open_dir", Code::not_found, "none");
  // The kernel's own directories cannot be synced.
  expect_error([] { sync_directory("/proc"); }, "file.io", Code::data_loss, "/proc");
  expect_error([&] { DirectoryLock(dir_ / "none"); }, "file.lock_open", Code::not_found, "none");
  DirectoryLock lock(dir_);
  expect_error([&] { DirectoryLock{dir_}; }, "file.locked", Code::failed_precondition,
               "another run");
}

TEST(JsonErrorTest, Parsing) {
  expect_error([] { parse_json("{\"a\": }", "x.json"); }, "json.parse", Code::data_loss, "x.json");
  expect_error([] { parse_json(std::string("{}\0{}", 5), "x.json"); }, "json.nul", Code::data_loss,
               "byte 2");
  expect_error([] { parse_json(std::string(100000, '['), "x.json"); }, "json.depth",
               Code::data_loss, "512");
  expect_error([] { parse_json(R"({"a":1,"a":2})", "x.json", DuplicateKeys::refuse); },
               "json.duplicate_key", Code::data_loss, "'a' twice");
}

TEST(JsonErrorTest, Access) {
  Json o = parse_json(R"({"s": "x", "f": 1.5, "big": 18446744073709551615})", "x.json");
  expect_error([&] { get_int(o, "none", "x.json"); }, "json.missing_key", Code::not_found,
               "'none'");
  expect_error([&] { get_int(o, "s", "x.json"); }, "json.type", Code::invalid_argument, "string");
  expect_error([&] { get_int(o, "f", "x.json"); }, "json.type", Code::invalid_argument, "1.5");
  expect_error([&] { get_int(o, "big", "x.json"); }, "json.type", Code::invalid_argument, "2^63");
  expect_error([&] { get_string(o, "f", "x.json"); }, "json.type", Code::invalid_argument, "'f'");
  expect_error([&] { get_int(o["s"], "k", "x.json"); }, "json.not_object", Code::invalid_argument,
               "'k'");
}

TEST(ConfigErrorTest, Texts) {
  expect_error([] { Config::from_text("a = 1\nb = = 2\n", "c.toml"); }, "config.parse",
               Code::data_loss, "c.toml:2");
  expect_error([] { Config::from_text("a = 1\na = 2\n", "c.toml"); }, "config.parse",
               Code::data_loss, "c.toml:2");
  expect_error([] { Config::from_text("\nday = 2024-01-01\n", "c.toml"); }, "config.value_kind",
               Code::invalid_argument, "c.toml:2, key 'day'");
  expect_error([] { Config::from_text("a = [1, {b = 2}]\n", "c.toml"); }, "config.value_kind",
               Code::invalid_argument, "a table among other values");
}

TEST(ConfigErrorTest, Values) {
  Config c = Config::from_text("s = 'x'\ni = 3\nf = nan\nl = [1, 'a']\n[t]\nx = 1\n", "c.toml");
  auto wrong = Code::invalid_argument;
  expect_error([&] { c.text("none"); }, "config.missing", Code::not_found, "'none', a string");
  expect_error([&] { c.integer("s"); }, "config.type", wrong,
               "c.toml:1, key 's': expected an integer, got string \"x\"");
  expect_error([&] { c.text("i"); }, "config.type", wrong, "integer 3");
  expect_error([&] { c.number("t"); }, "config.type", wrong, "a table");
  expect_error([&] { c.flag("i", true); }, "config.type", wrong, "true or false");
  expect_error([&] { c.texts("l"); }, "config.type", wrong, "a list of strings");
  expect_error([&] { c.integers("l"); }, "config.type", wrong, "an integer");
  expect_error([&] { c.count("t"); }, "config.type", wrong, "a list of tables");
  expect_error([&] { c.integer("i", IntRange{5}); }, "config.range", wrong, "at least 5");
  expect_error([&] { c.integer("i", IntRange{0, 2}); }, "config.range", wrong, "from 0 to 2");
  expect_error([&] { c.number("f"); }, "config.range", wrong, "nan");
  expect_error([&] { c.number("i", NumberRange{3, 9, true}); }, "config.range", wrong, "> 3");
  std::vector<std::string> allowed = {"constant", "cosine"};
  expect_error([&] { c.choice("s", "constant", allowed); }, "config.choice", wrong,
               "one of constant, cosine");
}

TEST(ConfigErrorTest, Overrides) {
  auto apply = [](std::string text) {
    Config::from_text("a = 1\n[t]\nx = 1\n", "c.toml", std::vector<std::string>{text});
  };
  auto wrong = Code::invalid_argument;
  expect_error([&] { apply("train.lr"); }, "config.override", wrong, "key=value");
  expect_error([&] { apply("=3"); }, "config.override", wrong, "dotted key");
  expect_error([&] { apply("a..b=3"); }, "config.override", wrong, "a..b");
  expect_error([&] { apply("a.b=3"); }, "config.override_kind", wrong, "'a', a value in c.toml:1");
  expect_error([&] { apply("t=3"); }, "config.override_kind", wrong, "'t', a table in c.toml:2");
}

TEST(ConfigErrorTest, UnknownKeysNameTheirPlaceAndTheNearestKey) {
  Config c = Config::from_text("[train]\nlearnin_rate = 1\nsteps = 2\n", "c.toml",
                               std::vector<std::string>{"train.step=3"});
  c.number("train.learning_rate", 0, {});
  c.integer("train.steps");
  expect_error([&] { c.reject_unknown(); }, "config.unknown_key", Code::invalid_argument,
               "c.toml:2: expected known keys only, got 'train.learnin_rate', did you mean "
               "'train.learning_rate'?, 'train.step' (--set train.step), did you mean "
               "'train.steps'?");
  Config empty = Config::from_text("[trian]\n", "c.toml");
  empty.integer("train.steps", 1, {});
  expect_error([&] { empty.reject_unknown(); }, "config.unknown_key", Code::invalid_argument,
               "'trian'");
  Config table = Config::from_text("[reward]\ncommand = 1\n", "c.toml");
  table.allow("reward.kind");
  table.allow("reward.options.command");
  expect_error([&] { table.reject_unknown(); }, "config.unknown_key", Code::invalid_argument,
               "'reward.command', did you mean 'reward.options.command'?");
}

TEST(ProcessErrorTest, ProgramsThatDoNotStart) {
  expect_error([] { ChildProcess({}); }, "process.no_program", Code::invalid_argument, "program");
  expect_error([] { ChildProcess({"strata-no-such-program"}); }, "process.spawn", Code::not_found,
               "strata-no-such-program");
  Limit limit(RLIMIT_NOFILE, 3);
  expect_error([] { ChildProcess({"cat"}); }, "process.pipe", Code::resource_exhausted, "a pipe");
}

TEST(ProcessErrorTest, ProgramsThatDie) {
  ChildProcess quitter({"sh", "-c", "read line; exit 3"});
  quitter.write_line("x", 10);
  expect_error([&] { quitter.read_line(10); }, "process.died", Code::unavailable, "status 3");
  expect_error([&] { quitter.write_line("x", 10); }, "process.died", Code::unavailable, "status 3");
  ChildProcess killed({"sh", "-c", "kill -KILL $$"});
  expect_error([&] { killed.read_line(10); }, "process.died", Code::unavailable, "signal 9");
  ChildProcess closed({"sh", "-c", "exec >&-; sleep 60"});
  expect_error([&] { closed.read_line(10); }, "process.died", Code::unavailable, "closed its pipe");
}

TEST(ProcessErrorTest, ProgramsThatHang) {
  Stopwatch clock;
  ChildProcess sleeper({"sleep", "60"});
  expect_error([&] { sleeper.read_line(0.2); }, "process.hung", Code::deadline_exceeded, "0.2 s");
  ChildProcess deaf({"sleep", "60"});
  expect_error([&] { deaf.write_line(std::string(1 << 20, 'x'), 0.2); }, "process.hung",
               Code::deadline_exceeded, "writing a line");
  ChildProcess slow({"sleep", "60"});
  expect_error([&] { slow.wait(0.1); }, "process.hung", Code::deadline_exceeded, "its end");
  EXPECT_LT(clock.seconds(), 30);
}

TEST(ProcessErrorTest, ProgramsThatPrintJunk) {
  ChildProcess junk({"echo", "score: 1"});
  expect_error([&] { junk.read_json_line(10); }, "process.junk", Code::data_loss, "'score: 1'");
  ChildProcess binary({"printf", "\\377\\n"});
  expect_error([&] { binary.read_json_line(10); }, "process.junk", Code::data_loss, "not UTF-8");
  ChildProcess flood({"sh", "-c", "cat /dev/zero"});
  expect_error([&] { flood.read_line(20); }, "process.junk", Code::data_loss, "1 MiB");
}

}  // namespace
}  // namespace strata
