// Arrays spread over several devices: loaded from and saved to the same files as those of one.
#include <array>

#include "strata/checkpoint/checkpoint_for_test.h"
#include "strata/sharding/box.h"

namespace strata::checkpoint {
namespace {

namespace fs = std::filesystem;
using sharding::Mesh;
using sharding::Slot;

// Gives each dim, from `first` on and around, the next unused mesh axis that divides it.
std::vector<Slot> spread(std::vector<Slot> slots, const Mesh& mesh, size_t first) {
  for (Slot& slot : slots) {
    size_t next = 0;
    for (size_t i = 0; i < slot.type.dims.size() && next < mesh.axes().size(); ++i) {
      sharding::Dim& dim = slot.type.dims[(first + i) % slot.type.dims.size()];
      const sharding::MeshAxis& axis = mesh.axes()[next];
      if (dim.size % axis.size != 0) continue;
      dim.axes = {axis.name};
      ++next;
    }
  }
  return slots;
}

sharding::Manifest spread(const sharding::Manifest& model, const Mesh& mesh, size_t first) {
  return sharding::Manifest(spread(model.slots(), mesh, first), model.ties(), model.plans());
}

void expect_layout(const std::vector<Slot>& slots, const std::vector<runtime::Array>& arrays,
                   const Mesh& mesh) {
  for (size_t i = 0; i < slots.size(); ++i) {
    ASSERT_EQ(arrays[i].shard_count(), static_cast<size_t>(mesh.size()));
    for (int64_t p = 0; p < mesh.size(); ++p) {
      const pjrt::Buffer& buffer = arrays[i].buffer(static_cast<size_t>(p));
      EXPECT_EQ(buffer.dims(), shard_sizes(slots[i].type, mesh, "w")) << slots[i].name;
      EXPECT_EQ(buffer.device_id(), mesh.device_ids()[static_cast<size_t>(p)]);
    }
  }
}

std::vector<runtime::Array> spread_arrays(const std::vector<Slot>& slots,
                                          const std::vector<runtime::Array>& arrays,
                                          const Mesh& mesh) {
  std::vector<runtime::Array> out;
  for (size_t i = 0; i < slots.size(); ++i) {
    HostTensor whole = arrays[i].get();
    out.push_back(runtime::Array::put(
        arrays[i].client(), runtime::ArraySpec::sharded(slots[i].type, mesh, slots[i].name),
        {whole.bytes(), whole.byte_size()}));
  }
  return out;
}

// The forms and meshes that a run may change between.
struct Case {
  const char* mesh;
  Form form;
  size_t first;  // the dim that gets the first mesh axis
};
constexpr std::array kCases = {Case{"", std::nullopt, 0}, Case{"layers=2,fsdp=2,tensor=2", 0, 0},
                               Case{"fsdp=4", 1, 1}, Case{"data=2,tensor=2", std::nullopt, 1},
                               Case{"fsdp=8", -1, 0}};

class MeshTest : public ::testing::Test {
 protected:
  weights::ScratchDirectory scratch_;
  runtime::ClientPtr client_ = testing::Executor(testing::CpuPlugin::newer, 8).client();
};

TEST_F(MeshTest, ParametersTakeTheirPartsOfTheFile) {
  auto source = weights::open_source(oracle_path("qwen3_tied") / "model.safetensors");
  for (const Case& c : kCases) {
    Mesh mesh = Mesh::parse(c.mesh);
    sharding::Manifest model = spread(manifest_of(tensors_of(*source), c.form), mesh, c.first);
    std::vector<runtime::Array> arrays = load_parameters(model, *source, client_, {.mesh = mesh});
    expect_layout(model.slots(), arrays, mesh);
    TensorBytes bytes = bytes_of_tree(model.slots(), refs_of(arrays));
    for (const weights::TensorView& t : source->tensors()) {
      std::string whole(reinterpret_cast<const char*>(t.bytes.data()), t.bytes.size());
      EXPECT_EQ(bytes.at(t.name), whole) << t.name;
    }
  }
}

TEST_F(MeshTest, EveryMeshLoadsIntoEveryOther) {
  for (const Case& from : kCases) {
    const TinyRun one(client_, "qwen3_tied", from.form);
    const Mesh mesh = Mesh::parse(from.mesh);
    sharding::Manifest model = spread(one.model, mesh, from.first);
    std::vector<Slot> types = spread(one.slot_types, mesh, from.first);
    const auto parameters = spread_arrays(model.slots(), one.parameters, mesh);
    const auto slots = spread_arrays(types, one.slots, mesh);
    Contents contents = one.contents(3);
    contents.model = &model;
    contents.parameters = refs_of(parameters);
    contents.slot_types = types;
    contents.slots = refs_of(slots);
    fs::path path = scratch_ / ("from " + mesh.text());
    save_checkpoint(path, contents);
    for (const Case& to : kCases) {
      const TinyRun other(client_, "qwen3_tied", to.form, 2);
      const Mesh wanted = Mesh::parse(to.mesh);
      sharding::Manifest into = spread(other.model, wanted, to.first);
      std::vector<Slot> into_types = spread(other.slot_types, wanted, to.first);
      Restored back = load_checkpoint(path, into, into_types, client_, {.mesh = wanted});
      expect_layout(into.slots(), back.parameters, wanted);
      expect_layout(into_types, back.slots, wanted);
      EXPECT_EQ(bytes_of_tree(into.slots(), refs_of(back.parameters)),
                bytes_of_tree(one.model.slots(), refs_of(one.parameters)));
      EXPECT_EQ(bytes_of_tree(into_types, refs_of(back.slots)),
                bytes_of_tree(one.slot_types, refs_of(one.slots)));
    }
  }
}

TEST_F(MeshTest, DimsThatDoNotFitTheMeshAreErrors) {
  auto source = weights::open_source(oracle_path("qwen3_tied") / "model.safetensors");
  const Mesh mesh = Mesh::parse("fsdp=4");
  sharding::Manifest model = spread(manifest_of(tensors_of(*source), 0), mesh, 0);
  weights::expect_error([&] { load_parameters(model, *source, client_); }, "sharding.unknown_axis",
                        "fsdp");
  weights::expect_error(
      [&] { load_parameters(model, *source, client_, {.mesh = Mesh::parse("fsdp=7")}); },
      "sharding.not_divisible", "fsdp");
  const TinyRun run(client_, "qwen3_tied", 0);
  save_checkpoint(scratch_ / "c", run.contents(1));
  weights::expect_error([&] { load_checkpoint(scratch_ / "c", model, run.slot_types, client_); },
                        "sharding.unknown_axis", "fsdp");
}

}  // namespace
}  // namespace strata::checkpoint
