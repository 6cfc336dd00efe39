// Wrong input to the binary: exit statuses by class, the message's parts, and nothing written.
#include <dlfcn.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <limits>

#include "end_to_end/binary_for_test.h"
#include "strata/base/file.h"
#include "strata/base/json.h"
#include "strata/weights/safetensors_writer.h"

namespace strata::end_to_end {
namespace {

namespace fs = std::filesystem;

// A copy of an oracle's model that a test may damage, and an input for it.
class ScoreErrors : public ::testing::Test {
 protected:
  void SetUp() override {
    fs::create_directory(scratch_ / "model");
    for (const char* name : {"config.json", "model.safetensors"}) {
      write_file_atomically(scratch_ / "model" / name, read_file(oracle("qwen3") / name));
    }
    write_input("input_ids", HostTensor::of<int32_t>({1, 3}, std::vector<int32_t>{1, 2, 159}));
  }

  void write_input(const std::string& name, const HostTensor& tensor) {
    weights::NamedTensor named{name, &tensor};
    weights::write_safetensors(scratch_ / "x.safetensors", std::span(&named, 1));
  }

  // Runs it, and expects that nothing new stands in the scratch directory.
  Outcome score(const std::vector<std::string>& more = {}) {
    Request request{{"score", "--model", (scratch_ / "model").string(), "--input",
                     (scratch_ / "x.safetensors").string(), "--out", (scratch_ / "y").string()}};
    request.arguments.insert(request.arguments.end(), more.begin(), more.end());
    request.environment = environment_;
    std::vector<std::string> before = scratch_.entries();
    Outcome o = run(request);
    EXPECT_EQ(scratch_.entries(), before);
    return o;
  }

  Scratch scratch_;
  std::map<std::string, std::string> environment_;
};

TEST_F(ScoreErrors, MissingFiles) {
  fs::remove(scratch_ / "x.safetensors");
  expect_error(score(), 4, "file.open", {"x.safetensors", "No such file"});
  fs::remove(scratch_ / "model" / "config.json");
  expect_error(score(), 4, "file.open", {"config.json", "No such file"});
}

TEST_F(ScoreErrors, TruncatedWeights) {
  fs::resize_file(scratch_ / "model/model.safetensors", 50000);
  expect_error(score(), 5, "weights.st_past_end", {"model.safetensors, tensor '", "50000 bytes"});
}

TEST_F(ScoreErrors, MeshesThatCannotBe) {
  expect_error(score({"--mesh", "fsdp=4", "--devices", "2"}), 3, "cli.devices",
               {"at least 4", "got 2"});
  expect_error(score({"--mesh", "fsdp=2", "--shard", "mlp = tensor"}), 4, "sharding.unknown_axis",
               {"rule 'mlp'", "'tensor'", "fsdp"});
  expect_error(score({"--mesh", "tensor=3", "--strict"}), 3, "sharding.strict",
               {"tensor (3) does not divide it"});
}

TEST_F(ScoreErrors, UnknownModelType) {
  Json config = read_json(scratch_ / "model/config.json");
  config["model_type"] = "qwen33";
  write_file_atomically(scratch_ / "model/config.json", config.dump());
  expect_error(score(), 6, "models.model_type", {"llama", "'qwen33'", "nearest is 'qwen3'"});
}

TEST_F(ScoreErrors, WrongInputTensor) {
  write_input("ids", HostTensor::of<int32_t>({1, 2}, std::vector<int32_t>{1, 2}));
  expect_error(score(), 4, "weights.no_tensor", {"'input_ids'"});
  write_input("input_ids", HostTensor::of<int64_t>({1, 2}, std::vector<int64_t>{1, 2}));
  expect_error(score(), 3, "cli.score_input", {"i32 with dims [rows, tokens]", "i64"});
  write_input("input_ids", HostTensor::of<int32_t>({2}, std::vector<int32_t>{1, 2}));
  expect_error(score(), 3, "cli.score_input", {"i32 with dims [2]"});
  write_input("input_ids", HostTensor(DType::i32, {2, 1}));
  expect_error(score(), 3, "rl.score_shape", {"2 rows of 1"});
  write_input("input_ids", HostTensor(DType::i32, {1, 257}));
  expect_error(score(), 3, "rl.score_context", {"at most 256 tokens", "got 257"});
}

TEST_F(ScoreErrors, IdsOutOfTheVocabulary) {
  write_input("input_ids", HostTensor::of<int32_t>({2, 2}, std::vector<int32_t>{1, 2, 160, 3}));
  expect_error(score(), 3, "cli.score_token", {"'input_ids' [1, 0]", "0 to 159", "got 160"});
  write_input("input_ids", HostTensor::of<int32_t>({1, 2}, std::vector<int32_t>{1, -1}));
  expect_error(score(), 3, "cli.score_token", {"'input_ids' [0, 1]", "got -1"});
}

TEST_F(ScoreErrors, WeightsWithANan) {
  fs::path path = scratch_ / "model/model.safetensors";
  std::string bytes = read_file(path);
  float nan = std::numeric_limits<float>::quiet_NaN();
  bytes.replace(bytes.size() - 4, 4, reinterpret_cast<const char*>(&nan), 4);
  write_file_atomically(path, bytes);
  expect_error(score(), 5, "checkpoint.not_finite", {"tensor '", "nan at element"});
}

TEST_F(ScoreErrors, OutputThatCannotBe) {
  std::string missing = (scratch_ / "none/y").string();
  std::vector<std::string> before = scratch_.entries();
  Request request{{"score", "--model", (scratch_ / "model").string(), "--input",
                   (scratch_ / "x.safetensors").string(), "--out", missing}};
  expect_error(run(request), 4, "cli.output_missing", {missing, "Make the directory first"});
  request.arguments.back() = (scratch_ / "model").string();
  expect_error(run(request), 3, "cli.output_directory", {"a directory"});
  request.arguments.back() = "/dev/null";
  expect_error(run(request), 3, "cli.output_special", {"/dev/null"});
  EXPECT_TRUE(fs::is_character_file("/dev/null"));
  request.arguments.back() = (scratch_ / "x.safetensors").string();
  expect_error(run(request), 3, "cli.output_is_input", {"x.safetensors"});
  request.arguments.back() = (scratch_ / "model/model.safetensors").string();
  expect_error(run(request), 3, "cli.output_is_input", {"model.safetensors"});
  EXPECT_EQ(scratch_.entries(), before);
}

constexpr fs::perms kReadable = fs::perms(0555), kClosed = fs::perms::none;

TEST_F(ScoreErrors, PermissionDenied) {
  if (!permissions_bind()) GTEST_SKIP() << "another user cannot run the binary here";
  fs::permissions(scratch_.path(), fs::perms(0755));
  Request request{{"score", "--model", (scratch_ / "model").string(), "--input",
                   (scratch_ / "x.safetensors").string(), "--out",
                   (scratch_ / "model/y").string()}};
  request.unprivileged = true;
  fs::permissions(scratch_ / "model", kReadable);
  expect_error(run(request), 4, "cli.output_denied", {"may be written to", "Permission denied"});
  fs::permissions(scratch_ / "x.safetensors", kClosed);
  request.arguments.back() = (scratch_ / "y").string();
  fs::permissions(scratch_.path(), fs::perms(0777));
  expect_error(run(request), 4, "file.open", {"x.safetensors", "Permission denied"});
  fs::permissions(scratch_ / "model/model.safetensors", kClosed);
  expect_error(run(request), 4, "file.open", {"Permission denied"});
  fs::permissions(scratch_ / "model", kClosed);
  expect_error(run(request), 4, "file.open", {"config.json", "Permission denied"});
  fs::permissions(scratch_ / "model", fs::perms(0755));
  EXPECT_EQ(scratch_.entries(), (std::vector<std::string>{"model", "x.safetensors"}));
}

TEST_F(ScoreErrors, Plugins) {
  expect_error(score({"--plugin", "cpo"}), 3, "pjrt.plugin_name", {"Did you mean 'cpu'?"});
  expect_error(score({"--plugin", (scratch_ / "none.so").string()}), 4, "pjrt.plugin_file",
               {"none.so", "no such file"});
  expect_error(score({"--plugin", (scratch_ / "x.safetensors").string()}), 3, "pjrt.plugin_file",
               {"an ELF shared library"});
  Dl_info library;  // any library that is no plug-in: the one that holds getpid
  ASSERT_NE(::dladdr(reinterpret_cast<void*>(&::getpid), &library), 0);
  expect_error(score({"--plugin", fs::canonical(library.dli_fname).string()}), 3,
               "pjrt.plugin_symbol", {"GetPjrtApi"});
  environment_["STRATA_DEPS"] = (scratch_ / "model").string();
  environment_["PYTHONPATH"] = (scratch_ / "model").string();
  expect_error(score({"--plugin", "tpu"}), 4, "pjrt.plugin_not_found", {"libtpu.so", "make setup"});
}

TEST(CommandLineErrors, UnknownWordsAreUsageErrors) {
  Outcome flag = run({{"score", "--gards"}});
  EXPECT_EQ(flag.status, 2);
  EXPECT_NE(flag.err.find("unknown option '--gards'. Did you mean '--grads'?"), std::string::npos)
      << flag.err;
  Outcome remat =
      run({{"score", "--model", "m", "--input", "x", "--out", "y", "--remat", "sometimes"}});
  EXPECT_EQ(remat.status, 2);
  EXPECT_NE(remat.err.find("full, names:TAG,TAG or offload:TAG,TAG"), std::string::npos)
      << remat.err;
  EXPECT_EQ(run({{"inspect"}}).status, 2);
  EXPECT_EQ(run({{"inspect", "x", "--plugin", "cpu"}}).status, 2);
  EXPECT_EQ(run({{"tokenize", "--model", "m", "--plain", "--decode"}}).status, 2);
}

TEST(CommandLineErrors, InputFilesOfTokenize) {
  Scratch scratch;
  std::string model =
      (fs::path(STRATA_SOURCE_DIR) / "tests/testdata/data/smollm2_tokenizer.json").string();
  std::string missing = (scratch / "none.jsonl").string();
  expect_error(run({{"tokenize", "--model", model, missing}}), 4, "cli.input_missing",
               {missing, "no such file"});
  std::string directory = (scratch / "").string();
  expect_error(run({{"tokenize", "--model", model, directory}}), 3, "cli.input_directory",
               {"a directory"});
  if (permissions_bind()) {
    fs::permissions(scratch.path(), fs::perms(0755));
    std::string locked = scratch.write("locked", "{}\n").string();
    fs::permissions(locked, fs::perms::none);
    Request request{{"tokenize", "--model", model, locked}};
    request.unprivileged = true;
    expect_error(run(request), 4, "cli.input_unreadable", {"may be read"});
  }
  expect_error(run({{"tokenize", "--model", (scratch / "none").string()}}), 4, "file.open");
}

TEST(CommandLineErrors, FilesThatAreNoWeights) {
  Scratch scratch;
  write_file_atomically(scratch / "text", "just some text, longer than a header");
  std::string path = (scratch / "text").string();
  expect_error(run({{"inspect", path}}), 3, "weights.inspect_kind", {path});
  std::string directory = (scratch / "model").string();
  expect_error(run({{"import-gguf", path, directory}}), 5, "weights.gguf_magic", {"byte 4"});
  expect_error(run({{"import-gguf", (scratch / "none").string(), directory}}), 4, "file.open");
  EXPECT_EQ(scratch.entries(), std::vector<std::string>{"text"});
}

}  // namespace
}  // namespace strata::end_to_end
