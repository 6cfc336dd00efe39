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

// Layers of these runs; a run's kinds of layers differ from any other's.
Manifest runs(const std::vector<sharding::LayerRun>& runs, bool scanned, int64_t axis = 0) {
  LayerPlan plan{"model.layers", runs};
  std::vector<Slot> slots;
  for (size_t r = 0; r < runs.size(); ++r) {
    plan.runs[r].scanned = runs[r].scanned && scanned;
    for (int64_t k = 0; k < runs[r].cycle; ++k) {
      const int64_t kind = static_cast<int64_t>(10 * r) + k;
      for (const Dims& dims : {Dims{2 + kind, 3}, Dims{3}, Dims{}}) {
        const std::string leaf = "leaf" + std::to_string(dims.size()) + ".weight";
        sharding::ParamType type = sharding::plain_type(DType::f32, dims);
        if (plan.runs[r].scanned) {
          std::string name = plan.stacked_name(static_cast<int64_t>(r), k, leaf);
          sharding::Dim dim{runs[r].repeats, sharding::Role::layer, "layers", {}};
          slots.push_back({name, sharding::Kind::param, insert_layer_dim(type, axis, dim, name)});
          continue;
        }
        for (int64_t i = 0; i < runs[r].repeats; ++i) {
          int64_t layer = runs[r].first + i * runs[r].cycle + k;
          slots.push_back({plan.layer_name(layer, leaf), sharding::Kind::param, type});
        }
      }
    }
  }
  return Manifest(std::move(slots), {}, {plan});
}

TEST_F(ConvertTest, EveryScannedRunIsStacked) {
  struct Row {
    const char* name;
    std::vector<sharding::LayerRun> runs;
    TreeNames names;
    std::vector<const char*> there;
    size_t tensors;
  };
  const Row rows[] = {
      {"prefix",
       {{0, 1, 2, true}, {2, 1, 5, true}},
       TreeNames::stacked,
       {"model.layers.layers_0_2.leaf2.weight", "model.layers.leaf2.weight"},
       6},
      {"middle",
       {{0, 1, 2, true}, {2, 2, 3, true}, {8, 1, 1, false}, {9, 1, 4, true}},
       TreeNames::cycle,
       {"model.layers.layers_0_2.layer_0.leaf2.weight", "model.layers.layer_1.leaf2.weight",
        "model.layers.8.leaf2.weight", "model.layers.layers_9_13.layer_0.leaf2.weight"},
       15},
      {"two_cycles",
       {{0, 3, 2, true}, {6, 2, 2, true}, {10, 1, 1, true}},
       TreeNames::cycle,
       {"model.layers.layer_2.leaf1.weight", "model.layers.layers_6_10.layer_1.leaf0.weight",
        "model.layers.layers_10_11.layer_0.leaf2.weight"},
       18}};
  for (const Row& row : rows) {
    const Manifest single = runs(row.runs, false);
    write_model(at(row.name) / "hf", single);
    for (int64_t axis : {0, 1, 2}) {
      fs::path tree = at(row.name) / ("tree" + std::to_string(axis));
      ConvertReport report =
          convert_tree(at(row.name) / "hf", tree, runs(row.runs, true, axis), {.names = row.names});
      EXPECT_EQ(report.tensors, row.tensors);
      auto source = weights::open_source(tree);
      for (const char* name : row.there) EXPECT_NE(source->find(name), nullptr) << name;
      fs::path back = at(row.name) / ("back" + std::to_string(axis));
      convert_tree(tree, back, single);
      EXPECT_EQ(bytes_of(back), bytes_of(at(row.name) / "hf")) << row.name << axis;
    }
  }
  expect_error([&] { convert_tree(at("middle") / "hf", at("x"), runs(rows[1].runs, true)); },
               "checkpoint.convert_cycle", "--to cycle");
}

// A foreign tree of a loop inside of a loop: three layers alike and one of another kind, twice.
TEST_F(ConvertTest, NestedTreesAreSources) {
  std::vector<Slot> slots;
  LayerPlan plan{"model.layers", {{0, 1, 8, false}}};
  for (int64_t i = 0; i < 8; ++i) {
    Dims dims = i % 4 == 3 ? Dims{7, 6} : Dims{5, 6};
    slots.push_back(
        {plan.layer_name(i, "w"), sharding::Kind::param, sharding::plain_type(DType::f32, dims)});
  }
  const Manifest single(slots, {}, {plan});
  write_model(at("hf"), single);
  auto source = weights::open_source(at("hf"));
  for (size_t axis : {0u, 1u, 2u}) {
    Dims inner{5, 6}, full{7, 6};
    inner.insert(inner.begin() + static_cast<std::ptrdiff_t>(axis), {2, 3});
    full.insert(full.begin() + static_cast<std::ptrdiff_t>(axis), 2);
    HostTensor three(DType::f32, inner), one(DType::f32, full);
    for (int64_t i = 0; i < 8; ++i) {
      HostTensor layer = weights::to_host(source->get(plan.layer_name(i, "w")));
      HostTensor& whole = i % 4 == 3 ? one : three;
      const int64_t neighbours = i % 4 == 3 ? 1 : 3;
      // Elements behind the layer dims, and layers in the tensor.
      const int64_t behind = axis == 0 ? layer.size() : axis == 1 ? 6 : 1, count = 2 * neighbours;
      const int64_t at_layer = i / 4 * neighbours + (neighbours == 1 ? 0 : i % 4);
      for (int64_t e = 0; e < layer.size(); ++e) {
        whole.set((e / behind * count + at_layer) * behind + e % behind, layer.at(e));
      }
    }
    fs::path tree = at("nested" + std::to_string(axis));
    fs::create_directories(tree);
    fs::copy(at("hf") / "config.json", tree / "config.json");
    std::vector<weights::NamedTensor> named{{"model.layers.layer_0.w", &three},
                                            {"model.layers.layer_1.w", &one}};
    weights::write_safetensors(tree / "model.safetensors", named);
    convert_tree(tree, at("back" + std::to_string(axis)), single);
    EXPECT_EQ(bytes_of(at("back" + std::to_string(axis))), bytes_of(at("hf"))) << axis;
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
