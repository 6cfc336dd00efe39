#include "strata/runtime/executor.h"

#include <fmt/format.h>

#include "strata/pjrt/test_support.h"
#include "strata/runtime/compile.h"
#include "strata/runtime/parameter_table.h"

namespace strata::runtime {
namespace {

using pjrt::contains;
using pjrt::error_of;

class ExecutorTest : public pjrt::OnBothPlugins {
 protected:
  static std::shared_ptr<const Program> compile(const ClientPtr& c, std::string_view text,
                                                CompileRequest request = {}) {
    return Compiler(c, {.cache_dir = {}}).compile(text, std::move(request));
  }
};
INSTANTIATE_TEST_SUITE_P(Plugins, ExecutorTest, ::testing::ValuesIn(pjrt::kPlugins),
                         pjrt::plugin_label);

// (state, step) -> (state + step in the state's memory, the sum of the new state).
constexpr const char* kStep = R"(module @step {
  func.func public @main(%s: tensor<8xf32> {tf.aliasing_output = 0 : i32}, %d: tensor<8xf32>)
      -> (tensor<8xf32>, tensor<f32>) {
    %zero = stablehlo.constant dense<0.0> : tensor<f32>
    %0 = stablehlo.add %s, %d : tensor<8xf32>
    %1 = stablehlo.reduce(%0 init: %zero) applies stablehlo.add across dimensions = [0] : (tensor<8xf32>, tensor<f32>) -> tensor<f32>
    return %0, %1 : tensor<8xf32>, tensor<f32>
  }
})";

HostTensor filled(Dims dims, double value) {
  HostTensor t(DType::f32, std::move(dims));
  for (int64_t i = 0; i < t.size(); ++i) t.set(i, value);
  return t;
}

TEST_P(ExecutorTest, ALoopReusesItsStatesMemory) {
  auto c = client();
  Executor step(compile(c, kStep));
  Array state = Array::put(c, filled({8}, 0));
  const Array delta = Array::put(c, filled({8}, 2));
  uintptr_t address = state.buffer(0).address();
  for (int i = 1; i <= 5; ++i) {
    std::vector<Argument> arguments = {Argument::donate(state), Argument::borrow(delta)};
    std::vector<Array> out = step.run(arguments);
    EXPECT_TRUE(state.consumed());
    state = std::move(out[0]);
    EXPECT_EQ(state.buffer(0).address(), address);
    EXPECT_EQ(state.spec(), step.program().parameters()[1].spec);
    EXPECT_EQ(out[1].get().at(0), 8 * 2 * i);
  }
  step.wait();
}

TEST_P(ExecutorTest, BorrowingADonatedParameterCopies) {
  auto c = client();
  Executor step(compile(c, kStep));
  Array state = Array::put(c, filled({8}, 1));
  std::vector<Argument> arguments = {Argument::borrow(state), Argument::borrow(state)};
  EXPECT_EQ(step.run(arguments)[0].get().at(0), 2);
  EXPECT_EQ(state.get().at(7), 1);
}

TEST_P(ExecutorTest, UseAfterDonationIsAnError) {
  auto c = client();
  Executor step(compile(c, kStep, {.name = "train step"}));
  Array state = Array::put(c, filled({8}, 1));
  Array delta = Array::put(c, filled({8}, 1));
  std::vector<Argument> arguments = {Argument::donate(state), Argument::borrow(delta)};
  step.run(arguments);
  Error e = error_of([&] { step.run(arguments); });
  EXPECT_EQ(e.id(), "runtime.array_consumed");
  EXPECT_TRUE(contains(e.what(), "argument 0")) << e.what();
  EXPECT_TRUE(contains(e.what(), "while running train step")) << e.what();
  EXPECT_EQ(error_of([&] { state.get(); }).id(), "runtime.array_consumed");
}

TEST_P(ExecutorTest, MistakesAreFoundBeforeAnythingIsGivenAway) {
  auto c = client(2);
  Executor step(compile(c, kStep));
  Array state = Array::put(c, filled({8}, 1));
  Array delta = Array::put(c, filled({8}, 1));
  Array small = Array::put(c, filled({4}, 1));
  Array elsewhere = Array::put(c, filled({8}, 1), 1);
  Array integers = Array::put(c, HostTensor(DType::i32, {8}));
  HostTensor host(DType::f32, {8});
  Array view = Array::view(c, ArraySpec::single(DType::f32, {8}), host.bytes(), nullptr);
  auto error = [&](std::vector<Argument> arguments) {
    return error_of([&] { step.run(arguments); });
  };
  Error count = error({Argument::donate(state)});
  EXPECT_EQ(count.id(), "runtime.argument_count");
  EXPECT_TRUE(contains(count.what(), "expected 2 arguments, got 1")) << count.what();
  Error type = error({Argument::donate(state), Argument::borrow(small)});
  EXPECT_EQ(type.id(), "runtime.argument_type");
  EXPECT_TRUE(contains(type.what(), "expected 8xf32 on device 0, got 4xf32")) << type.what();
  EXPECT_EQ(error({Argument::donate(state), Argument::borrow(integers)}).id(),
            "runtime.argument_type");
  Error device = error({Argument::donate(state), Argument::borrow(elsewhere)});
  EXPECT_EQ(device.id(), "runtime.argument_type");
  EXPECT_TRUE(contains(device.what(), "on device 1")) << device.what();
  Error unused = error({Argument::donate(state), Argument::donate(delta)});
  EXPECT_EQ(unused.id(), "runtime.donate_unused");
  EXPECT_TRUE(contains(unused.what(), "argument 1")) << unused.what();
  Error shared = error({Argument::donate(state), Argument::borrow(state)});
  EXPECT_EQ(shared.id(), "runtime.donate_shared");
  EXPECT_TRUE(contains(shared.what(), "the donated array of argument 0")) << shared.what();
  Error foreign = error({Argument::donate(view), Argument::borrow(delta)});
  EXPECT_EQ(foreign.id(), "runtime.donate_view");
  EXPECT_TRUE(contains(foreign.what(), "clone() it")) << foreign.what();
  EXPECT_EQ(error({{}, Argument::borrow(delta)}).id(), "runtime.array_consumed");
  Array stranger = Array::put(client(), filled({8}, 1));
  EXPECT_EQ(error({Argument::donate(state), Argument::borrow(stranger)}).id(),
            "pjrt.foreign_buffer");
  // After all that nothing has changed.
  EXPECT_EQ(state.get().at(0), 1);
  std::vector<Argument> good = {Argument::donate(state), Argument::borrow(delta)};
  EXPECT_EQ(step.run(good)[0].get().at(0), 2);
}

TEST_P(ExecutorTest, DonatingOneArrayToTwoParametersIsAnError) {
  auto c = client();
  Executor both(compile(c, R"(module {
  func.func public @main(%x: tensor<8xf32> {tf.aliasing_output = 0 : i32},
                         %y: tensor<8xf32> {tf.aliasing_output = 1 : i32})
      -> (tensor<8xf32>, tensor<8xf32>) {
    %0 = stablehlo.add %x, %x : tensor<8xf32>
    %1 = stablehlo.multiply %y, %y : tensor<8xf32>
    return %0, %1 : tensor<8xf32>, tensor<8xf32>
  }
})"));
  Array x = Array::put(c, filled({8}, 3));
  std::vector<Argument> arguments = {Argument::donate(x), Argument::donate(x)};
  EXPECT_EQ(error_of([&] { both.run(arguments); }).id(), "runtime.donate_shared");
  EXPECT_EQ(x.get().at(0), 3);
}

// Rows of x are split over the devices; each adds one, the sum is everywhere.
std::string sharded_step(int devices) {
  return fmt::format(R"(module @sharded {{
  sdy.mesh @mesh = <["data"={0}]>
  func.func public @main(%x: tensor<8x4xf32> {{sdy.sharding = #sdy.sharding<@mesh, [{{"data"}}, {{}}]>, tf.aliasing_output = 0 : i32}})
      -> (tensor<8x4xf32> {{sdy.sharding = #sdy.sharding<@mesh, [{{"data"}}, {{}}]>}},
          tensor<f32> {{sdy.sharding = #sdy.sharding<@mesh, []>}}) {{
    %one = stablehlo.constant dense<1.0> : tensor<8x4xf32>
    %zero = stablehlo.constant dense<0.0> : tensor<f32>
    %0 = stablehlo.add %x, %one : tensor<8x4xf32>
    %1 = stablehlo.reduce(%0 init: %zero) applies stablehlo.add across dimensions = [0, 1] : (tensor<8x4xf32>, tensor<f32>) -> tensor<f32>
    return %0, %1 : tensor<8x4xf32>, tensor<f32>
  }}
}})",
                     devices);
}

TEST_P(ExecutorTest, RunsOverDevicesWithDonation) {
  for (const std::vector<int64_t>& ids :
       {std::vector<int64_t>{0, 1, 2, 3}, {2, 0, 3, 1}, {7, 6, 5, 4, 3, 2, 1, 0}}) {
    auto n = static_cast<int>(ids.size());
    auto c = client(n);
    sharding::Mesh mesh({{"data", n}}, ids);
    sharding::ParamType type = sharding::plain_type(DType::f32, {8, 4});
    type.dims[0].axes = {"data"};
    SpecPtr rows = ArraySpec::sharded(type, mesh, "x");
    std::vector<int> devices(ids.begin(), ids.end());
    CompileRequest request{
        .options = {.num_partitions = n, .device_ids = devices},
        .parameters = {{.name = "x", .spec = rows, .donated = true}},
        .results = {{.name = "x", .spec = rows},
                    {.name = "sum", .spec = ArraySpec::replicated(DType::f32, {}, devices)}}};
    Executor step(compile(c, sharded_step(n), request));
    HostTensor host(DType::f32, {8, 4});
    for (int64_t i = 0; i < 32; ++i) host.set(i, static_cast<double>(i));
    Array x = Array::put(c, rows, {host.bytes(), host.byte_size()});
    uintptr_t address = x.buffer(1).address();
    for (int round = 1; round <= 3; ++round) {
      std::vector<Argument> arguments = {Argument::donate(x)};
      std::vector<Array> out = step.run(arguments);
      x = std::move(out[0]);
      EXPECT_EQ(out[1].get().at(0), 496 + 32 * round);
    }
    EXPECT_EQ(x.buffer(1).address(), address);
    HostTensor end = x.get();
    for (int64_t i = 0; i < 32; ++i) EXPECT_EQ(end.at(i), static_cast<double>(i + 3));
  }
}

TEST_P(ExecutorTest, ManyDevicesNeedADescription) {
  auto c = client(2);
  Error e = error_of([&] { compile(c, sharded_step(2), {.options = {.num_partitions = 2}}); });
  EXPECT_EQ(e.id(), "runtime.describe");
  EXPECT_TRUE(contains(e.what(), "runs on 2 devices")) << e.what();
}

// The plan says "split", the program does not: found before anything runs.
TEST_P(ExecutorTest, AShardingThatTheProgramDoesNotHaveIsAnError) {
  auto c = client(2);
  sharding::Mesh mesh = sharding::Mesh::parse("data=2");
  sharding::ParamType columns = sharding::plain_type(DType::f32, {8, 4});
  columns.dims[1].axes = {"data"};
  SpecPtr wrong = ArraySpec::sharded(columns, mesh, "x");
  Error e = error_of([&] {
    compile(c, sharded_step(2),
            {.options = {.num_partitions = 2},
             .parameters = {{.name = "x", .spec = wrong, .donated = true}},
             .results = {{.name = "x", .spec = wrong},
                         {.name = "sum", .spec = ArraySpec::replicated(DType::f32, {}, {0, 1})}}});
  });
  EXPECT_EQ(e.id(), "runtime.slot_type");
  EXPECT_TRUE(contains(e.what(), "expected 8x2xf32 on each device, as described, got 4x4xf32"))
      << e.what();
}

TEST_P(ExecutorTest, AFailureWhileRunningNamesTheProgram) {
  auto c = client();
  Executor step(compile(c, kStep, {.name = "train step"}));
  pjrt::ChunkedTransfer transfer(c, c->device(0), {{DType::f32, {8}}});
  SpecPtr spec = ArraySpec::single(DType::f32, {8});
  Array broken(spec, transfer.take(0));
  Array state = Array::put(c, filled({8}, 1));
  transfer.set_error(0, Code::data_loss, "the disk went away");
  std::vector<Argument> arguments = {Argument::donate(state), Argument::borrow(broken)};
  Error e = error_of([&] {
    std::vector<Array> out = step.run(arguments);
    step.wait();
    out[0].wait();
  });
  EXPECT_TRUE(contains(e.what(), "the disk went away")) << e.what();
  EXPECT_TRUE(contains(e.what(), "while running train step")) << e.what();
}

std::vector<std::pair<std::string, Array>> two_arrays(const ClientPtr& c, double value) {
  std::vector<std::pair<std::string, Array>> arrays;
  arrays.emplace_back("model.norm.weight", Array::put(c, filled({8}, value)));
  arrays.emplace_back("model.bias", Array::put(c, filled({2}, value)));
  return arrays;
}

TEST_P(ExecutorTest, TablesShareArraysWithoutCopies) {
  auto c = client();
  TablePtr first = ParameterTable::make(1, two_arrays(c, 1));
  EXPECT_EQ(first->version(), 1u);
  EXPECT_EQ(first->entries()[0].first, "model.norm.weight");
  std::vector<ParameterTable::Entry> next = first->entries();
  next[1].second = std::make_shared<const Array>(Array::put(c, filled({2}, 5)));
  ParameterTable second(2, std::move(next));
  EXPECT_EQ(&second.at("model.norm.weight"), &first->at("model.norm.weight"));
  EXPECT_EQ(second.at("model.bias").get().at(0), 5);
  EXPECT_EQ(first->at("model.bias").get().at(0), 1);
  Error e = error_of([&] { first->at("model.norm.weigth"); });
  EXPECT_EQ(e.id(), "runtime.parameter");
  EXPECT_TRUE(contains(e.what(), "Did you mean 'model.norm.weight'?")) << e.what();
}

TEST_P(ExecutorTest, TablesDissolveOnlyWhenNobodyElseReads) {
  auto c = client();
  TablePtr table = ParameterTable::make(1, two_arrays(c, 1));
  {
    std::shared_ptr<const Array> reader = table->share("model.bias");
    Error e = error_of([&] { ParameterTable::dissolve(table); });
    EXPECT_EQ(e.id(), "runtime.table_shared");
    EXPECT_TRUE(contains(e.what(), "another holder of 'model.bias'")) << e.what();
    TablePtr second = table;
    EXPECT_TRUE(contains(error_of([&] { ParameterTable::dissolve(table); }).what(),
                         "another holder of the table"));
  }
  ASSERT_NE(table, nullptr);
  auto arrays = ParameterTable::dissolve(table);
  EXPECT_EQ(table, nullptr);
  ASSERT_EQ(arrays.size(), 2u);
  EXPECT_EQ(arrays[0].first, "model.norm.weight");
  Executor step(compile(c, kStep));
  Array delta = Array::put(c, filled({8}, 1));
  std::vector<Argument> arguments = {Argument::donate(arrays[0].second), Argument::borrow(delta)};
  EXPECT_EQ(step.run(arguments)[0].get().at(0), 2);
}

TEST_P(ExecutorTest, TablesRefuseDoubledNamesAndEmptyArrays) {
  auto c = client();
  auto doubled = two_arrays(c, 1);
  doubled[1].first = doubled[0].first;
  Error e = error_of([&] { ParameterTable::make(1, std::move(doubled)); });
  EXPECT_EQ(e.id(), "runtime.table_entry");
  EXPECT_TRUE(contains(e.what(), "a second one")) << e.what();
  std::vector<std::pair<std::string, Array>> empty;
  empty.emplace_back("w", Array());
  EXPECT_EQ(error_of([&] { ParameterTable::make(1, std::move(empty)); }).id(),
            "runtime.table_entry");
}

TEST_P(ExecutorTest, PublishedVersionsOnlyRise) {
  auto c = client();
  PublishedParameters published;
  EXPECT_EQ(published.current(), nullptr);
  published.publish(ParameterTable::make(3, two_arrays(c, 1)));
  TablePtr reader = published.current();
  published.publish(ParameterTable::make(4, two_arrays(c, 2)));
  EXPECT_EQ(published.current()->version(), 4u);
  EXPECT_EQ(reader->at("model.bias").get().at(0), 1);
  TablePtr taken = published.withdraw();
  EXPECT_EQ(published.current(), nullptr);
  Error e = error_of([&] { published.publish(taken); });
  EXPECT_EQ(e.id(), "runtime.table_version");
  EXPECT_TRUE(contains(e.what(), "a version above 4, got 4")) << e.what();
}

}  // namespace
}  // namespace strata::runtime
