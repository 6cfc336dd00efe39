// Every op against its reference on both CPU plug-ins, by family.
#include <gtest/gtest.h>

#include "strata/ops/op_rows.h"
#include "strata/testing/op_harness.h"

namespace strata::ops {
namespace {

using testing::CpuPlugin;

struct Family {
  const char* name;
  Rows (*rows)();
};
constexpr Family kFamilies[] = {{"control", control_rows}, {"elementwise", elementwise_rows},
                                {"index", index_rows},     {"matrix", matrix_rows},
                                {"misc", misc_rows},       {"reduce", reduce_rows},
                                {"shape", shape_rows}};

class OpValues : public ::testing::TestWithParam<std::tuple<Family, CpuPlugin>> {};

TEST_P(OpValues, EqualTheReference) {
  testing::Executor executor(std::get<1>(GetParam()));
  for (const testing::OpRow& row : std::get<0>(GetParam()).rows()) {
    testing::check_values(executor, row);
  }
}

INSTANTIATE_TEST_SUITE_P(Families, OpValues,
                         ::testing::Combine(::testing::ValuesIn(kFamilies),
                                            ::testing::Values(CpuPlugin::newer, CpuPlugin::older)),
                         [](const ::testing::TestParamInfo<OpValues::ParamType>& test) {
                           return std::string(std::get<0>(test.param).name) + "_" +
                                  std::string(testing::name_of(std::get<1>(test.param)));
                         });

TEST(OpRows, CoverEveryOp) {
  Rows all;
  for (const Family& family : kFamilies) {
    for (testing::OpRow& row : family.rows()) all.push_back(std::move(row));
  }
  testing::check_coverage(all);
}

}  // namespace
}  // namespace strata::ops
