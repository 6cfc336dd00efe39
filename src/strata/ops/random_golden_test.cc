// random.h against the values of jax.random that tools/make_random_golden.py wrote.
#include <gtest/gtest.h>

#include <charconv>
#include <cstring>
#include <set>

#include "strata/base/json.h"
#include "strata/ops/random.h"
#include "strata/testing/executor.h"

namespace strata::ops {
namespace {

using ir::Function;
using ir::Value;
using ir::Values;
using testing::CpuPlugin;

constexpr uint64_t kSeed = 42;  // of the golden's key

Json golden() { return read_json(STRATA_SOURCE_DIR "/tests/testdata/ops/random.json"); }

class RandomGolden : public ::testing::TestWithParam<CpuPlugin> {
 protected:
  // The elements of every result, as bits.
  std::vector<std::vector<uint64_t>> run(const testing::Build& build,
                                         const std::vector<HostTensor>& inputs = {}) {
    auto f = testing::trace(testing::types_of(inputs), build);
    std::vector<std::vector<uint64_t>> out;
    for (const HostTensor& t : executor_.run(*f, inputs)) {
      std::vector<uint64_t>& bits = out.emplace_back(static_cast<size_t>(t.size()));
      size_t size = size_of(t.dtype());
      for (size_t i = 0; i < bits.size(); ++i) {
        std::memcpy(&bits[i], t.bytes() + i * size, size);
      }
    }
    return out;
  }

 private:
  testing::Executor executor_{GetParam()};
};

std::vector<uint64_t> hexadecimal(const Json& texts) {
  std::vector<uint64_t> out;
  for (const Json& entry : texts) {
    auto text = entry.get<std::string>();
    uint64_t bits = 0;
    std::from_chars(text.data(), text.data() + text.size(), bits, 16);
    out.push_back(bits);
  }
  return out;
}

std::vector<uint64_t> decimal(const Json& texts) {
  std::vector<uint64_t> out;
  for (const Json& text : texts) out.push_back(std::stoull(text.get<std::string>()));
  return out;
}

using Words = std::vector<uint64_t>;

TEST_P(RandomGolden, KeysFoldInAndSplit) {
  Json want = golden();
  auto got = run([&](Function& f, const Values&) -> Values {
    Values out;
    for (const Json& row : want.at("keys")) {
      out.push_back(key(f, std::stoull(row.at("seed").get<std::string>())));
    }
    for (const Json& row : want.at("fold_in")) {
      out.push_back(fold_in(key(f, kSeed), row.at("data").get<uint32_t>()));
    }
    for (const Json& row : want.at("split")) {
      out.push_back(split(key(f, kSeed), row.at("count").get<int64_t>()));
    }
    return out;
  });
  size_t at = 0;
  for (const Json& row : want.at("keys")) EXPECT_EQ(got[at++], row.at("key").get<Words>()) << row;
  for (const Json& row : want.at("fold_in")) {
    EXPECT_EQ(got[at++], row.at("key").get<Words>()) << row;
  }
  for (const Json& row : want.at("split")) EXPECT_EQ(got[at++], row.at("keys").get<Words>()) << row;
}

TEST_P(RandomGolden, FoldInTakesAnyInteger) {
  std::vector<HostTensor> steps;
  steps.push_back(HostTensor::scalar<int32_t>(7));
  steps.push_back(HostTensor::scalar<int64_t>(7));
  auto got = run(
      [](Function& f, const Values& v) -> Values {
        return {fold_in(key(f, kSeed), v[0]), fold_in(key(f, kSeed), v[1])};
      },
      steps);
  Words want = golden().at("fold_in")[2].at("key").get<Words>();
  EXPECT_EQ(got[0], want);
  EXPECT_EQ(got[1], want);
}

TEST_P(RandomGolden, Bits) {
  Json want = golden().at("bits");
  auto got = run([&](Function& f, const Values&) -> Values {
    Values out;
    for (const Json& row : want) {
      DType dtype = parse_dtype(row.at("dtype").get<std::string>());
      out.push_back(random_bits(key(f, kSeed), dtype, row.at("dims").get<Dims>()));
    }
    return out;
  });
  for (size_t i = 0; i < got.size(); ++i) EXPECT_EQ(got[i], decimal(want[i].at("bits"))) << want[i];
}

TEST_P(RandomGolden, UniformToTheBit) {
  Json want = golden().at("uniform");
  auto got = run([&](Function& f, const Values&) -> Values {
    Values out;
    for (const Json& row : want) {
      DType dtype = parse_dtype(row.at("dtype").get<std::string>());
      out.push_back(uniform(key(f, kSeed), dtype, {3, 5}, row.at("low"), row.at("high")));
    }
    return out;
  });
  for (size_t i = 0; i < got.size(); ++i) {
    EXPECT_EQ(got[i], hexadecimal(want[i].at("bits"))) << want[i];
  }
}

// Same sign, and at most `ulps` steps of the type's grid apart.
bool close(uint64_t a, uint64_t b, uint64_t ulps) { return (a > b ? a - b : b - a) <= ulps; }

// Logarithm and inverse error function may differ by an ulp between builds of the compiler. In f64
// the older plug-in's inverse error function is another, shorter polynomial.
uint64_t allowed_ulps(CpuPlugin plugin, const std::string& dtype) {
  return plugin == CpuPlugin::older && dtype == "f64" ? 32 : 2;
}

TEST_P(RandomGolden, NormalAndGumbelToTwoUlps) {
  for (const char* name : {"normal", "gumbel"}) {
    Json want = golden().at(name);
    bool is_normal = std::string(name) == "normal";
    auto got = run([&](Function& f, const Values&) -> Values {
      Values out;
      for (const Json& row : want) {
        DType dtype = parse_dtype(row.at("dtype").get<std::string>());
        Value k = key(f, kSeed);
        out.push_back(is_normal ? normal(k, dtype, {3, 5}) : gumbel(k, dtype, {3, 5}));
      }
      return out;
    });
    for (size_t i = 0; i < got.size(); ++i) {
      Words bits = hexadecimal(want[i].at("bits"));
      uint64_t ulps = allowed_ulps(GetParam(), want[i].at("dtype").get<std::string>());
      ASSERT_EQ(got[i].size(), bits.size());
      for (size_t e = 0; e < bits.size(); ++e) {
        EXPECT_TRUE(close(got[i][e], bits[e], ulps))
            << name << " " << want[i].at("dtype") << ", element " << e << ": got " << std::hex
            << got[i][e] << ", jax " << bits[e];
      }
    }
  }
}

TEST_P(RandomGolden, CategoricalAndBernoulli) {
  Json want = golden();
  const Json& c = want.at("categorical");
  Words bits = hexadecimal(c.at("logits"));
  std::vector<uint32_t> words(bits.begin(), bits.end());
  HostTensor logits(DType::f32, c.at("dims").get<Dims>());
  std::memcpy(logits.bytes(), words.data(), logits.byte_size());
  const Json& b = want.at("bernoulli");
  std::vector<HostTensor> inputs;
  inputs.push_back(std::move(logits));
  inputs.emplace_back(DType::f32, b.at("dims").get<Dims>());
  for (int64_t i = 0; i < inputs[1].size(); ++i) inputs[1].set(i, b.at("p"));
  auto got = run(
      [](Function& f, const Values& v) -> Values {
        Value k = key(f, kSeed);
        return {categorical(k, v[0]), categorical(k, v[0], 0), bernoulli(k, v[1])};
      },
      inputs);
  EXPECT_EQ(got[0], c.at("rows").get<Words>());
  EXPECT_EQ(got[1], c.at("columns").get<Words>());
  EXPECT_EQ(got[2], b.at("draws").get<Words>());
}

// Beyond 2^32 elements the counters have upper words; only the types are cheap to check.
TEST(Random, CountsBeyond32Bits) {
  Function f;
  Value bits = random_bits(key(f, 1), DType::u8, {int64_t{1} << 20, int64_t{1} << 13});
  EXPECT_EQ(bits.dims(), (Dims{1 << 20, 1 << 13}));
  std::set<std::string> types;
  Values results{bits};
  for (const ir::Node* n : ir::post_order(results, nullptr)) types.insert(ir::text(n->results[0]));
  EXPECT_TRUE(types.contains("1048576x8192xu64"));
}

INSTANTIATE_TEST_SUITE_P(Plugins, RandomGolden,
                         ::testing::Values(CpuPlugin::newer, CpuPlugin::older),
                         [](const ::testing::TestParamInfo<CpuPlugin>& test) {
                           return std::string(testing::name_of(test.param));
                         });

}  // namespace
}  // namespace strata::ops
