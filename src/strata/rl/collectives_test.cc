// What devices exchange in a step, read off the compiled programs: which kinds of collectives, how
// many of them, how many bytes.
#include <gtest/gtest.h>

#include <map>

#include "strata/optim/lion.h"
#include "strata/optim/muon.h"
#include "strata/optim/sgd.h"
#include "strata/optim/zero.h"
#include "strata/rl/placed_for_test.h"
#include "strata/sample/programs.h"

namespace strata::rl {
namespace {

// A float and a flag more or less are no array: the largest that counts as a number of numbers.
constexpr int64_t kNumbers = 64;

struct Sum {
  int64_t count = 0;
  int64_t bytes = 0;  // of the results on one device

  friend bool operator==(const Sum&, const Sum&) = default;
};
using Sums = std::map<std::string, Sum>;

std::ostream& operator<<(std::ostream& out, const Sum& s) {
  return out << s.count << " of " << s.bytes << " bytes";
}

// Collectives of arrays by kind.
Sums arrays(const std::vector<pjrt::Collective>& all) {
  Sums sums;
  for (const pjrt::Collective& c : all) {
    if (c.bytes <= kNumbers) continue;
    sums[c.kind].count += 1;
    sums[c.kind].bytes += c.bytes;
  }
  return sums;
}

class DataParallel : public ::testing::TestWithParam<const char*> {};

// Micro-steps sum numbers only; the update sums every gradient once.
TEST_P(DataParallel, SumsArraysOnceAStep) {
  Placed p(GetParam());
  optim::UpdatePlan plan = p.plan();
  EXPECT_EQ(plan.parts(), p.mesh.size());
  EXPECT_EQ(arrays(p.compiled(*p.micro_step(plan, false))), Sums{});
  EXPECT_EQ(arrays(p.compiled(*p.micro_step(plan, true))), Sums{});
  Sums update = arrays(p.compiled(*update_function(plan, p.mesh)));
  ASSERT_EQ(update.size(), 1u);
  // XLA joins the sums of all parameters in one exchange.
  EXPECT_EQ(update["all-reduce"].count, 1);
  EXPECT_EQ(update["all-reduce"].bytes, p.parameter_bytes());
}

INSTANTIATE_TEST_SUITE_P(Meshes, DataParallel, ::testing::Values("data=2", "data=4"),
                         [](const auto& row) {
                           return "data_" + std::string(row.param).substr(5);
                         });

// The same look at sums that are not deferred finds them in every micro-step, and none later.
TEST(Collectives, WithoutDeferringEveryMicroStepSumsArrays) {
  Placed p("data=2");
  optim::UpdatePlan plan = p.whole_plan();
  Sums micro = arrays(p.compiled(*p.micro_step(plan, true)));
  EXPECT_GE(micro["all-reduce"].bytes, p.parameter_bytes() / 4);  // a loop's once for four layers
  EXPECT_EQ(arrays(p.compiled(*update_function(plan, p.mesh))), Sums{});
}

// The deferred sum of ZeRO goes to where the optimiser's state is; the parameters are gathered.
TEST(Collectives, ZeroSumsOnceAndGathersOnce) {
  Placed p("data=2");
  optim::ZeroPlan zero = optim::zero1(p.whole_plan(), {"data"}, p.mesh);
  optim::UpdatePlan plan = deferred(zero.plan, p.structure.placement(), p.shape);
  EXPECT_EQ(arrays(p.compiled(*p.micro_step(plan, true))), Sums{});
  Sums update = arrays(p.compiled(*update_function(plan, p.mesh)));
  EXPECT_LE(update["all-reduce"].bytes + update["reduce-scatter"].bytes,
            p.parameter_bytes() + kNumbers);
  EXPECT_EQ(update["all-gather"].bytes, p.parameter_bytes());
  EXPECT_EQ(update.count("all-to-all") + update.count("collective-permute"), 0u);
}

// What a micro-step may exchange on each mesh. Of a loop's body each collective counts once.
//   data    nothing
//   fsdp    a gather of each layer's nine weights for the forward and again for the reverse sweep,
//           one of the embedding, the head and the last norm; a sum of each gradient
//   tensor  sums of activations behind the attention, the feed-forward and the embedding and of
//           their cotangents, and of the logits' norms
//   layers  a sum of one layer's weights (zeros but for the owner's) in each sweep
struct Expected {
  const char* mesh;
  Sums sums;
};

class Exchanges : public ::testing::TestWithParam<Expected> {};

TEST_P(Exchanges, AreThoseOfTheMeshAndNoOthers) {
  Placed p(GetParam().mesh);
  EXPECT_EQ(arrays(p.compiled(*p.micro_step(p.plan(), true))), GetParam().sums);
}

INSTANTIATE_TEST_SUITE_P(
    Meshes, Exchanges,
    ::testing::Values(
        Expected{"fsdp=2", {{"all-gather", {21, 427264}}, {"all-reduce", {4, 255020}}}},
        Expected{"tensor=2", {{"all-reduce", {8, 222596}}}},
        Expected{"layers=2", {{"all-reduce", {2, 345600}}}},
        Expected{"fsdp=2,tensor=2", {{"all-gather", {21, 214272}}, {"all-reduce", {12, 239452}}}},
        Expected{"data=2,fsdp=2,tensor=2",
                 {{"all-gather", {21, 214272}}, {"all-reduce", {12, 183868}}}},
        Expected{"fsdp=2,tensor=2,layers=2",
                 {{"all-gather", {21, 214272}}, {"all-reduce", {14, 326492}}}},
        // The partitioner moves the embedding table where an axis that splits no activation comes
        // first in the mesh.
        Expected{"layers=2,fsdp=2,tensor=2",
                 {{"all-gather", {21, 214272}},
                  {"all-reduce", {16, 326472}},
                  {"collective-permute", {4, 24960}}}}),
    [](const auto& row) {
      std::string name = row.param.mesh;
      for (char& c : name) {
        if (!std::isalnum(static_cast<unsigned char>(c))) c = '_';
      }
      return name;
    });

// The program's text with no word of how activations and weights lie inside.
std::string without_constraints(const std::string& text) {
  const std::string constraint = "\"sdy.sharding_constraint\"", end = ">}";
  std::string out;
  size_t at = 0;
  for (size_t next; (next = text.find(constraint, at)) != std::string::npos;) {
    size_t attribute = text.find(" {sharding = ", next);
    out += text.substr(at, next - at) + "\"stablehlo.convert\"";  // to the same type
    next += constraint.size();
    out += text.substr(next, attribute - next);
    at = text.find(end, attribute) + end.size();
  }
  return out + text.substr(at);
}

// Left to itself the partitioner exchanges more, so the lists above are the constraints' doing.
TEST(Collectives, WithoutConstraintsAreOthers) {
  for (const char* mesh : {"fsdp=2", "fsdp=2,tensor=2", "data=2,fsdp=2,tensor=2"}) {
    Placed p(mesh);
    auto f = p.micro_step(p.plan(), true);
    const std::string text = transform::program_text(*f), bare = without_constraints(text);
    ASSERT_EQ(bare.find("sharding_constraint"), std::string::npos);
    auto exchanged = [&](const std::string& program) {
      return arrays(p.compile(*f, program)->executable().optimized_program().collectives());
    };
    Sums with = exchanged(text), without = exchanged(bare);
    EXPECT_NE(with, without) << mesh;
    auto count = [](const Sums& sums) {
      int64_t n = 0;
      for (const auto& row : sums) n += row.second.count;
      return n;
    };
    EXPECT_LT(count(with), count(without)) << mesh;
  }
}

// Whatever the mesh, an elementwise update sums numbers alone (the norm), and the gradients once
// where their sum was put off.
TEST(Collectives, ElementwiseUpdatesSumTheNorm) {
  const auto optimizers = {optim::make_adamw(), optim::make_lion(),
                           optim::make_sgd({.momentum = 0.9})};
  for (const char* mesh : {"fsdp=2", "tensor=2", "fsdp=2,tensor=2", "data=2,fsdp=2,tensor=2",
                           "layers=2,fsdp=2,tensor=2"}) {
    Placed p(mesh);
    for (const auto& optimizer : optimizers) {
      SCOPED_TRACE(std::string(mesh) + " " + std::string(optimizer->name()));
      optim::UpdatePlan plan = deferred(p.whole_plan(optimizer), p.structure.placement(), p.shape);
      std::vector<pjrt::Collective> all = p.compiled(*update_function(plan, p.mesh));
      ASSERT_FALSE(all.empty());
      int64_t bytes = 0;
      for (const pjrt::Collective& c : all) {
        EXPECT_EQ(c.kind, "all-reduce");
        if (c.bytes > kNumbers) bytes += c.bytes;
      }
      int64_t sums = plan.parts() > 0 ? p.parameter_bytes() : 0;
      EXPECT_GE(bytes, sums);
      EXPECT_LE(bytes, sums > 0 ? sums + kNumbers : 0);
    }
  }
  // The same look at an update that couples elements finds arrays.
  Placed p("fsdp=2,tensor=2");
  EXPECT_NE(arrays(p.compiled(*update_function(p.whole_plan(optim::make_muon()), p.mesh))), Sums{});
}

// Decoding fetches each layer once, and moves nothing else.
TEST(Collectives, DecodingFetchesSharedLayers) {
  Placed p("layers=2");
  const sample::ModelView view{p.model.get(), &p.structure};
  int64_t layers = 0;
  for (const sharding::Slot& s : p.structure.manifest().slots()) {
    if (s.type.dims[0].role == sharding::Role::layer) layers += s.type.bytes();
  }
  for (const auto& f : {sample::prefill_function(view, {.tokens = 12, .room = 12}),
                        sample::decode_function(view, {.rows = 2, .length = 16})}) {
    Sums sums = arrays(p.compiled(*f));
    EXPECT_EQ(sums.size(), 1u) << f->name();
    EXPECT_EQ(sums["all-reduce"].count, 4) << f->name();
    EXPECT_LE(sums["all-reduce"].bytes, layers)
        << f->name();  // a prefill needs no last hidden state
  }
}

// A device that has half of the layers fetches the others one at a time: beside its share of the
// parameters it needs no more than a device that has all of them.
TEST(Collectives, LayersThatAreSharedOutComeOneAtATime) {
  auto temporaries = [](const char* mesh) {
    Placed p(mesh);
    auto f = p.micro_step(p.plan(), true);
    return p.compile(*f, transform::program_text(*f))
        ->executable()
        .memory_stats()
        .value->temporaries;
  };
  EXPECT_LE(temporaries("layers=2"), temporaries(""));
}

}  // namespace
}  // namespace strata::rl
