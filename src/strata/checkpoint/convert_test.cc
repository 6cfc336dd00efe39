#include "strata/checkpoint/convert.h"

#include <algorithm>

#include "strata/base/file.h"
#include "strata/base/json.h"
#include "strata/checkpoint/checkpoint_for_test.h"
#include "strata/weights/hf_directory.h"
#include "strata/weights/safetensors_writer.h"

namespace strata::checkpoint {
namespace {

namespace fs = std::filesystem;
using sharding::LayerPlan;
using sharding::Manifest;
using sharding::Slot;
using weights::expect_error;

// `count` layers in cycles of two kinds, after one layer of its own.
Manifest cycles(int64_t repeats, bool scanned, int64_t axis = 0) {
  LayerPlan plan{"model.layers", {{0, 1, 1, false}, {1, 2, repeats, scanned}}};
  std::vector<Slot> slots;
  auto add = [&](const std::string& name, const Dims& dims, int64_t layers) {
    slots.push_back({name, sharding::Kind::param, sharding::plain_type(DType::f32, dims)});
    sharding::Dim dim{layers, sharding::Role::layer, "layers", {}};
    if (layers > 0) slots.back().type = insert_layer_dim(slots.back().type, axis, dim, name);
  };
  add("model.norm.weight", {3}, 0);
  add("model.layers.0.dense.weight", {4, 3}, 0);
  for (int64_t slot = 0; slot < 2; ++slot) {
    const std::string leaf = slot == 0 ? "linear.weight" : "attention.weight";
    const Dims dims = slot == 0 ? Dims{5, 3} : Dims{2, 3};
    if (scanned) add(plan.stacked_name(1, slot, leaf), dims, repeats);
    for (int64_t r = 0; r < repeats && !scanned; ++r) {
      add(plan.layer_name(1 + 2 * r + slot, leaf), dims, 0);
    }
  }
  return Manifest(std::move(slots), {}, {plan});
}

class ConvertTest : public ::testing::Test {
 protected:
  // A model directory whose tensors all differ.
  void write_model(const fs::path& directory, const Manifest& model, DType odd = DType::f32) {
    std::vector<HostTensor> tensors;
    std::vector<std::string> names;
    for (const Slot& slot : model.slots()) {
      names.push_back(slot.name);
      HostTensor t(DType::f32, slot.type.sizes());
      for (int64_t i = 0; i < t.size(); ++i)
        t.set(i, 100.0 * static_cast<double>(names.size()) + i);
      tensors.push_back(slot.name == "model.layers.3.linear.weight" ? strata::convert(t, odd)
                                                                    : std::move(t));
    }
    std::vector<weights::NamedTensor> named;
    for (size_t i = 0; i < names.size(); ++i) named.push_back({names[i], &tensors[i]});
    fs::create_directories(directory);
    weights::write_safetensors(directory / "model.safetensors", named);
    weights::put_file(directory / "config.json", R"({"model_type": "toy"})");
  }
  static std::map<std::string, std::string> bytes_of(const fs::path& directory) {
    std::map<std::string, std::string> out;
    auto source = weights::open_source(directory);
    for (const weights::TensorView& t : source->tensors()) {
      out[t.name + " " + shape_text(t.dtype, t.dims)].assign(
          reinterpret_cast<const char*>(t.bytes.data()), t.bytes.size());
    }
    return out;
  }
  fs::path at(const std::string& name) const { return scratch_ / name; }

  weights::ScratchDirectory scratch_;
};

TEST_F(ConvertTest, RoundTripsAreBitExactAtEveryAxis) {
  for (const char* family : {"qwen3_tied", "llama_tied", "qwen3"}) {
    auto source = weights::open_source(oracle_path(family) / "model.safetensors");
    fs::path hf = at(family) / "hf";
    fs::create_directories(hf);
    fs::copy(oracle_path(family) / "model.safetensors", hf / "model.safetensors");
    fs::copy(oracle_path(family) / "config.json", hf / "config.json");
    Manifest single = manifest_of(tensors_of(*source), std::nullopt);
    fs::path last = hf;
    for (int64_t axis : {0, 1, 2, -1}) {
      Manifest stacked = manifest_of(tensors_of(*source), axis);
      for (TreeNames names : {TreeNames::stacked, TreeNames::cycle}) {
        std::string tag = std::to_string(axis) + (names == TreeNames::cycle ? "c" : "s");
        fs::path tree = at(family) / ("tree" + tag), back = at(family) / ("back" + tag);
        // From the form before, so that stacked trees turn into one another too.
        ConvertReport report = convert_tree(last, tree, stacked, {.names = names});
        EXPECT_EQ(report.bytes, source->total_bytes());
        EXPECT_LE(report.tensors, source->tensors().size());
        EXPECT_NE(report.form.find("model.layers"), std::string::npos) << report.form;
        EXPECT_EQ(convert_tree(tree, back, single).form, "one tensor a layer");
        EXPECT_EQ(bytes_of(back), bytes_of(hf)) << tag;
        EXPECT_EQ(read_file(back / "config.json"), read_file(hf / "config.json"));
        last = tree;
      }
    }
  }
}

// Stacked trees load into every form as the tensors do that they were made of.
TEST_F(ConvertTest, StackedTreesLoadIntoEveryForm) {
  runtime::ClientPtr client = new_client();
  auto source = weights::open_source(oracle_path("qwen3") / "model.safetensors");
  std::vector<weights::Wanted> wanted = tensors_of(*source);
  Manifest single = manifest_of(wanted, std::nullopt);
  TensorBytes expected =
      bytes_of_tree(single.slots(), refs_of(load_parameters(single, *source, client)));
  for (int64_t axis : {0, 1, -1}) {
    fs::path tree = at("tree" + std::to_string(axis));
    convert_tree(oracle_path("qwen3"), tree, manifest_of(wanted, axis));
    auto stacked = weights::open_source(tree);
    for (Form form : {Form(std::nullopt), Form(0), Form(1), Form(-1)}) {
      Manifest model = manifest_of(wanted, form);
      std::vector<runtime::Array> arrays = load_parameters(model, *stacked, client);
      EXPECT_EQ(bytes_of_tree(model.slots(), refs_of(arrays)), expected);
    }
    expect_error([&] { load_parameters(single, *stacked, client, {.form = {.stacked = false}}); },
                 "weights.tree_form", "one tensor a layer, as was asked for, got stacked tensors");
  }
}

TEST_F(ConvertTest, CheckpointsAreSources) {
  TinyRun run(new_client(), "qwen3_tied", 1);
  save_checkpoint(at("checkpoint"), run.contents(4));
  std::vector<weights::Wanted> wanted;
  for (const Slot& slot : run.model.slots()) {
    for (weights::Wanted& w : members_of(slot)) wanted.push_back(std::move(w));
  }
  convert_tree(at("checkpoint"), at("stacked"), run.model);
  convert_tree(at("stacked"), at("hf"), manifest_of(wanted, std::nullopt));
  EXPECT_EQ(bytes_of(at("hf")), bytes_of(at("checkpoint")));
  EXPECT_FALSE(fs::exists(at("stacked") / "manifest.json"));
}

TEST_F(ConvertTest, CyclesStandInSlotsBesideLayersOfTheirOwn) {
  for (int64_t axis : {0, 1, 2}) {
    fs::path base = at(std::to_string(axis));
    write_model(base / "hf", cycles(3, false));
    ConvertReport report = convert_tree(base / "hf", base / "cycle", cycles(3, true, axis),
                                        {.names = TreeNames::cycle});
    EXPECT_EQ(report.tensors, 4u);
    EXPECT_EQ(report.form, "model.layers in cycle slots, stacked at axis " + std::to_string(axis));
    auto tree = weights::open_source(base / "cycle");
    EXPECT_NE(tree->find("model.layers.layer_0.linear.weight"), nullptr);
    EXPECT_NE(tree->find("model.layers.layer_1.attention.weight"), nullptr);
    EXPECT_NE(tree->find("model.layers.0.dense.weight"), nullptr);
    EXPECT_EQ(tree->metadata().at("param_scan_axis"), std::to_string(axis));
    convert_tree(base / "cycle", base / "back", cycles(3, false));
    EXPECT_EQ(bytes_of(base / "back"), bytes_of(base / "hf"));
  }
}

TEST_F(ConvertTest, RefusesAndLeavesNothing) {
  write_model(at("hf"), cycles(2, false));
  expect_error([&] { convert_tree(at("hf"), at("out"), cycles(2, true)); },
               "checkpoint.convert_cycle", "--to cycle");
  write_model(at("mixed"), cycles(2, false), DType::bf16);
  expect_error(
      [&] { convert_tree(at("mixed"), at("out"), cycles(2, true), {.names = TreeNames::cycle}); },
      "checkpoint.convert_dtype",
      "model.layers.1.linear.weight in f32 and model.layers.3.linear.weight in bf16");
  expect_error([&] { convert_tree(at("hf"), at("out"), cycles(3, false)); }, "weights.mismatch",
               "missing (model.layers.5.linear.weight");
  expect_error(
      [&] { convert_tree(at("hf"), at("out"), cycles(2, false), {.from = {.stacked = true}}); },
      "weights.tree_form", "got one tensor a layer");
  fs::remove(at("mixed") / "config.json");
  expect_error([&] { convert_tree(at("mixed"), at("out"), cycles(2, false)); },
               "checkpoint.no_config", "a directory without one");
  expect_error([&] { convert_tree(at("hf"), at("mixed"), cycles(2, false)); }, "file.exists",
               at("mixed").string());
  EXPECT_FALSE(fs::exists(at("out")));
  for (const auto& entry : fs::directory_iterator(scratch_.path())) {
    EXPECT_EQ(entry.path().filename().string().find(".tmp"), std::string::npos) << entry.path();
  }
}

// The flag of the source's configuration does not outlive the form it spoke of.
TEST_F(ConvertTest, DropsTheFlagOfTheOldForm) {
  write_model(at("hf"), cycles(2, false));
  weights::put_file(at("hf") / "config.json", R"({"scan_layers": false, "x": 1})");
  convert_tree(at("hf"), at("out"), cycles(2, true), {.names = TreeNames::cycle});
  EXPECT_EQ(read_json(at("out") / "config.json"), Json::parse(R"({"x": 1})"));
}

}  // namespace
}  // namespace strata::checkpoint
