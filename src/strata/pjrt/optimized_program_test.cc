#include "strata/pjrt/optimized_program.h"

#include "strata/pjrt/test_support.h"
#include "strata/pjrt/wire.h"

namespace strata::pjrt {
namespace {

WireWriter array(int type, const std::vector<int64_t>& dims) {
  WireWriter shape;
  shape.number(2, type);
  shape.packed(3, dims);
  return shape;
}

WireWriter instruction(int64_t id, const std::string& opcode, const WireWriter& shape) {
  WireWriter out;
  out.bytes(1, opcode + "." + std::to_string(id));
  out.bytes(2, opcode);
  out.message(3, shape);
  out.number(35, id);
  return out;
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
  WireWriter pair, metadata, group;
  pair.number(2, kTuple);
  pair.message(4, array(kBf16, {8}));
  pair.message(4, array(kBf16, {32}));
  metadata.bytes(2, "model/layer.1/attn");
  group.packed(1, {0, 1, 2, 3});
  WireWriter start = instruction(11, "all-gather-start", pair);
  start.number(36, 10);
  start.message(7, metadata);
  start.message(49, group);
  WireWriter entry;
  entry.bytes(1, "main");
  entry.number(5, 1);
  entry.number(6, 14);
  entry.message(2, instruction(10, "parameter", array(kBf16, {8})));
  entry.message(2, start);
  entry.message(2, instruction(12, "all-gather-done", array(kBf16, {32})));
  entry.message(2, instruction(13, "all-reduce-start", array(kF32, {10})));
  entry.message(2, instruction(14, "copy", array(kS4, {4})));
  WireWriter module, whole;
  module.bytes(1, "m");
  module.message(3, entry);
  module.number(6, 1);
  whole.message(1, module);

  OptimizedProgram program = OptimizedProgram::parse(whole.text());
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

TEST(HloShapeTest, RowMajorIsTheLastDimInnermost) {
  HloShape shape{.element = "f32", .dims = {2, 3}};
  EXPECT_TRUE(shape.row_major());
  shape.minor_to_major = {1, 0};
  EXPECT_TRUE(shape.row_major());
  shape.minor_to_major = {0, 1};
  EXPECT_FALSE(shape.row_major());
}

TEST(HloShardingTest, PartsOfEachPartition) {
  using Kind = HloSharding::Kind;
  using Parts = std::vector<Dims>;
  EXPECT_EQ(HloSharding{}.parts(2, 1), (Parts{{0}, {0}}));
  HloSharding listed{.kind = Kind::tiles, .tiles = {2, 2}, .listed = {0, 2, 1, 3}};
  EXPECT_EQ(listed.parts(4, 2), (Parts{{0, 0}, {1, 0}, {0, 1}, {1, 1}}));
  HloSharding iota{.kind = Kind::tiles, .tiles = {3, 2}, .reshape = {2, 3}, .order = {1, 0}};
  EXPECT_EQ(iota.parts(6, 2), (Parts{{0, 0}, {1, 0}, {2, 0}, {0, 1}, {1, 1}, {2, 1}}));
  // Replicas behind the array's own dims.
  EXPECT_EQ(iota.parts(6, 1), (Parts{{0}, {1}, {2}, {0}, {1}, {2}}));
}

TEST(HloShardingTest, NumbersThatDoNotFitTogetherHaveNoParts) {
  using Kind = HloSharding::Kind;
  for (const HloSharding& s :
       {HloSharding{.kind = Kind::other}, HloSharding{.kind = Kind::tiles, .tiles = {2}},
        HloSharding{.kind = Kind::tiles, .tiles = {2}, .listed = {0, 2}},
        HloSharding{.kind = Kind::tiles, .tiles = {3}, .listed = {0, 1}},
        HloSharding{.kind = Kind::tiles, .tiles = {2}, .listed = {0, 1, 2}},
        HloSharding{.kind = Kind::tiles, .tiles = {2}, .reshape = {2}, .order = {1}},
        HloSharding{.kind = Kind::tiles, .tiles = {2}, .reshape = {2}, .order = {0, 1}}}) {
    EXPECT_TRUE(s.parts(2, 1).empty());
  }
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
