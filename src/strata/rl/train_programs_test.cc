// What goes into the traced programs of training, and how a batch lies on a mesh.
#include "strata/rl/train_programs.h"

#include <gtest/gtest.h>

#include "strata/nn/linear.h"

namespace strata::rl {
namespace {

// A table of integers and a scale, which are never trained, beside a weight.
struct WithTable : nn::Module {
  WithTable()
      : Module(nullptr, ""),
        linear(this, "linear", {4, 2, "embed", "mlp"}, false),
        table(this, "table", {DType::i32, {{.size = 3}}}, nn::Share::shared),
        scale(this, "scale", {DType::bf16, {{.size = 2}}}, nn::Share::shared) {}
  std::string describe() const override { return "WithTable"; }
  nn::Linear linear;
  nn::Buffer table, scale;
};

// Floats have float32 masters; what is trained is cast, buffers are not.
TEST(TrainPrograms, IntegersKeepTheirType) {
  WithTable model;
  nn::Structure structure(model, {});
  ir::Function f;
  ir::Values masters = declare_masters(f, structure),
             weights = weights_of(structure, masters, DType::bf16);
  std::vector<std::string> declared, computed;
  for (const ir::Value& v : masters) declared.push_back(ir::text(v.type()));
  for (const ir::Value& v : weights) computed.push_back(ir::text(v.type()));
  EXPECT_EQ(declared, (std::vector<std::string>{"3xi32", "2xf32", "2x4xf32"}));
  EXPECT_EQ(computed, (std::vector<std::string>{"3xi32", "2xf32", "2x4xbf16"}));
}

std::string batch_text(const char* mesh, const BatchShape& shape) {
  WithTable model;
  nn::Structure structure(model, {});
  structure.place({.mesh = sharding::Mesh::parse(mesh)}, sharding::decoder_rules());
  BatchTypes types = batch_types(structure.placement(), placed_shape(structure.placement(), shape));
  return text_of(types.grid) + " " + text_of(types.list) + " " + text_of(types.terms);
}

TEST(TrainPrograms, ScoredTokensAreSplitAsTheRowsAre) {
  EXPECT_EQ(batch_text("", {8, 4, 6}), "i32[batch:8, 4] i32[6] f32[5, 6]");
  EXPECT_EQ(batch_text("tensor=2", {8, 4, 6}), "i32[batch:8, 4] i32[6] f32[5, 6]");
  EXPECT_EQ(batch_text("data=2", {8, 4, 6}),
            "i32[batch:8@data, 4] i32[batch:2@data, 3] f32[5, batch:2@data, 3]");
  // Six scored tokens in four groups take room for eight.
  EXPECT_EQ(batch_text("data=2,fsdp=2", {8, 4, 6}),
            "i32[batch:8@data+fsdp, 4] i32[batch:4@data+fsdp, 2] f32[5, batch:4@data+fsdp, 2]");
}

}  // namespace
}  // namespace strata::rl
