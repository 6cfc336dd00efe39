// Every op on two parts of a batch, over two devices: each half is what the op gives for it alone.
#include <gtest/gtest.h>

#include <set>

#include "strata/base/error.h"
#include "strata/ops/misc.h"
#include "strata/ops/op_rows.h"
#include "strata/ops/parts.h"
#include "strata/ops/shape.h"
#include "strata/testing/op_harness.h"
#include "strata/testing/random.h"
#include "strata/testing/tolerances.h"

namespace strata::ops {
namespace {

using ir::Value;
using ir::Values;
using testing::Array;
using testing::Arrays;
using testing::OpRow;
using Tensors = std::vector<HostTensor>;

constexpr int64_t kParts = 2;

const testing::Executor& two_devices() {
  static const testing::Executor executor(testing::CpuPlugin::newer, kParts);
  return executor;
}

Dims with_parts(Dims dims, int64_t parts) {
  dims.insert(dims.begin(), parts);
  return dims;
}

Value without_first(const Value& v) {
  return reshape(v, Dims(v.dims().begin() + 1, v.dims().end()));
}

DimAxes on_data(int64_t rank) {
  DimAxes axes(static_cast<size_t>(rank));
  axes[0] = {"data"};
  return axes;
}

// The row's inputs with a first dim of two, of which each part sees one.
std::unique_ptr<ir::Function> program(const OpRow& row) {
  auto f = std::make_unique<ir::Function>("parts");
  f->set_mesh(sharding::Mesh::parse("data=2"));
  Values inputs;
  std::vector<DimAxes> in, out;
  for (const testing::RowInput& x : row.inputs) {
    inputs.push_back(f->parameter({x.dtype, with_parts(x.dims, kParts)}));
    in.push_back(on_data(inputs.back().rank()));
  }
  // Ranks of the results, which on_parts asks for beforehand.
  ir::Function scratch;
  Values alone;
  for (const testing::RowInput& x : row.inputs)
    alone.push_back(scratch.parameter({x.dtype, x.dims}));
  for (const Value& v : row.build(scratch, alone)) out.push_back(on_data(v.rank() + 1));
  f->set_results(on_parts(*f, inputs, in, out, {"data"}, [&](const Values& parts) {
    Values mine;
    for (const Value& v : parts) mine.push_back(without_first(v));
    Values results = row.build(*f, mine);
    for (Value& v : results) v = reshape(v, with_parts(v.dims(), 1));
    return results;
  }));
  return f;
}

Tensors draw(const OpRow& row) {
  testing::Random random(testing::test_seed());
  Tensors out;
  for (const testing::RowInput& x : row.inputs) {
    out.push_back(random.tensor(x.dtype, with_parts(x.dims, kParts), x.low, x.high));
    auto one = static_cast<int64_t>(element_count(x.dims));
    for (int64_t i = 0; i < static_cast<int64_t>(x.values.size()); ++i) {
      for (int64_t p = 0; p < kParts; ++p)
        out.back().set(p * one + i, x.values[static_cast<size_t>(i)]);
    }
  }
  return out;
}

Array half(const HostTensor& t, int64_t part) {
  Array a = testing::array(Dims(t.dims().begin() + 1, t.dims().end()));
  for (int64_t i = 0; i < a.size(); ++i) a[i] = t.at(part * a.size() + i);
  return a;
}

Tensors run(const ir::Function& f, const Tensors& inputs) {
  const auto& client = two_devices().client();
  auto compiled = pjrt::Executable::compile(client, testing::program_text(f),
                                            {.num_partitions = static_cast<int>(kParts)});
  std::vector<pjrt::Buffer> buffers;
  for (const pjrt::Device& d : client->devices()) {
    for (const HostTensor& t : inputs) {
      std::span<const std::byte> bytes(t.bytes(), t.byte_size());
      buffers.push_back(pjrt::Buffer::from_host(client, d, t.dtype(), t.dims(), bytes).buffer);
    }
  }
  std::vector<const pjrt::Buffer*> arguments;
  for (const pjrt::Buffer& b : buffers) arguments.push_back(&b);
  pjrt::Execution done = compiled.execute(arguments);
  Tensors results;
  for (size_t i = 0; i < done.outputs.size() / kParts; ++i) {
    HostTensor t(done.outputs[i].dtype(), done.outputs[i].dims());
    done.outputs[i].to_host({t.bytes(), t.byte_size()}).wait();
    results.push_back(std::move(t));
  }
  return results;
}

void check(const OpRow& row) {
  SCOPED_TRACE(testing::label(row));
  Tensors inputs = draw(row), got = run(*program(row), inputs);
  for (int64_t part = 0; part < kParts; ++part) {
    Arrays mine;
    for (const HostTensor& t : inputs) mine.push_back(half(t, part));
    Arrays want = row.reference(mine);
    ASSERT_EQ(got.size(), want.size());
    for (size_t r = 0; r < want.size(); ++r) {
      testing::Tolerance t = testing::value_tolerance(got[r].dtype());
      t = {t.relative * row.tolerance_scale, t.absolute * row.tolerance_scale};
      Array values = half(got[r], part);
      ASSERT_EQ(values.dims, want[r].dims);
      for (int64_t i = 0; i < values.size(); ++i) {
        ASSERT_TRUE(testing::near(values[i], want[r][i], t))
            << "part " << part << ", result " << r << ", element " << i << ": " << values[i]
            << ", reference " << want[r][i];
      }
    }
  }
}

TEST(OpParts, EachPartIsWhatTheOpGivesForIt) {
  std::set<std::string> refused;
  int checked = 0;
  for (auto rows : {control_rows, elementwise_rows, index_rows, matrix_rows, misc_rows, reduce_rows,
                    shape_rows}) {
    for (const OpRow& row : rows()) {
      // Other meshes are those rows' own; numbers of every float type test other ops' tables.
      if (!row.module_header.empty() || row.inputs.empty()) continue;
      try {
        check(row);
        ++checked;
      } catch (const Error& e) {
        ASSERT_EQ(e.id(), "ops.on_parts_op") << testing::label(row) << ": " << e.what();
        ASSERT_EQ(e.code(), Code::unimplemented);
        refused.insert(std::string(row.op->name));
      }
    }
  }
  EXPECT_GT(checked, 100);
  // What a part would decide by itself (which branch, how many steps, where a window starts) has no
  // form for all parts at once; grouped products loop over as many blocks as their groups need.
  EXPECT_EQ(refused, (std::set<std::string>{"custom_call", "dynamic_slice", "dynamic_update_slice",
                                            "grouped_dot", "grouped_outer", "if", "pad", "while"}));
}

}  // namespace
}  // namespace strata::ops
