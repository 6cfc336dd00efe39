// Where the arrays of a step lie in memory, read off the compiled programs: row-major, and a
// donated array's result as its argument.
#include <gtest/gtest.h>

#include "strata/rl/placed_for_test.h"
#include "strata/testing/errors.h"

namespace strata::rl {
namespace {

struct Case {
  const char* mesh;
  testing::CpuPlugin plugin;
};

class Layouts : public ::testing::TestWithParam<Case> {};

void expect_row_major(const std::vector<pjrt::HloShape>& shapes, const std::string& what) {
  for (size_t i = 0; i < shapes.size(); ++i) {
    EXPECT_EQ(shapes[i].minor_to_major.size(), shapes[i].dims.size()) << what << " " << i;
    EXPECT_TRUE(shapes[i].row_major()) << what << " " << i;
  }
}

// Every donated argument shares its memory with one result, which lies as it does.
void expect_donated_alike(const ir::Function& f, const pjrt::OptimizedProgram& p) {
  std::map<int64_t, int64_t> result_of;
  for (const pjrt::HloAlias& a : p.aliases) result_of[a.parameter] = a.output;
  for (size_t i = 0; i < f.argument_ports().size(); ++i) {
    const ir::Port& port = f.argument_ports()[i];
    bool donated = port.attributes.find("tf.aliasing_output") != std::string::npos;
    auto found = result_of.find(static_cast<int64_t>(i));
    ASSERT_EQ(found != result_of.end(), donated) << port.name;
    if (!donated) continue;
    auto o = static_cast<size_t>(found->second);
    EXPECT_EQ(p.results[o].dims, p.parameters[i].dims) << port.name;
    EXPECT_EQ(p.results[o].minor_to_major, p.parameters[i].minor_to_major) << port.name;
    EXPECT_EQ(f.result_ports()[o].axes, port.axes) << port.name;
    if (p.parameter_shardings.empty()) continue;
    auto partitions = static_cast<int64_t>(f.mesh().size());
    size_t rank = p.parameters[i].dims.size();
    EXPECT_EQ(p.result_shardings[o].parts(partitions, rank),
              p.parameter_shardings[i].parts(partitions, rank))
        << port.name;
  }
}

TEST_P(Layouts, OfAStepAreRowMajorAndStay) {
  Placed p(GetParam().mesh);
  optim::UpdatePlan plan = p.plan();
  size_t donated = 0;
  for (const auto& f : {p.micro_step(plan, true), update_function(plan, p.mesh)}) {
    SCOPED_TRACE(f->name());
    auto program = p.compile(*f, transform::program_text(*f), GetParam().plugin)
                       ->executable()
                       .optimized_program();
    ASSERT_EQ(program.parameters.size(), f->argument_ports().size());
    EXPECT_EQ(program.parameter_shardings.empty(), p.mesh.size() == 1);
    expect_row_major(program.parameters, "argument");
    expect_row_major(program.results, "result");
    expect_donated_alike(*f, program);
    donated += program.aliases.size();
  }
  EXPECT_EQ(donated, plan.accumulator().size() + plan.parameters().size() + plan.slots().size());
}

INSTANTIATE_TEST_SUITE_P(
    Meshes, Layouts,
    ::testing::Values(Case{"", testing::CpuPlugin::newer}, Case{"", testing::CpuPlugin::older},
                      Case{"data=2,fsdp=2,tensor=2", testing::CpuPlugin::newer},
                      Case{"fsdp=2,layers=2", testing::CpuPlugin::older}));

// A step with one parameter in another order is compiled so, and refused.
TEST(Layout, OfAParameterInAnotherOrderIsRefused) {
  Placed p("");
  auto f = update_function(p.plan());
  std::string text = transform::program_text(*f);
  const std::string pin = "mhlo.layout_mode = \"default\"";
  size_t matrix = text.find("%arg0: tensor<160x64xf32>"), at = text.find(pin, matrix);
  ASSERT_NE(matrix, std::string::npos) << text.substr(0, 400);
  ASSERT_NO_THROW(p.compile(*f, text));
  text.replace(at, pin.size(), "mhlo.layout_mode = \"{0,1}\"");
  testing::expect_error(Code::internal, "runtime.slot_layout", "parameter 0",
                        [&] { p.compile(*f, text); });
}

}  // namespace
}  // namespace strata::rl
