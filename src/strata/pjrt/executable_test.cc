#include "strata/pjrt/executable.h"

#include "strata/pjrt/test_support.h"

namespace strata::pjrt {
namespace {

class ExecutableTest : public OnBothPlugins {};
INSTANTIATE_TEST_SUITE_P(Plugins, ExecutableTest, ::testing::ValuesIn(kPlugins), plugin_label);

TEST_P(ExecutableTest, CompilesAndRuns) {
  auto c = client();
  Executable add = Executable::compile(c, kAdd);
  EXPECT_EQ(add.num_outputs(), 1u);
  EXPECT_EQ(add.device_ids(), std::vector<int>{0});
  EXPECT_TRUE(contains(add.name(), "add"));
  Buffer x = put<float>(c, {1, 2, 3, 4}, {4});
  Buffer y = put<float>(c, {10, 20, 30, 40}, {4});
  Execution run = add.execute(std::vector<const Buffer*>{&x, &y});
  ASSERT_EQ(run.done.size(), 1u);
  run.done[0].wait();
  EXPECT_TRUE(run.done[0].ready());
  EXPECT_EQ(get<float>(run.outputs.at(0)), (std::vector<float>{11, 22, 33, 44}));
  EXPECT_FALSE(x.deleted());
  std::vector<ShapeSpec> outputs = add.outputs();
  ASSERT_EQ(outputs.size(), 1u);
  EXPECT_EQ(outputs[0].dtype, DType::f32);
  EXPECT_EQ(outputs[0].dims, Dims{4});
}

TEST_P(ExecutableTest, AcceptsTheGenericFormWithLocations) {
  auto c = client();
  Executable add = Executable::compile(c, R"("builtin.module"() ({
  "func.func"() ({
  ^bb0(%x: tensor<2xf32>):
    %0 = "stablehlo.add"(%x, %x) : (tensor<2xf32>, tensor<2xf32>) -> tensor<2xf32> loc("model/layer.0/twice")
    "func.return"(%0) : (tensor<2xf32>) -> ()
  }) {sym_name = "main", function_type = (tensor<2xf32>) -> tensor<2xf32>} : () -> ()
}) {sym_name = "generic"} : () -> ()
)");
  Buffer x = put<float>(c, {1, 2}, {2});
  EXPECT_EQ(get<float>(add.execute(std::vector<const Buffer*>{&x}).outputs[0]),
            (std::vector<float>{2, 4}));
  EXPECT_TRUE(contains(add.optimized_program().text(), "model/layer.0/twice"))
      << add.optimized_program().text();
}

TEST_P(ExecutableTest, CompileErrorsQuoteOurLocation) {
  auto c = client();
  Error e = error_of([&] {
    Executable::compile(c, R"(module {
  func.func public @main(%x: tensor<4xf32>, %y: tensor<5xf32>) -> tensor<4xf32> {
    %0 = "stablehlo.add"(%x, %y) : (tensor<4xf32>, tensor<5xf32>) -> tensor<4xf32> loc("model/layer.3/mlp")
    return %0 : tensor<4xf32>
  }
})");
  });
  EXPECT_EQ(e.id(), "pjrt.call");
  EXPECT_TRUE(contains(e.what(), "PJRT_Client_Compile")) << e.what();
  EXPECT_TRUE(contains(e.what(), "model/layer.3/mlp")) << e.what();
}

TEST_P(ExecutableTest, DonationReusesTheMemoryAndDeletesTheInput) {
  auto c = client();
  std::string blob;
  {
    Executable fresh = Executable::compile(c, kIncrement);
    blob = fresh.serialize();
  }
  for (bool loaded : {false, true}) {
    SCOPED_TRACE(loaded ? "deserialised" : "compiled");
    Executable increment =
        loaded ? Executable::deserialize(c, blob) : Executable::compile(c, kIncrement);
    Declinable<MemoryStats> stats = increment.memory_stats();
    ASSERT_TRUE(stats.value) << stats.declined;
    EXPECT_EQ(stats.value->arguments, 256);
    EXPECT_EQ(stats.value->outputs, 256);
    EXPECT_EQ(stats.value->aliases, 256);
    Buffer x = put<float>(c, std::vector<float>(64, 1), {64});
    uintptr_t address = x.address();
    Execution run = increment.execute(std::vector<const Buffer*>{&x});
    EXPECT_EQ(run.outputs[0].address(), address);
    EXPECT_TRUE(x.deleted());
    EXPECT_EQ(get<float>(run.outputs[0]), std::vector<float>(64, 2));

    Error again = error_of([&] { increment.execute(std::vector<const Buffer*>{&x}); });
    EXPECT_EQ(again.id(), "pjrt.call");
    EXPECT_TRUE(contains(again.what(), "PJRT_LoadedExecutable_Execute")) << again.what();
    EXPECT_TRUE(contains(again.what(), "deleted or donated")) << again.what();
    Error read = error_of([&] { get<float>(x); });
    EXPECT_TRUE(contains(read.what(), "deleted or donated")) << read.what();
  }
}

TEST_P(ExecutableTest, KeepPreventsDonation) {
  auto c = client();
  Executable increment = Executable::compile(c, kIncrement);
  Buffer x = put<float>(c, std::vector<float>(64, 1), {64});
  ExecuteScratch scratch;
  std::vector<int64_t> keep = {0};
  Execution run = increment.execute(std::vector<const Buffer*>{&x}, scratch, keep);
  EXPECT_EQ(get<float>(run.outputs[0]), std::vector<float>(64, 2));
  EXPECT_FALSE(x.deleted());
  EXPECT_EQ(get<float>(x), std::vector<float>(64, 1));
}

TEST_P(ExecutableTest, DonatingOneBufferTwiceIsAnError) {
  auto c = client();
  Executable both = Executable::compile(c, R"(module @both {
  func.func public @main(%x: tensor<64xf32> {tf.aliasing_output = 0 : i32},
                         %y: tensor<64xf32> {tf.aliasing_output = 1 : i32})
      -> (tensor<64xf32>, tensor<64xf32>) {
    %0 = stablehlo.add %x, %x : tensor<64xf32>
    %1 = stablehlo.multiply %y, %y : tensor<64xf32>
    return %0, %1 : tensor<64xf32>, tensor<64xf32>
  }
})");
  Buffer x = put<float>(c, std::vector<float>(64, 3), {64});
  Error e = error_of([&] { both.execute(std::vector<const Buffer*>{&x, &x}); });
  EXPECT_EQ(e.id(), "pjrt.call");
  EXPECT_TRUE(contains(e.what(), "donate")) << e.what();
}

TEST_P(ExecutableTest, BufferDonorAttributeDonates) {
  auto c = client();
  Executable program = Executable::compile(c, R"(module @donor {
  func.func public @main(%x: tensor<64xf32> {jax.buffer_donor = true}) -> tensor<64xf32> {
    %0 = stablehlo.add %x, %x : tensor<64xf32>
    return %0 : tensor<64xf32>
  }
})");
  Buffer x = put<float>(c, std::vector<float>(64, 1), {64});
  uintptr_t address = x.address();
  Execution run = program.execute(std::vector<const Buffer*>{&x});
  EXPECT_EQ(run.outputs[0].address(), address);
  EXPECT_TRUE(x.deleted());
}

TEST_P(ExecutableTest, ReportsAliasesOfTheOptimisedProgram) {
  OptimizedProgram program = Executable::compile(client(), kIncrement).optimized_program();
  ASSERT_EQ(program.parameters.size(), 1u);
  EXPECT_EQ(program.parameters[0].text(), "f32[64]");
  ASSERT_EQ(program.results.size(), 1u);
  EXPECT_EQ(program.results[0].bytes(), 256);
  ASSERT_EQ(program.aliases.size(), 1u);
  EXPECT_EQ(program.aliases[0].parameter, 0);
  EXPECT_EQ(program.aliases[0].output, 0);
  EXPECT_TRUE(program.collectives().empty());
}

TEST_P(ExecutableTest, PeakIsNotReportedAndTemporariesAre) {
  Executable program = Executable::compile(client(), R"(module @temp {
  func.func public @main(%x: tensor<256x256xf32>) -> tensor<256x256xf32> {
    %0 = stablehlo.dot_general %x, %x, contracting_dims = [1] x [0] : (tensor<256x256xf32>, tensor<256x256xf32>) -> tensor<256x256xf32>
    %1 = stablehlo.dot_general %0, %x, contracting_dims = [1] x [0] : (tensor<256x256xf32>, tensor<256x256xf32>) -> tensor<256x256xf32>
    %2 = stablehlo.dot_general %1, %0, contracting_dims = [1] x [0] : (tensor<256x256xf32>, tensor<256x256xf32>) -> tensor<256x256xf32>
    return %2 : tensor<256x256xf32>
  }
})");
  MemoryStats stats = program.memory_stats().value.value();
  EXPECT_EQ(stats.arguments, 256 * 256 * 4);
  EXPECT_EQ(stats.outputs, 256 * 256 * 4);
  EXPECT_EQ(stats.aliases, 0);
  EXPECT_GE(stats.temporaries, 256 * 256 * 4);
}

TEST_P(ExecutableTest, CostAnalysisIsGivenOrDeclined) {
  Declinable<std::map<std::string, double>> cost =
      Executable::compile(client(), kAdd).cost_analysis();
  EXPECT_NE(cost.value.has_value(), contains(cost.declined, "declined: "));
  EXPECT_EQ(cost.value.has_value(), !newer()) << cost.declined;
}

TEST_P(ExecutableTest, WrongArgumentsAreErrorsNotCrashes) {
  auto c = client();
  Executable add = Executable::compile(c, kAdd);
  Buffer x = put<float>(c, {1, 2, 3, 4}, {4});
  Buffer small = put<float>(c, {1, 2}, {2});
  Buffer empty;
  Error few = error_of([&] { add.execute(std::vector<const Buffer*>{&x}); });
  EXPECT_EQ(few.id(), "pjrt.call") << few.what();
  Error shape = error_of([&] {
    add.execute(std::vector<const Buffer*>{&x, &small}).done[0].wait();
  });
  EXPECT_EQ(shape.id(), "pjrt.call") << shape.what();
  Error none = error_of([&] { add.execute(std::vector<const Buffer*>{&x, &empty}); });
  EXPECT_EQ(none.id(), "pjrt.buffer_empty");
  EXPECT_TRUE(contains(none.what(), "argument 1")) << none.what();
}

TEST_P(ExecutableTest, ABufferOfAnotherClientIsAnError) {
  Executable add = Executable::compile(client(), kAdd);
  Buffer x = put<float>(client(), {1, 2, 3, 4}, {4});
  Error e = error_of([&] { add.execute(std::vector<const Buffer*>{&x, &x}); });
  EXPECT_EQ(e.id(), "pjrt.foreign_buffer");
  EXPECT_TRUE(contains(e.what(), "another client")) << e.what();
}

TEST_P(ExecutableTest, AnArgumentThatFailsFailsTheResult) {
  auto c = client();
  Executable add = Executable::compile(c, kAdd);
  ChunkedTransfer transfer(c, c->device(0), {{DType::f32, {4}}});
  Buffer x = transfer.take(0);
  Buffer y = put<float>(c, {1, 2, 3, 4}, {4});
  transfer.set_error(0, Code::data_loss, "the disk went away");
  Error cause = error_of([&] { x.ready().wait(); });
  EXPECT_EQ(cause.code(), Code::data_loss) << cause.what();
  // The plug-ins give what depends on it the code "internal", but keep the text.
  Error e = error_of([&] {
    Execution run = add.execute(std::vector<const Buffer*>{&x, &y});
    run.outputs[0].ready().wait();
  });
  EXPECT_EQ(e.id(), "pjrt.call");
  EXPECT_TRUE(contains(e.what(), "the disk went away")) << e.what();
}

TEST_P(ExecutableTest, AnElementTypeWithoutANameIsUnimplemented) {
  Executable program = Executable::compile(client(), R"(module {
  func.func public @main(%x: tensor<2xf32>) -> tensor<2xcomplex<f32>> {
    %0 = stablehlo.complex %x, %x : tensor<2xcomplex<f32>>
    return %0 : tensor<2xcomplex<f32>>
  }
})");
  Error e = error_of([&] { program.outputs(); });
  EXPECT_EQ(e.id(), "pjrt.element_type");
  EXPECT_EQ(e.code(), Code::unimplemented);
  EXPECT_TRUE(contains(e.what(), "PJRT_Buffer_Type")) << e.what();
}

TEST_P(ExecutableTest, SerialisesAndLoads) {
  auto c = client();
  std::string blob = Executable::compile(c, kAdd).serialize();
  Executable loaded = Executable::deserialize(c, blob);
  Buffer x = put<float>(c, {1, 2, 3, 4}, {4});
  EXPECT_EQ(get<float>(loaded.execute(std::vector<const Buffer*>{&x, &x}).outputs[0]),
            (std::vector<float>{2, 4, 6, 8}));
  EXPECT_EQ(loaded.outputs().at(0).dims, Dims{4});
}

TEST_P(ExecutableTest, EqualOptionsGiveEqualBytes) {
  CompileOptions options;
  options.xla_options = {{"xla_cpu_enable_fast_math", "false"},
                         {"xla_dump_hlo_as_text", "false"},
                         {"xla_a", "1"},
                         {"xla_b", "2"}};
  std::string bytes = options.serialize();
  EXPECT_EQ(bytes, CompileOptions(options).serialize());
  options.num_partitions = 2;
  EXPECT_NE(bytes, options.serialize());
}

TEST_P(ExecutableTest, UnknownCompilerOptionIsAnError) {
  CompileOptions options;
  options.xla_options = {{"xla_no_such_option", "1"}};
  Error e = error_of([&] { Executable::compile(client(), kAdd, options); });
  EXPECT_TRUE(contains(e.what(), "xla_no_such_option")) << e.what();
}

TEST_P(ExecutableTest, DeviceAssignmentIsChecked) {
  CompileOptions options{.num_partitions = 2, .device_ids = {0, 0}};
  Error e = error_of([&] { options.serialize(); });
  EXPECT_EQ(e.id(), "pjrt.device_assignment");
  EXPECT_TRUE(contains(e.what(), "2 distinct device ids")) << e.what();
  EXPECT_EQ(error_of([] { CompileOptions{.num_replicas = 0}.serialize(); }).id(),
            "pjrt.device_assignment");
}

TEST_P(ExecutableTest, RunsOnTheDeviceAskedFor) {
  auto c = client(4);
  Executable add = Executable::compile(c, kAdd, {.device_ids = {2}});
  EXPECT_EQ(add.device_ids(), std::vector<int>{2});
  Buffer x = put<float>(c, {1, 2, 3, 4}, {4}, 2);
  Execution run = add.execute(std::vector<const Buffer*>{&x, &x});
  EXPECT_EQ(run.outputs[0].device_id(), 2);
  Buffer wrong = put<float>(c, {1, 2, 3, 4}, {4}, 0);
  Error e = error_of([&] { add.execute(std::vector<const Buffer*>{&x, &wrong}).done[0].wait(); });
  EXPECT_EQ(e.id(), "pjrt.call") << e.what();
}

}  // namespace
}  // namespace strata::pjrt
