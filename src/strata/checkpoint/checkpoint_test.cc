#include "strata/checkpoint/checkpoint.h"

#include <algorithm>

#include "strata/base/file.h"
#include "strata/base/json.h"
#include "strata/checkpoint/checkpoint_files.h"
#include "strata/checkpoint/checkpoint_for_test.h"
#include "strata/weights/hf_directory.h"

namespace strata::checkpoint {
namespace {

namespace fs = std::filesystem;
using weights::expect_error;
using weights::ScratchDirectory;

class CheckpointTest : public ::testing::Test {
 protected:
  void save(const TinyRun& run, int64_t step = 12, const SaveOptions& options = {}) {
    fs::remove_all(path());
    save_checkpoint(path(), run.contents(step), options);
  }
  Restored load(const TinyRun& into, bool verify = true) {
    return load_checkpoint(path(), into.model, into.slot_types, client_, {.verify = verify});
  }
  fs::path path() const { return scratch_ / "checkpoint"; }
  // Changes manifest.json.
  void edit(const std::function<void(Json&)>& change) {
    Json json = read_json(path() / "manifest.json");
    change(json);
    write_file_atomically(path() / "manifest.json", json.dump());
  }

  ScratchDirectory scratch_;
  runtime::ClientPtr client_ = new_client();
};

void flip_byte(const fs::path& file, size_t at) {
  std::string bytes = read_file(file);
  bytes[at] = static_cast<char>(bytes[at] ^ 1);
  write_file_atomically(file, bytes);
}

TEST_F(CheckpointTest, EveryFormLoadsIntoEveryOther) {
  const std::vector<Form> forms = {std::nullopt, 0, 1, -1};
  for (Form from : forms) {
    TinyRun saved(client_, "qwen3_tied", from);
    save(saved);
    for (Form to : forms) {
      TinyRun other(client_, "qwen3_tied", to, 2);
      Restored back = load(other);
      EXPECT_EQ(bytes_of_tree(other.model.slots(), refs_of(back.parameters)),
                bytes_of_tree(saved.model.slots(), refs_of(saved.parameters)));
      TensorBytes slots = bytes_of_tree(other.slot_types, refs_of(back.slots));
      EXPECT_EQ(slots, bytes_of_tree(saved.slot_types, refs_of(saved.slots)));
      EXPECT_NE(slots, bytes_of_tree(other.slot_types, refs_of(other.slots)));
      EXPECT_EQ(back.run, saved.contents(12).run);
    }
  }
}

TEST_F(CheckpointTest, DiskFormDoesNotDependOnTheRunningForm) {
  save(TinyRun(client_, "qwen3", 1));
  fs::rename(path(), scratch_ / "scanned");
  save(TinyRun(client_, "qwen3", std::nullopt));
  CheckpointFiles scanned(scratch_ / "scanned"), unscanned(path());
  ASSERT_EQ(scanned.tensors().size(), unscanned.tensors().size());
  for (const weights::TensorView& tensor : scanned.tensors()) {
    EXPECT_EQ(tensor.name.find('['), std::string::npos);
    const weights::TensorView& other = unscanned.get(tensor.name);
    EXPECT_EQ(tensor.dims, other.dims);
    EXPECT_TRUE(std::equal(tensor.bytes.begin(), tensor.bytes.end(), other.bytes.begin(),
                           other.bytes.end()));
  }
  EXPECT_NE(scanned.find("adam.v/model.layers.1.mlp.up_proj.weight"), nullptr);
  EXPECT_EQ(scanned.index().model, TinyRun(client_, "qwen3", 1).model);
}

TEST_F(CheckpointTest, IsAModelDirectory) {
  TinyRun run(client_, "llama_tied", 0);
  save(run);
  weights::HfDirectory ours(path());
  auto oracle = weights::open_source(oracle_path("llama_tied") / "model.safetensors");
  ASSERT_EQ(ours.tensors().size(), oracle->tensors().size());
  for (const weights::TensorView& tensor : oracle->tensors()) {
    const weights::TensorView& own = ours.get(tensor.name);
    EXPECT_EQ(own.dims, tensor.dims);
    EXPECT_TRUE(
        std::equal(own.bytes.begin(), own.bytes.end(), tensor.bytes.begin(), tensor.bytes.end()));
  }
  EXPECT_EQ(read_file(path() / "config.json"), read_file(run.model_directory / "config.json"));
  EXPECT_NO_THROW(CheckpointFiles(path()).verify());
}

TEST_F(CheckpointTest, SplitsIntoShardsAndReportsProgress) {
  TinyRun run(client_, "qwen3_tied", 1);
  std::vector<uint64_t> seen;
  uint64_t total = 0;
  save(run, 12, {.max_shard_bytes = 40000, .progress = [&](uint64_t done, uint64_t all) {
                   seen.push_back(done);
                   total = all;
                 }});
  EXPECT_TRUE(std::is_sorted(seen.begin(), seen.end()));
  EXPECT_EQ(seen.back(), total);
  CheckpointFiles files(path());
  EXPECT_EQ(total, files.total_bytes());
  EXPECT_GT(files.files().size(), 4u);
  EXPECT_EQ(bytes_of_tree(run.slot_types, refs_of(load(run).slots)),
            bytes_of_tree(run.slot_types, refs_of(run.slots)));
}

TEST_F(CheckpointTest, ListsEverythingThatDoesNotFit) {
  TinyRun run(client_, "qwen3_tied", 0);
  save(run);
  std::vector<sharding::Slot> slots = run.model.slots();
  slots[0].name = "model.other";
  slots[1].type = sharding::plain_type(DType::f32, {3});
  std::string wrong_shape = members_of(slots[1])[0].name + ": expected [3], got";
  std::string extra = "unexpected (" + run.model.slots()[0].name;
  std::vector<sharding::Slot> types = run.slot_types;
  types[0].type.dtype = DType::bf16;
  sharding::Manifest model(slots, {}, {});
  auto action = [&] { load_checkpoint(path(), model, types, client_); };
  for (const std::string& part : {std::string("missing (model.other)"), wrong_shape, extra,
                                  members_of(types[0])[0].name + ": expected bf16, got f32"}) {
    expect_error(action, "weights.mismatch", part);
  }
  // Nothing is said to be optional: leaving the slots out is a difference too.
  expect_error([&] { load_checkpoint(path(), run.model, {}, client_); }, "weights.mismatch",
               "unexpected (adam.m/");
}

TEST_F(CheckpointTest, FindsDamage) {
  TinyRun run(client_, "qwen3_tied", 0);
  save(run);
  fs::path file = path() / "optimizer/model.safetensors";
  flip_byte(file, fs::file_size(file) - 1);
  expect_error([&] { load(run); }, "checkpoint.hash", "tensor 'adam.v/");
  expect_error([&] { CheckpointFiles(path()).verify(); }, "checkpoint.hash", file.string());
  EXPECT_NO_THROW(load(run, false));
  save(run);
  flip_byte(path() / "config.json", 0);
  expect_error([&] { CheckpointFiles(path()).verify(); }, "checkpoint.hash", "config.json");
  save(run);
  fs::resize_file(file, fs::file_size(file) - 1);
  EXPECT_EQ(weights::error_of([&] { load(run); }).code(), Code::data_loss);
  fs::remove(file);
  EXPECT_EQ(weights::error_of([&] { load(run); }).code(), Code::not_found);
}

TEST_F(CheckpointTest, FindsAContradictingIndex) {
  TinyRun run(client_, "qwen3_tied", 0);
  auto expect = [&](const char* part, const std::function<void(Json&)>& change) {
    save(run);
    edit(change);
    expect_error([&] { load(run); }, "checkpoint.contradiction", part);
  };
  expect("a tensor that manifest.json lists", [](Json& j) { j["parameters"].erase(0); });
  expect("the tensor that manifest.json lists",
         [](Json& j) { j["parameters"][0]["name"] = "model.none"; });
  expect("the name once", [](Json& j) { j["slots"].push_back(j["slots"][0]); });
  expect("in ../elsewhere", [](Json& j) { j["slots"][0]["file"] = "../elsewhere"; });
  expect("expected 5xf32", [](Json& j) { j["parameters"][0]["dims"] = {5}; });
}

TEST_F(CheckpointTest, RefusesAnUnlawfulIndex) {
  TinyRun run(client_, "qwen3_tied", 0);
  save(run);
  const Json good = CheckpointFiles(path()).index().to_json();
  auto expect = [&](const char* id, const char* part, const std::function<void(Json&)>& change) {
    Json json = good;
    change(json);
    expect_error([&] { CheckpointIndex::from_json(json, "m.json"); }, id, part);
  };
  expect("checkpoint.version", "got 2", [](Json& j) { j["version"] = 2; });
  expect("checkpoint.index", "\"strata.checkpoint\"", [](Json& j) { j["format"] = "x"; });
  expect("checkpoint.index", "'new'", [](Json& j) { j["new"] = 1; });
  expect("checkpoint.index", "hash of 'model'", [](Json& j) { j["model_hash"] = "0"; });
  expect("checkpoint.index", "key 'step'", [](Json& j) { j["step"] = -1; });
  expect("checkpoint.index", "9223372036854775808", [](Json& j) { j["step"] = uint64_t{1} << 63; });
  expect("checkpoint.index", "name of a file", [](Json& j) { j["files"][0]["name"] = "../x"; });
  expect("checkpoint.index", "element type", [](Json& j) { j["slots"][0]["dtype"] = "f99"; });
  expect("checkpoint.index", "dims", [](Json& j) { j["slots"][0]["dims"] = {1.5}; });
  expect("checkpoint.index", "from 0 to 4294967295",
         [](Json& j) { j["run"]["rng"] = {uint64_t{1} << 32}; });
  for (const auto& item : good.items()) {
    expect("checkpoint.index", item.key().c_str(), [&](Json& j) { j.erase(item.key()); });
  }
  for (const auto& item : good["run"].items()) {
    expect("checkpoint.index", item.key().c_str(), [&](Json& j) { j["run"].erase(item.key()); });
  }
  // Any value of another type, anywhere near the top.
  for (const auto& item : good.items()) {
    Json json = good;
    json[item.key()] = true;
    EXPECT_THROW(CheckpointIndex::from_json(json, "m.json"), Error) << item.key();
  }
}

TEST_F(CheckpointTest, AnIndexThatWasCutIsDamaged) {
  TinyRun run(client_, "qwen3_tied", 0);
  save(run);
  const std::string text = read_file(path() / "manifest.json");
  for (size_t n = 0; n + 2 < text.size(); n += 97) {
    write_file_atomically(path() / "manifest.json", text.substr(0, n));
    EXPECT_EQ(weights::error_of([&] { read_index(path()); }).code(), Code::data_loss) << n;
  }
  fs::remove(path() / "manifest.json");
  expect_error([&] { load(run); }, "checkpoint.none", "a directory without one");
  expect_error([&] { read_index(scratch_ / "x"); }, "checkpoint.none", "no directory");
}

TEST_F(CheckpointTest, RefusesWhatIsNoTree) {
  TinyRun run(client_, "qwen3_tied", 0);
  Contents contents = run.contents(1);
  contents.parameters.pop_back();
  expect_error([&] { save_checkpoint(path(), contents); }, "checkpoint.tree", "arrays, got");
  contents = run.contents(1);
  contents.slots[0] = contents.slots[1];
  expect_error([&] { save_checkpoint(path(), contents); }, "checkpoint.tree", "slot adam.m/");
  contents = run.contents(1);
  std::string& name = contents.slot_types.back().name;  // a stacked one
  name.replace(name.find('['), name.find(']') - name.find('['), "[0:99999999999:1");
  expect_error([&] { save_checkpoint(path(), contents); }, "checkpoint.layers",
               "layers as its name counts");
  contents = run.contents(1);
  contents.model_directory = scratch_.path();
  expect_error([&] { save_checkpoint(path(), contents); }, "checkpoint.no_config",
               "a directory without one");
  save(run);
  expect_error([&] { save_checkpoint(path(), run.contents(2)); }, "file.exists", path().string());
  EXPECT_EQ(load(run).run.step, 12);
  EXPECT_EQ(std::distance(fs::directory_iterator(scratch_.path()), fs::directory_iterator()), 1);
}

}  // namespace
}  // namespace strata::checkpoint
