// Stacked trees and checkpoints as model directories of every command, `strata convert` between
// them, and `strata inspect --verify`.
#include <gtest/gtest.h>

#include <filesystem>
#include <string>

#include "end_to_end/binary_for_test.h"
#include "strata/base/file.h"
#include "strata/base/json.h"
#include "strata/checkpoint/checkpoint_for_test.h"
#include "strata/checkpoint/checkpoint_store.h"
#include "strata/weights/safetensors_writer.h"
#include "strata/weights/tensor_source.h"

namespace strata::end_to_end {
namespace {

namespace fs = std::filesystem;

class Convert : public ::testing::Test {
 protected:
  void SetUp() override {
    fs::create_directories(at("hf"));
    for (const char* file : {"config.json", "model.safetensors"}) {
      fs::copy(oracle("qwen3") / file, at("hf"));
    }
    HostTensor row = HostTensor::of<int32_t>({1, 4}, {3, 14, 15, 9});
    weights::NamedTensor named{"input_ids", &row};
    weights::write_safetensors(at("x.safetensors"), std::span(&named, 1));
  }
  fs::path at(const std::string& name) const { return scratch_ / name; }
  Outcome convert(const std::string& from, const std::string& to, std::vector<std::string> more) {
    std::vector<std::string> arguments{"convert", at(from).string(), at(to).string()};
    arguments.insert(arguments.end(), more.begin(), more.end());
    return run({arguments});
  }
  // The logits under a model.
  std::string score(const std::string& model) {
    fs::path out = at(model + ".out.safetensors");
    Outcome o = run({{"score", "--model", at(model).string(), "--input",
                      at("x.safetensors").string(), "--out", out.string()}});
    EXPECT_EQ(o.status, 0) << o.err;
    return o.status == 0 ? read_file(out) : "";
  }

  Scratch scratch_;
};

TEST_F(Convert, EveryFormScoresAndConvertsAlike) {
  ASSERT_EQ(convert("hf", "plain", {"--to", "hf"}).status, 0);
  ASSERT_EQ(convert("hf", "stacked", {"--to", "stacked", "--axis", "1"}).status, 0);
  Outcome cycle = convert("stacked", "cycle", {"--to", "cycle", "--json"});
  ASSERT_EQ(cycle.status, 0) << cycle.err;
  EXPECT_EQ(parse_json(cycle.out, "stdout")["form"],
            "model.layers in cycle slots, stacked at axis 0");
  const std::string logits = score("hf");
  EXPECT_NE(logits, "");
  for (const char* form : {"stacked", "cycle"}) {
    EXPECT_EQ(score(form), logits) << form;
    const std::string back = std::string(form) + ".back";
    ASSERT_EQ(convert(form, back, {"--to", "hf"}).status, 0);
    EXPECT_EQ(read_file(at(back) / "model.safetensors"),
              read_file(at("plain") / "model.safetensors"));
  }
}

// Case A3: the flag is turned round, the tensors decide.
TEST_F(Convert, AFlagThatContradictsTheTensorsIsWarnedOf) {
  Json config = read_json(at("hf") / "config.json");
  config["scan_layers"] = true;
  write_file_atomically(at("hf") / "config.json", config.dump());
  Outcome o = convert("hf", "stacked", {"--to", "stacked"});
  ASSERT_EQ(o.status, 0) << o.err;
  EXPECT_NE(o.err.find("the tensors decide"), std::string::npos) << o.err;
  EXPECT_EQ(convert("stacked", "back", {"--to", "hf"}).err.find("the tensors decide"),
            std::string::npos);
}

TEST_F(Convert, DemandsAndTargetsThatCannotBe) {
  expect_error(convert("hf", "out", {"--to", "hf", "--from", "stacked"}), 3, "weights.tree_form",
               {"got one tensor a layer", "strata convert"});
  expect_error(convert("hf", "hf", {"--to", "stacked"}), 3, "file.exists", {at("hf").string()});
  EXPECT_FALSE(fs::exists(at("out")));
  EXPECT_EQ(convert("hf", "out", {"--to", "x"}).status, 2);
}

TEST_F(Convert, AWeightAverageIsTakenWhereItIsAskedFor) {
  checkpoint::TinyRun tiny(checkpoint::new_client(), "qwen3_tied", 0);
  tiny.slot_types.clear();
  for (const sharding::Slot& slot : tiny.model.slots()) {
    bool kept = slot.name != "model.norm.weight";  // as if that one was frozen
    if (kept) tiny.slot_types.push_back({"ema/" + slot.name, slot.kind, slot.type});
  }
  tiny.slots = checkpoint::filled(tiny.slot_types, tiny.client, 7);
  fs::path path = checkpoint::CheckpointStore(at("run")).save(tiny.contents(3));
  for (const char* form : {"hf", "stacked"}) {
    ASSERT_EQ(convert("run", std::string("plain.") + form, {"--to", form}).status, 0);
    Outcome o = convert("run", std::string("average.") + form, {"--to", form, "--average"});
    ASSERT_EQ(o.status, 0) << o.err;
  }
  auto parameters = weights::open_source(path), slots = weights::open_source(path / "optimizer"),
       plain = weights::open_source(at("plain.hf")), taken = weights::open_source(at("average.hf"));
  auto same = [](const weights::TensorView& a, const weights::TensorView& b) {
    return a.dims == b.dims && std::equal(a.bytes.begin(), a.bytes.end(), b.bytes.begin());
  };
  EXPECT_EQ(taken->tensors().size(), parameters->tensors().size());
  for (const weights::TensorView& t : taken->tensors()) {
    const weights::TensorView* average = slots->find("ema/" + t.name);
    EXPECT_EQ(average == nullptr, t.name == "model.norm.weight");
    EXPECT_TRUE(same(t, average == nullptr ? parameters->get(t.name) : *average)) << t.name;
    EXPECT_TRUE(same(plain->get(t.name), parameters->get(t.name))) << t.name;
  }
  EXPECT_EQ(score("average.stacked"), score("average.hf"));
  EXPECT_NE(score("plain.hf"), score("average.hf"));
  expect_error(convert("hf", "out", {"--to", "hf", "--average"}), 3, "checkpoint.no_average",
               {"no manifest.json", "leave out --average"});
  EXPECT_FALSE(fs::exists(at("out")));
}

TEST_F(Convert, CheckpointsAreInspectedVerifiedAndConverted) {
  checkpoint::TinyRun tiny(checkpoint::new_client(), "qwen3_tied", 0);
  fs::path path;
  {
    checkpoint::CheckpointStore store(at("run"));
    store.save(tiny.contents(3));
    path = store.save(tiny.contents(12));
  }
  Outcome text = run({{"inspect", path.string()}});
  ASSERT_EQ(text.status, 0) << text.err;
  EXPECT_NE(text.out.find("step = 12"), std::string::npos) << text.out;
  EXPECT_NE(text.out.find("model.layers: 0"), std::string::npos) << text.out;
  Outcome json = run({{"inspect", at("run").string(), "--verify", "--json"}});
  ASSERT_EQ(json.status, 0) << json.err;
  Json shown = parse_json(json.out, "stdout");
  EXPECT_EQ(shown["metadata"]["steps"], (std::vector<int64_t>{3, 12}));
  EXPECT_EQ(shown["metadata"]["verified"], true);
  EXPECT_EQ(shown["metadata"]["model_hash"], tiny.model.hash());
  EXPECT_EQ(shown["tensors"][0]["sha256"].get<std::string>().size(), 64u);
  EXPECT_EQ(run({{"convert", path.string(), at("out").string(), "--to", "stacked"}}).status, 0);
  {
    checkpoint::Contents middle = tiny.contents(12);
    middle.run.micro_steps = 5;
    checkpoint::CheckpointStore(at("run")).save(middle);
  }
  shown = parse_json(run({{"inspect", at("run").string(), "--json"}}).out, "stdout");
  EXPECT_EQ(shown["metadata"]["step"], 12);
  EXPECT_EQ(shown["metadata"]["micro_steps"], 5);
  EXPECT_EQ(shown["metadata"]["steps"], (std::vector<int64_t>{3, 12}));

  fs::path file = path / "optimizer/model.safetensors";
  std::string bytes = read_file(file);
  bytes.back() = static_cast<char>(bytes.back() ^ 1);
  write_file_atomically(file, bytes);
  EXPECT_EQ(run({{"inspect", path.string()}}).status, 0);
  expect_error(run({{"inspect", path.string(), "--verify"}}), 5, "checkpoint.hash",
               {"tensor 'adam.v/"});
  expect_error(run({{"inspect", at("hf").string(), "--verify"}}), 3, "cli.verify",
               {"has hashes to compare with"});
}

}  // namespace
}  // namespace strata::end_to_end
