#include "strata/sample/draw.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>
#include <map>
#include <numeric>
#include <random>
#include <set>

#include "strata/sample/programs.h"
#include "strata/sample/tiny_for_test.h"

namespace strata::sample {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();

struct Drawn {
  std::vector<int32_t> tokens;
  std::vector<float> logprobs;
  std::vector<DrawnBy> how;
};

uint32_t bits(double x) { return std::bit_cast<uint32_t>(static_cast<float>(x)); }

void write_row(std::span<uint32_t> words, const SamplingSettings& s, uint32_t request) {
  words[kRequestLow] = request;
  words[kTopK] = static_cast<uint32_t>(std::max<int64_t>(s.top_k, 0));
  words[kTemperature] = bits(s.temperature);
  words[kTopP] = bits(s.top_p);
  words[kMinP] = bits(s.min_p);
  words[kRepetition] = bits(s.repetition_penalty);
  words[kFrequency] = bits(s.frequency_penalty);
  words[kPresence] = bits(s.presence_penalty);
  words[kProcessed] = s.processed_logprobs ? 1 : 0;
}

HostTensor words_for(const std::vector<SamplingSettings>& settings, uint32_t first_request = 0) {
  HostTensor rows(DType::u32, {static_cast<int64_t>(settings.size()), kRowWords});
  for (size_t i = 0; i < settings.size(); ++i) {
    write_row(rows.data<uint32_t>().subspan(i * kRowWords, kRowWords), settings[i],
              first_request + static_cast<uint32_t>(i));
  }
  return rows;
}

// Each shape is compiled once.
std::vector<HostTensor> run_program(const DrawShape& s, std::span<const HostTensor> inputs) {
  static const testing::Executor executor;
  static std::map<std::vector<int64_t>, pjrt::Executable> programs;
  std::vector<int64_t> key{s.rows, s.vocabulary, s.edits, s.options.filters, s.options.prefix};
  auto it = programs.find(key);
  if (it == programs.end()) {
    it = programs.emplace(key, executor.compile(*draw_function(s))).first;
  }
  return executor.run(it->second, inputs);
}

Drawn run(HostTensor logits, HostTensor rows, const DrawOptions& options,
          std::optional<HostTensor> edits = std::nullopt) {
  DrawShape shape{logits.dims()[0], logits.dims()[1], edits ? edits->dims()[1] : 0, options};
  std::vector<HostTensor> inputs;
  inputs.push_back(std::move(logits));
  inputs.push_back(std::move(rows));
  if (edits) inputs.push_back(std::move(*edits));
  HostTensor out = std::move(run_program(shape, inputs)[0]);
  Drawn drawn;
  std::span<uint32_t> words = out.data<uint32_t>();
  for (size_t i = 0; i + 2 < words.size(); i += 3) {
    drawn.tokens.push_back(static_cast<int32_t>(words[i]));
    drawn.logprobs.push_back(std::bit_cast<float>(words[i + 1]));
    drawn.how.push_back(static_cast<DrawnBy>(words[i + 2]));
  }
  return drawn;
}

HostTensor repeated(const std::vector<double>& logits, int64_t rows) {
  HostTensor out(DType::f32, {rows, static_cast<int64_t>(logits.size())});
  for (int64_t i = 0; i < out.size(); ++i) {
    out.set(i, logits[static_cast<size_t>(i) % logits.size()]);
  }
  return out;
}

std::vector<double> log_softmax(const std::vector<double>& logits, double temperature) {
  double most = *std::max_element(logits.begin(), logits.end()), sum = 0;
  std::vector<double> out;
  for (double x : logits) out.push_back((x - most) / temperature);
  for (double z : out) sum += std::exp(z);
  for (double& z : out) z -= std::log(sum);
  return out;
}

// ---- Case G1 ------------------------------------------------------------------------------------

std::vector<double> numbers(const Json& list) {
  std::vector<double> out;
  for (const Json& x : list) out.push_back(x.is_string() ? -kInfinity : x.get<double>());
  return out;
}

// A case's logits with impossible tokens behind, so that all cases have one size.
std::vector<double> logits_of(const Json& row) {
  std::vector<double> out = numbers(row["logits"]);
  out.resize(8, -kInfinity);
  return out;
}

SamplingSettings settings_of(const Json& row) {
  SamplingSettings s;
  for (const auto& [name, value] : row["settings"].items()) set_field(s, name, value, "case");
  return s;
}

// 20,000 draws of each row: nothing outside the kept tokens, and their frequencies by chi-square.
TEST(Draw, FiltersKeepTheRightTokensWithTheRightFrequencies) {
  constexpr int64_t kDraws = 20'000;
  Json cases = read_json(test_data("sample/filters.json"));
  ASSERT_EQ(cases.size(), 19u);
  for (const Json& row : cases) {
    SCOPED_TRACE(row["name"].get<std::string>());
    std::vector<double> logits = logits_of(row), probs = numbers(row["probs"]);
    probs.resize(logits.size());
    SamplingSettings s = settings_of(row);
    Drawn drawn =
        run(repeated(logits, kDraws), words_for(std::vector(kDraws, s)), {.filters = true});
    std::vector<double> counts(logits.size());
    for (int32_t t : drawn.tokens) ++counts[static_cast<size_t>(t)];
    double chi_square = 0;
    int64_t kept = 0;
    for (size_t i = 0; i < probs.size(); ++i) {
      if (probs[i] == 0) {
        EXPECT_EQ(counts[i], 0) << "token " << i;
        continue;
      }
      ++kept;
      chi_square += std::pow(counts[i] - kDraws * probs[i], 2) / (kDraws * probs[i]);
    }
    // The 1 - 1e-6 quantile for up to five degrees of freedom.
    EXPECT_LT(chi_square, kept == 1 ? 1e-9 : 36.0);
    std::vector<double> want = log_softmax(logits, s.temperature > 0 ? s.temperature : 1);
    for (size_t i = 0; i < 50; ++i) {
      double expected = want[static_cast<size_t>(drawn.tokens[i])];
      EXPECT_NEAR(drawn.logprobs[i], expected, 1e-5 * std::max(1.0, std::abs(expected)));
    }
  }
}

TEST(Draw, ProcessedLogprobsAreThoseOfTheFilteredDistribution) {
  for (const Json& row : read_json(test_data("sample/filters.json"))) {
    SCOPED_TRACE(row["name"].get<std::string>());
    SamplingSettings s = settings_of(row);
    if (s.temperature == 0) continue;
    s.processed_logprobs = true;
    std::vector<double> probs = numbers(row["probs"]);
    Drawn drawn =
        run(repeated(logits_of(row), 64), words_for(std::vector(64, s)), {.filters = true});
    for (size_t i = 0; i < drawn.tokens.size(); ++i) {
      EXPECT_NEAR(drawn.logprobs[i], std::log(probs[static_cast<size_t>(drawn.tokens[i])]), 1e-5);
    }
  }
}

// ---- The prefix and all tokens  -----------------------------------------------------------------

std::vector<double> random_logits(size_t count, uint32_t seed, double spread) {
  std::mt19937 generator(seed);
  std::normal_distribution<double> normal(0, spread);
  std::vector<double> out(count);
  for (double& x : out) x = static_cast<float>(normal(generator));
  return out;
}

// The tokens that top-k, top-p and min-p keep, by the book.
std::vector<size_t> kept_tokens(const std::vector<double>& logits, const SamplingSettings& s) {
  std::vector<size_t> order(logits.size());
  std::iota(order.begin(), order.end(), 0);
  std::stable_sort(order.begin(), order.end(),
                   [&](size_t a, size_t b) { return logits[a] > logits[b]; });
  if (s.top_k > 0) order.resize(std::min<size_t>(order.size(), static_cast<size_t>(s.top_k)));
  std::vector<double> p = log_softmax(logits, s.temperature);
  double mass = 0, before = 0;
  for (size_t i : order) mass += std::exp(p[i]);
  std::vector<size_t> out;
  for (size_t i : order) {
    double mine = std::exp(p[i]);
    bool nucleus = out.empty() || s.top_p >= 1 || before < s.top_p * mass;
    if (nucleus && mine >= s.min_p * std::exp(p[order[0]])) out.push_back(i);
    before += mine;
  }
  return out;
}

struct Filter {
  const char* name;
  int64_t top_k;
  double top_p, min_p;
  DrawnBy how;
};

// Some settings end inside the prefix, some beyond; drawing 4000 times covers each kept set well.
TEST(Draw, AllTokensAreLookedAtOnlyWhereAFilterReachesFurther) {
  const Filter filters[] = {
      {"k inside", 5, 1, 0, DrawnBy::prefix},
      {"p inside", 0, 0.05, 0, DrawnBy::prefix},
      {"min_p inside", 0, 1, 0.8, DrawnBy::prefix},
      {"k beyond the prefix", 40, 1, 0, DrawnBy::whole},
      {"p beyond the prefix", 0, 0.2, 0, DrawnBy::whole},
      {"min_p cuts a nucleus", 0, 0.999, 0.2, DrawnBy::whole},
      {"k and p beyond the prefix", 40, 0.5, 0, DrawnBy::whole},
      {"k beyond", 100, 1, 0, DrawnBy::whole},
      {"p beyond", 0, 0.9, 0, DrawnBy::whole},
      {"k beyond, p inside", 100, 0.1, 0, DrawnBy::whole},
  };
  std::vector<double> logits = random_logits(300, 5, 0.7);
  constexpr int64_t kDraws = 4000;
  for (const Filter& f : filters) {
    SCOPED_TRACE(f.name);
    SamplingSettings s;
    s.top_k = f.top_k;
    s.top_p = f.top_p;
    s.min_p = f.min_p;
    Drawn drawn = run(repeated(logits, kDraws), words_for(std::vector(kDraws, s)),
                      {.filters = true, .prefix = 8});
    std::vector<size_t> kept = kept_tokens(logits, s);
    std::vector<double> counts(logits.size());
    for (int32_t t : drawn.tokens) ++counts[static_cast<size_t>(t)];
    double mass = 0, outside = 0, chi_square = 0;
    std::vector<double> p = log_softmax(logits, 1);
    for (size_t i : kept) mass += std::exp(p[i]);
    for (size_t i : kept) {
      double expected = kDraws * std::exp(p[i]) / mass;
      chi_square += std::pow(counts[i] - expected, 2) / expected;
      outside -= counts[i];
    }
    EXPECT_EQ(outside + kDraws, 0);
    auto freedom = static_cast<double>(kept.size() - 1);
    EXPECT_LT(chi_square, freedom + 6 * std::sqrt(2 * freedom) + 20);
    EXPECT_TRUE(
        std::all_of(drawn.how.begin(), drawn.how.end(), [&](DrawnBy how) { return how == f.how; }));
  }
}

// Equal logits at the limit: exactly k are kept, the lower ids; a nucleus takes as many of them as
// it needs.
TEST(Draw, TiesGoToTheLowerIds) {
  std::vector<double> logits(600, 0.0);
  for (size_t i = 0; i < 600; i += 2) logits[i] = 1.0;
  double high = std::exp(1.0), mass = 300 * high + 300;
  SamplingSettings k, p;
  k.top_k = 280;
  p.top_p = (300 * high + 100.5) / mass;
  constexpr int64_t kDraws = 20'000;
  Drawn of_k = run(repeated(logits, kDraws), words_for(std::vector(kDraws, k)), {.filters = true});
  Drawn of_p = run(repeated(logits, kDraws), words_for(std::vector(kDraws, p)), {.filters = true});
  std::set<int32_t> seen_k(of_k.tokens.begin(), of_k.tokens.end());
  std::set<int32_t> seen_p(of_p.tokens.begin(), of_p.tokens.end());
  EXPECT_EQ(seen_k.size(), 280u);
  EXPECT_EQ(*seen_k.rbegin(), 2 * 279);
  EXPECT_EQ(of_k.how[0], DrawnBy::whole);
  std::vector<int32_t> low;
  for (int32_t t : seen_p) {
    if (t % 2 == 1) low.push_back(t);
  }
  EXPECT_EQ(seen_p.size() - low.size(), 300u);
  EXPECT_EQ(low.size(), 101u);
  EXPECT_EQ(low.back(), 2 * 100 + 1);
}

// A row that needs all tokens changes nothing in a row that does not.
TEST(Draw, OtherRowsChangeNothing) {
  std::vector<double> logits = random_logits(300, 6, 1);
  SamplingSettings narrow, wide, plain, cold;
  narrow.top_k = 4;
  wide.top_p = 0.97;
  cold.temperature = 0;
  DrawOptions options{.filters = true, .prefix = 8};
  Drawn alone = run(repeated(logits, 4), words_for({narrow, plain, cold, plain}), options);
  Drawn mixed = run(repeated(logits, 4), words_for({narrow, wide, cold, plain}), options);
  for (size_t i : {0u, 2u, 3u}) {
    EXPECT_EQ(alone.tokens[i], mixed.tokens[i]);
    EXPECT_EQ(alone.logprobs[i], mixed.logprobs[i]);
  }
  EXPECT_EQ(mixed.how[0], DrawnBy::prefix);
  EXPECT_EQ(mixed.how[1], DrawnBy::whole);
  EXPECT_EQ(mixed.how[2], DrawnBy::plain);
  EXPECT_EQ(alone.how[1], DrawnBy::plain);
}

// ---- Many tokens, no filter ---------------------------------------------------------------------

// More tokens than a chunk holds, some of them impossible.
TEST(Draw, FollowsTheDistributionOverManyTokens) {
  constexpr int64_t kDraws = 40'000;
  std::vector<double> logits = random_logits(1000, 7, 2);
  for (size_t i = 0; i < logits.size(); i += 3) logits[i] = -kInfinity;
  SamplingSettings s;
  s.temperature = 0.7;
  Drawn drawn = run(repeated(logits, kDraws), words_for(std::vector(kDraws, s)), {});
  std::vector<double> counts(logits.size()), p = log_softmax(logits, 0.7);
  for (int32_t t : drawn.tokens) ++counts[static_cast<size_t>(t)];
  double chi_square = 0, freedom = -1, rest = 0, rest_expected = 0;
  for (size_t i = 0; i < logits.size(); ++i) {
    double expected = kDraws * std::exp(p[i]);
    EXPECT_TRUE(!std::isinf(logits[i]) || counts[i] == 0) << i;
    if (expected < 5) {
      rest += counts[i];
      rest_expected += expected;
      continue;
    }
    chi_square += std::pow(counts[i] - expected, 2) / expected;
    ++freedom;
  }
  chi_square += std::pow(rest - rest_expected, 2) / rest_expected;
  EXPECT_GT(freedom, 100);
  EXPECT_LT(chi_square, freedom + 6 * std::sqrt(2 * freedom));
}

TEST(Draw, EveryPartOfTheKeyMatters) {
  std::vector<double> logits(4096, 0.0);
  SamplingSettings s;
  HostTensor rows = words_for(std::vector(7, s));
  std::span<uint32_t> words = rows.data<uint32_t>();
  for (size_t r = 0; r < 7; ++r) words[r * kRowWords + kRequestLow] = 11;
  const int64_t changed[] = {kSeedLow, kSeedHigh, kRequestLow, kRequestHigh, kSample, kPosition};
  for (size_t r = 0; r < 6; ++r) words[r * kRowWords + static_cast<size_t>(changed[r])] += 1;
  Drawn drawn = run(repeated(logits, 7), std::move(rows), {});
  std::sort(drawn.tokens.begin(), drawn.tokens.end());
  EXPECT_EQ(std::unique(drawn.tokens.begin(), drawn.tokens.end()), drawn.tokens.end());
}

// ---- Edits and bad logits -----------------------------------------------------------------------

HostTensor edits_of(const std::vector<std::pair<int32_t, int32_t>>& pairs, int64_t width) {
  HostTensor out(DType::i32, {1, width, 2});
  std::span<int32_t> e = out.data<int32_t>();
  for (size_t i = 0; i < e.size(); i += 2) e[i] = std::numeric_limits<int32_t>::max();
  for (size_t i = 0; i < pairs.size(); ++i) {
    e[2 * i] = pairs[i].first;
    e[2 * i + 1] = pairs[i].second;
  }
  return out;
}

TEST(Draw, PenaltiesChangeTheLogitsByTheBook) {
  std::vector<double> logits{2.0, -1.0, 1.0, 0.5, -3.0};
  SamplingSettings s;
  s.repetition_penalty = 1.5;
  s.frequency_penalty = 0.25;
  s.presence_penalty = 0.5;
  s.processed_logprobs = true;
  s.temperature = 0.8;
  // Token 0 was in the prompt, 1 was generated once, 2 twice, 4 is banned.
  std::vector<std::pair<int32_t, int32_t>> edits{{0, kEditSeen},
                                                 {1, kEditSeen + kEditCount},
                                                 {2, kEditSeen + 2 * kEditCount},
                                                 {4, kEditBanned}};
  std::vector<double> want{2.0 / 1.5, -1.0 * 1.5 - 0.25 - 0.5, 1.0 / 1.5 - 0.5 - 0.5, 0.5,
                           -kInfinity};
  std::vector<double> after = log_softmax(want, 0.8), before = log_softmax(logits, 0.8);
  for (uint32_t request = 0; request < 40; ++request) {
    for (bool processed : {true, false}) {
      s.processed_logprobs = processed;
      Drawn drawn = run(repeated(logits, 1), words_for({s}, request), {}, edits_of(edits, 8));
      auto token = static_cast<size_t>(drawn.tokens[0]);
      ASSERT_NE(token, 4u);
      EXPECT_NEAR(drawn.logprobs[0], processed ? after[token] : before[token], 1e-5);
    }
    if (request >= 4) request += 8;
  }
  s.temperature = 0;
  EXPECT_EQ(run(repeated(logits, 1), words_for({s}), {}, edits_of({{0, kEditBanned}}, 8)).tokens[0],
            2);
}

TEST(Draw, NaNLogitsShowInTheirOwnRowOnly) {
  double nan = std::numeric_limits<double>::quiet_NaN();
  HostTensor logits(DType::f32, {5, 4});
  for (int64_t i = 0; i < logits.size(); ++i) logits.set(i, static_cast<double>(i % 4));
  logits.set(6, nan);
  logits.set(11, kInfinity);
  for (int64_t i = 16; i < 20; ++i) logits.set(i, -kInfinity);
  SamplingSettings s, greedy, filtered;
  greedy.temperature = 0;
  filtered.top_k = 2;
  filtered.processed_logprobs = true;
  for (const SamplingSettings& each : {s, greedy, filtered}) {
    Drawn drawn = run(logits.clone(), words_for(std::vector(5, each)), {.filters = true});
    for (size_t i : {0u, 3u}) EXPECT_FALSE(std::isnan(drawn.logprobs[i]));
    for (size_t i : {1u, 2u, 4u}) EXPECT_TRUE(std::isnan(drawn.logprobs[i])) << i;
    EXPECT_LT(drawn.tokens[1], 4);
  }
  std::vector<double> plain{0.0, 1.0};
  Drawn banned = run(repeated(plain, 1), words_for({s}), {},
                     edits_of({{0, kEditBanned}, {1, kEditBanned}}, 2));
  EXPECT_TRUE(std::isnan(banned.logprobs[0]));
}

}  // namespace
}  // namespace strata::sample
