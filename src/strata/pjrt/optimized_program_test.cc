#include "strata/pjrt/optimized_program.h"

#include "hlo.pb.h"
#include "strata/pjrt/test_support.h"

namespace strata::pjrt {
namespace {

wire::Instruction* add_instruction(wire::Computation* computation, int64_t id, const char* opcode) {
  wire::Instruction* i = computation->add_instructions();
  i->set_id(id);
  i->set_name(std::string(opcode) + "." + std::to_string(id));
  i->set_opcode(opcode);
  return i;
}

void set_array(wire::Shape* shape, int type, std::vector<int64_t> dims) {
  shape->set_element_type(type);
  for (int64_t d : dims) shape->add_dimensions(d);
}

constexpr int kF32 = 11, kTuple = 13, kBf16 = 16, kS4 = 21;

TEST(HloShapeTest, BytesAndText) {
  EXPECT_EQ((HloShape{.element = "f32", .dims = {2, 3}}.bytes()), 24);
  EXPECT_EQ((HloShape{.element = "s4", .dims = {3}}.bytes()), 2);
  HloShape tuple{.element = "tuple",
                 .parts = {{.element = "bf16", .dims = {5}}, {.element = "pred"}}};
  EXPECT_EQ(tuple.bytes(), 11);
  EXPECT_EQ(tuple.text(), "(bf16[5], pred[])");
}

// Asynchronous forms, as GPU plug-ins write them.
TEST(OptimizedProgramTest, CountsAsynchronousCollectivesOnceByTheirResult) {
  wire::ModuleWithConfig proto;
  wire::Module* module = proto.mutable_hlo_module();
  module->set_name("m");
  module->set_entry_computation_id(1);
  wire::Computation* entry = module->add_computations();
  entry->set_id(1);
  entry->set_name("main");
  entry->set_root_id(14);
  wire::Instruction* p = add_instruction(entry, 10, "parameter");
  set_array(p->mutable_shape(), kBf16, {8});
  wire::Instruction* start = add_instruction(entry, 11, "all-gather-start");
  start->add_operand_ids(10);
  start->mutable_metadata()->set_op_name("model/layer.1/attn");
  start->mutable_shape()->set_element_type(kTuple);
  set_array(start->mutable_shape()->add_tuple_shapes(), kBf16, {8});
  set_array(start->mutable_shape()->add_tuple_shapes(), kBf16, {32});
  for (int64_t id : {0, 1, 2, 3}) {
    if (id == 0) start->add_replica_groups();
    start->mutable_replica_groups(0)->add_replica_ids(id);
  }
  wire::Instruction* done = add_instruction(entry, 12, "all-gather-done");
  set_array(done->mutable_shape(), kBf16, {32});
  wire::Instruction* reduce = add_instruction(entry, 13, "all-reduce-start");
  set_array(reduce->mutable_shape(), kF32, {10});
  wire::Instruction* root = add_instruction(entry, 14, "copy");
  set_array(root->mutable_shape(), kS4, {4});

  OptimizedProgram program = OptimizedProgram::parse(proto.SerializeAsString());
  std::vector<Collective> collectives = program.collectives();
  ASSERT_EQ(collectives.size(), 2u);
  EXPECT_EQ(collectives[0].kind, "all-gather");
  EXPECT_EQ(collectives[0].bytes, 64);
  EXPECT_EQ(collectives[0].group_size, 4);
  EXPECT_EQ(collectives[0].op_name, "model/layer.1/attn");
  EXPECT_EQ(collectives[1].kind, "all-reduce");
  EXPECT_EQ(collectives[1].bytes, 40);
  ASSERT_EQ(program.results.size(), 1u);
  EXPECT_EQ(program.results[0].text(), "s4[4]");
  EXPECT_TRUE(contains(program.text(),
                       "all-gather-start.11 = (bf16[8], bf16[32]) "
                       "all-gather-start(parameter.10)"))
      << program.text();
}

TEST(OptimizedProgramTest, JunkIsAnError) {
  for (std::string_view junk : {"", "\xff\xff\xff", "junk that is no protobuf"}) {
    Error e = error_of([&] { OptimizedProgram::parse(junk); });
    EXPECT_EQ(e.id(), "pjrt.hlo_parse");
    EXPECT_EQ(e.code(), Code::data_loss);
    EXPECT_TRUE(contains(e.what(), "HloModuleProtoWithConfig"));
  }
}

}  // namespace
}  // namespace strata::pjrt
