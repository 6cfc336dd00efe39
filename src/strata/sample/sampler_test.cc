#include "strata/sample/sampler.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <set>

#include "strata/sample/directory_for_test.h"
#include "strata/sample/generation_config.h"
#include "strata/sample/tiny_for_test.h"
#include "strata/testing/errors.h"

namespace strata::sample {
namespace {

using testing::expect_error;

// The model of case G2 and its programs, made once.
const TinyModel& dense() {
  static const TinyModel kTiny(test_data("sample/dense"));
  return kTiny;
}

struct Greedy {
  std::string name;
  std::vector<int32_t> prompt, output;
};

std::vector<Greedy> greedy_cases() {
  std::vector<Greedy> out;
  for (const Json& c : read_json(test_data("sample/dense.json"))) {
    out.push_back({c["name"], c["prompt"].get<std::vector<int32_t>>(),
                   c["output"].get<std::vector<int32_t>>()});
  }
  out.resize(3);
  return out;
}

std::vector<Result> run(Sampler& sampler, std::vector<Request> requests) {
  return generate(sampler, std::move(requests), dense().parameters);
}

Request random_request(std::string id, std::vector<int32_t> tokens, int64_t count = 12) {
  Request r = greedy(std::move(id), std::move(tokens), count);
  r.settings.temperature = 0.8;
  return r;
}

// Stopped between two prompts or two tokens, nothing is left and the same call answers as ever.
TEST(Sampler, InterruptedAnywhereItCanBeAskedAgain) {
  auto requests = [] {
    std::vector<Request> out;
    for (int i = 0; i < 3; ++i) out.push_back(random_request(std::to_string(i), {i + 1, 7, 9}, 5));
    return out;
  };
  Sampler sampler(dense().setup({.rows = {4}, .seed = 3}));
  const std::vector<Result> want = run(sampler, requests());
  for (int stop_at : {1, 2, 4, 7}) {  // three prompts, then a token each time
    const int64_t before = sampler.counters().prefills;
    int asked = 0;
    auto interrupted = [&] { return ++asked >= stop_at; };
    EXPECT_TRUE(generate(sampler, requests(), dense().parameters, interrupted).empty());
    EXPECT_EQ(sampler.counters().prefills - before, std::min(stop_at - 1, 3));
    EXPECT_EQ(sampler.pending(), 0);
    const std::vector<Result> got = run(sampler, requests());
    ASSERT_EQ(got.size(), want.size());
    for (size_t i = 0; i < want.size(); ++i) EXPECT_EQ(got[i].tokens, want[i].tokens);
  }
}

// ---- Case G2: the rest of the batch does not matter ---------------------------------------------

TEST(Sampler, GreedyTokensAloneBatchedReorderedAndRepeated) {
  std::vector<Greedy> cases = greedy_cases();
  Sampler alone(dense().setup({.rows = {1}})), batched(dense().setup({.rows = {4}}));
  std::vector<std::vector<float>> logprobs;
  for (const Greedy& c : cases) {
    Result r = run(alone, {greedy(c.name, c.prompt, 24)})[0];
    EXPECT_EQ(r.tokens, c.output);
    logprobs.push_back(r.logprobs);
  }
  for (std::vector<size_t> order : {std::vector<size_t>{0, 1, 2}, {2, 0, 1}, {1, 1, 1, 1, 1}}) {
    std::vector<Request> requests;
    for (size_t i : order) {
      const Greedy& c = cases[i];
      requests.push_back(greedy(std::to_string(requests.size()), c.prompt, 24));
    }
    std::vector<Result> results = run(batched, std::move(requests));
    ASSERT_EQ(results.size(), order.size());
    for (size_t k = 0; k < order.size(); ++k) {
      EXPECT_EQ(results[k].tokens, cases[order[k]].output);
      for (size_t t = 0; t < 24; ++t) {
        EXPECT_NEAR(results[k].logprobs[t], logprobs[order[k]][t], 1e-5);
      }
    }
  }
}

TEST(Sampler, ASampleIsTheSameBitForBitWhateverRunsBesideIt) {
  Sampler sampler(dense().setup({.rows = {4}}));
  Request mine = random_request("mine", {17});
  mine.settings.seed = 42;
  Result alone = run(sampler, {mine})[0];
  std::vector<Request> crowd;
  for (int i = 0; i < 7; ++i) {
    crowd.push_back(random_request("other " + std::to_string(i), {3, 5, 7 + i}, 5 + i));
    if (i % 2 == 0) crowd.back().settings.seed = static_cast<uint64_t>(i);
  }
  for (size_t place : {0u, 3u, 6u}) {
    std::vector<Request> requests = crowd;
    requests.insert(requests.begin() + static_cast<ptrdiff_t>(place), mine);
    Result crowded = run(sampler, std::move(requests))[place];
    EXPECT_EQ(crowded.tokens, alone.tokens);
    EXPECT_EQ(crowded.logprobs, alone.logprobs);
  }
}

// Also when their prompts have the same length and come together.
TEST(Sampler, PromptsThatComeTogetherAreTheSameBitForBit) {
  std::vector<Request> requests;
  for (int i = 0; i < 9; ++i) {
    requests.push_back(random_request(std::to_string(i), {}, 6));
    for (int k = 0; k < 30; ++k) requests.back().tokens.push_back((i * 31 + k * 7) % 64);
    requests.back().settings.seed = 3;
  }
  Sampler sampler(dense().setup({.rows = {16}}));
  std::vector<Result> together = run(sampler, requests);
  for (size_t i = 0; i < requests.size(); ++i) {
    Result alone = run(sampler, {requests[i]})[0];
    EXPECT_EQ(together[i].tokens, alone.tokens);
    EXPECT_EQ(together[i].logprobs, alone.logprobs);
  }
}

TEST(Sampler, PromptsArePaddedByAThirdAtMost) {
  EXPECT_EQ(RowDecoder::room_for(1), 16);
  EXPECT_EQ(RowDecoder::room_for(39), 40);
  EXPECT_EQ(RowDecoder::room_for(512), 512);
  EXPECT_EQ(RowDecoder::room_for(513), 1024);
  EXPECT_EQ(RowDecoder::room_for(1025), 1536);
  for (int64_t n = 16; n < 5000; ++n) {
    int64_t room = RowDecoder::room_for(n);
    EXPECT_GE(room, n);
    if (room <= RowDecoder::kPiece) {
      EXPECT_LT(room, n * 4 / 3 + 2);
    } else {
      EXPECT_EQ(room % RowDecoder::kPiece, 0);
    }
  }
}

TEST(Sampler, SeedsAndSamples) {
  std::vector<int32_t> prompt{3, 5, 7};
  auto tokens_of = [](const std::vector<Result>& results) {
    std::vector<std::vector<int32_t>> out;
    for (const Result& r : results) out.push_back(r.tokens);
    return out;
  };
  Sampler sampler(dense().setup({.rows = {4}}));
  // Four requests of one prompt without seeds: not all equal.
  std::vector<Request> copies;
  for (int i = 0; i < 4; ++i) copies.push_back(random_request(std::to_string(i), prompt));
  auto unseeded = tokens_of(run(sampler, copies));
  EXPECT_GT(std::set(unseeded.begin(), unseeded.end()).size(), 1u);
  // Four samples of one seed: all different, and the same set again.
  Request request = random_request("n", prompt);
  request.settings.samples = 4;
  request.settings.seed = 0;
  auto first = tokens_of(run(sampler, {request})), second = tokens_of(run(sampler, {request}));
  EXPECT_EQ(first, second);
  EXPECT_EQ(std::set(first.begin(), first.end()).size(), 4u);
  // 0 is a seed like any other, and another seed gives other tokens.
  request.settings.seed = 1;
  EXPECT_NE(tokens_of(run(sampler, {request})), first);
  // A sampler's own seed makes requests without one reproducible.
  Sampler a(dense().setup({.rows = {4}, .seed = 9})), b(dense().setup({.rows = {4}, .seed = 9}));
  EXPECT_EQ(tokens_of(run(a, copies)), tokens_of(run(b, copies)));
}

// ---- Case G3: what ends an answer ---------------------------------------------------------------

TEST(Sampler, AnyEndOfTextIdOfTheGenerationConfigEndsAnAnswer) {
  size_t cases = 0;
  for (const Json& c : read_json(test_data("sample/dense.json"))) {
    if (!c.contains("config_eos")) continue;
    SCOPED_TRACE(c["name"].get<std::string>());
    ++cases;
    Directory directory;
    directory.write("config.json", {{"eos_token_id", c["config_eos"]}});
    if (!c["generation"].is_null()) directory.write("generation_config.json", c["generation"]);
    SamplerSetup setup = dense().setup({.rows = {1}});
    setup.eos = read_generation_config(directory.path()).eos;
    Sampler sampler(setup);
    Request r = greedy("r", c["prompt"].get<std::vector<int32_t>>(), 24);
    r.settings.ignore_eos = c["name"] == "eos_ignore";
    Result result = run(sampler, {r})[0];
    auto want = c["output"].get<std::vector<int32_t>>();
    EXPECT_EQ(result.tokens, want);
    EXPECT_EQ(result.logprobs.size(), want.size());
    EXPECT_EQ(result.finish_reason, want.size() < 24 ? FinishReason::stop : FinishReason::length);
  }
  EXPECT_EQ(cases, 5u);
}

TEST(Sampler, MinNewTokensBansTheEndAndOnlyUntilThen) {
  Greedy c = greedy_cases()[1];
  SamplerSetup setup = dense().setup({.rows = {1}});
  setup.eos = {c.output[4]};
  Sampler sampler(setup);
  Request r = greedy("r", c.prompt, 24);
  r.settings.ignore_eos = false;
  EXPECT_EQ(run(sampler, {r})[0].tokens.size(), 5u);
  r.settings.min_new_tokens = 5;
  std::vector<int32_t> longer = run(sampler, {r})[0].tokens;
  ASSERT_GT(longer.size(), 5u);
  EXPECT_TRUE(std::equal(longer.begin(), longer.begin() + 4, c.output.begin()));
  EXPECT_NE(longer[4], c.output[4]);
  // stop_ids end an answer as well.
  r.settings = greedy("r", c.prompt, 24).settings;
  r.settings.stop_ids = {c.output[2]};
  EXPECT_EQ(run(sampler, {r})[0].tokens.size(), 3u);
}

TEST(Sampler, PenaltiesCountWhatWasGenerated) {
  Greedy c = greedy_cases()[2];  // repeats 55 46
  Sampler sampler(dense().setup({.rows = {1}}));
  Request r = greedy("r", c.prompt, 24);
  r.settings.presence_penalty = 2;
  r.settings.frequency_penalty = 2;
  r.settings.repetition_penalty = 5;
  std::vector<int32_t> tokens = run(sampler, {r})[0].tokens;
  auto distinct = [](const std::vector<int32_t>& t) { return std::set(t.begin(), t.end()).size(); };
  EXPECT_GT(distinct(tokens), distinct(c.output));
}

// ---- What is computed, and how often ------------------------------------------------------------

TEST(Sampler, ReplacingARowComputesThatRowOnly) {
  Sampler sampler(dense().setup({.rows = {2}}));
  sampler.submit(greedy("long", {9, 2, 33, 41}, 20));
  sampler.submit(greedy("short", {3, 5, 7}, 4));
  sampler.submit(greedy("next", {9, 2, 33, 41, 8, 12, 60}, 24));
  for (int i = 0; i < 4; ++i) sampler.step(dense().parameters);
  EXPECT_EQ(sampler.counters().prefills, 2);
  EXPECT_EQ(sampler.counters().prefill_tokens, 3 + 2);
  sampler.step(dense().parameters);
  EXPECT_EQ(sampler.counters().prefills, 3);
  EXPECT_EQ(sampler.counters().prefill_tokens, 3 + 2 + 6);
  EXPECT_EQ(sampler.counters().inserts, 3);
  while (sampler.step(dense().parameters)) {
  }
  std::vector<Result> results = sampler.take_results();
  ASSERT_EQ(results.size(), 3u);
  EXPECT_EQ(results[0].id, "short");
  EXPECT_EQ(results[2].tokens, greedy_cases()[2].output);
  const SampleCounters& c = sampler.counters();
  EXPECT_EQ(c.decoded, 20 + 4 + 24);
  EXPECT_EQ(c.steps, 4 + 24);
  EXPECT_EQ(c.reshapes, 0);
  EXPECT_EQ(c.filtered_draws, 0);
}

TEST(Sampler, SamplesOfOnePromptShareItsComputation) {
  Sampler sampler(dense().setup({.rows = {4}}));
  Request r = random_request("r", {9, 2, 33, 41, 8, 12, 60}, 4);
  r.settings.samples = 10;
  EXPECT_EQ(run(sampler, {r}).size(), 10u);
  EXPECT_EQ(sampler.counters().prefills, 1);
  EXPECT_EQ(sampler.counters().prefill_tokens, 6);
  EXPECT_EQ(sampler.counters().inserts, 10);
}

TEST(Sampler, NothingCompilesAfterPrepare) {
  Sampler sampler(dense().setup({.rows = {1, 4}}));
  ExpectedWork work{4, 7, greedy("", {}, 24).settings};
  EXPECT_FALSE(sampler.prepare(work).empty());
  SamplingSettings hot;
  hot.top_k = 5;
  hot.repetition_penalty = 1.1;
  hot.max_new_tokens = 24;
  sampler.prepare({4, 7, hot});
  int64_t programs = sampler.counters().programs;
  int64_t compiles = dense().compiler->counters().compiles;
  std::vector<Request> requests;
  for (const Greedy& c : greedy_cases()) requests.push_back(greedy(c.name, c.prompt, 24));
  requests.push_back(greedy("fourth", {1, 2, 3, 4}, 3));
  run(sampler, requests);
  for (double temperature : {0.3, 0.9}) {
    for (Request& r : requests) {
      r.settings.top_k = temperature > 0.5 ? 7 : 3;
      r.settings.top_p = 0.9;
      r.settings.temperature = temperature;
      r.settings.repetition_penalty = 1 + temperature;
    }
    run(sampler, requests);
  }
  EXPECT_EQ(sampler.counters().programs, programs);
  EXPECT_EQ(dense().compiler->counters().compiles, compiles);
  EXPECT_EQ(sampler.counters().whole_draws, 0);
  EXPECT_GT(sampler.counters().filtered_draws, 0);
}

// Rows and lengths grow while answers run, and what runs goes on as before.
TEST(Sampler, ShapesGrowUnderRunningAnswers) {
  Sampler sampler(dense().setup({.rows = {1, 2, 4}}));
  std::vector<Greedy> cases = greedy_cases();
  sampler.submit(greedy("0", cases[0].prompt, 24));
  sampler.step(dense().parameters);
  sampler.submit(greedy("1", cases[1].prompt, 24));
  sampler.step(dense().parameters);
  Request lengthy = greedy("lengthy", cases[2].prompt, 200);
  sampler.submit(lengthy);
  sampler.submit(greedy("2", cases[2].prompt, 24));
  while (sampler.step(dense().parameters)) {
  }
  EXPECT_GE(sampler.counters().reshapes, 2);
  for (const Result& r : sampler.take_results()) {
    size_t which = r.id == "lengthy" ? 2 : static_cast<size_t>(r.id[0] - '0');
    std::vector<int32_t> start(r.tokens.begin(), r.tokens.begin() + 24);
    EXPECT_EQ(start, cases[which].output) << r.id;
    EXPECT_EQ(r.tokens.size(), r.id == "lengthy" ? 200u : 24u);
  }
}

// An answer that outgrows its row goes on in a longer one.
TEST(Sampler, RowsGrowWithTheirAnswers) {
  TinyModel tiny(50, 3);
  Sampler sampler(tiny.setup({.rows = {1}}));
  Result r = generate(sampler, {greedy("a", {1, 2, 3}, 1100)}, tiny.parameters)[0];
  EXPECT_EQ(sampler.counters().reshapes, 1);
  ASSERT_EQ(r.tokens.size(), 1100u);
  std::vector<int32_t> prompt{1, 2, 3};
  prompt.insert(prompt.end(), r.tokens.begin(), r.tokens.begin() + 1080);
  Result rest = generate(sampler, {greedy("b", prompt, 20)}, tiny.parameters)[0];
  for (size_t i = 0; i < 20; ++i) {
    EXPECT_EQ(rest.tokens[i], r.tokens[1080 + i]);
    EXPECT_NEAR(rest.logprobs[i], r.logprobs[1080 + i], 1e-4);
  }
}

// A prompt longer than a piece is computed piece by piece.
TEST(Sampler, LongPromptsComeInPieces) {
  TinyModel tiny(50, 3);
  std::vector<int32_t> prompt;
  for (int i = 0; i < 700; ++i) prompt.push_back((i * 7 + i / 13) % 50);
  Sampler sampler(tiny.setup({.rows = {1}}));
  Result whole = generate(sampler, {greedy("a", prompt, 5)}, tiny.parameters)[0];
  EXPECT_EQ(sampler.counters().prefill_tokens, 699);
  // The same prompt fed token by token: a short prompt whose answer is forced to the rest.
  RowDecoder decoder({tiny.model.get(), tiny.structure.get()}, tiny.compiler);
  decoder.allocate({1, 1024});
  std::vector<int32_t> tokens;
  for (size_t i = 0; i < prompt.size() + 4; ++i) {
    HostTensor rows(DType::u32, {1, kRowWords});
    std::span<uint32_t> words = rows.data<uint32_t>();
    words[kToken] = static_cast<uint32_t>(i < prompt.size() ? prompt[i] : tokens.back());
    words[kPosition] = static_cast<uint32_t>(i);
    HostTensor drawn = decoder.step(*tiny.parameters, rows, nullptr, false);
    if (i + 1 >= prompt.size()) {
      tokens.push_back(static_cast<int32_t>(drawn.data<uint32_t>()[0]));
      EXPECT_NEAR(std::bit_cast<float>(drawn.data<uint32_t>()[1]),
                  whole.logprobs[tokens.size() - 1], 2e-5);
    }
  }
  EXPECT_EQ(tokens, whole.tokens);
}

TEST(Sampler, TokensAreReportedAsTheyCome) {
  Sampler sampler(dense().setup({.rows = {2}}));
  Request r = greedy("r", greedy_cases()[1].prompt, 6);
  r.settings.samples = 2;
  std::vector<std::vector<int32_t>> seen(2);
  r.on_token = [&](const TokenEvent& e) {
    EXPECT_EQ(e.id, "r");
    EXPECT_LE(e.logprob, 0);
    seen[static_cast<size_t>(e.sample)].push_back(e.token);
  };
  std::vector<Result> results = run(sampler, {r});
  for (size_t i = 0; i < 2; ++i) EXPECT_EQ(seen[i], results[i].tokens);
}

TEST(Sampler, CancelledRequestsComeOutWithWhatTheyHave) {
  Sampler sampler(dense().setup({.rows = {1}}));
  Request r = greedy("r", {3, 5, 7}, 20);
  r.settings.samples = 2;
  sampler.submit(r);
  sampler.submit(greedy("other", {17}, 24));
  for (int i = 0; i < 3; ++i) sampler.step(dense().parameters);
  sampler.cancel("r");
  std::vector<Result> cancelled = sampler.take_results();
  ASSERT_EQ(cancelled.size(), 2u);
  EXPECT_EQ(cancelled[0].finish_reason, FinishReason::cancelled);
  EXPECT_EQ(cancelled[0].tokens.size(), 3u);
  EXPECT_EQ(cancelled[1].tokens.size(), 0u);
  while (sampler.step(dense().parameters)) {
  }
  EXPECT_EQ(sampler.take_results().at(0).tokens, greedy_cases()[0].output);
}

TEST(Sampler, ParametersMayChangeBetweenSteps) {
  TinyModel tiny(40, 1);
  Sampler sampler(tiny.setup({.rows = {1}}));
  runtime::TablePtr old = tiny.parameters;
  Request r = greedy("r", {1, 2, 3}, 6);
  r.settings.samples = 2;
  sampler.submit(r);
  for (int i = 0; i < 3; ++i) sampler.step(old);
  tiny.publish(tiny.random_weights(2));
  while (sampler.step(tiny.parameters)) {
  }
  std::vector<Result> results = sampler.take_results();
  EXPECT_EQ(results[0].first_version, 1u);
  EXPECT_EQ(results[0].last_version, 2u);
  // The second sample does not use what the old parameters made of the prompt.
  Result fresh = generate(sampler, {greedy("r", {1, 2, 3}, 6)}, tiny.parameters)[0];
  EXPECT_EQ(results[1].first_version, 2u);
  EXPECT_EQ(results[1].tokens, fresh.tokens);
  EXPECT_EQ(results[1].logprobs, fresh.logprobs);
}

// ---- Stop texts ---------------------------------------------------------------------------------

// A stop text that lies across two tokens ends the answer where its last token comes; the text is
// what stands before it, the tokens are all that were drawn.
TEST(Sampler, StopTextsAcrossTokenBorders) {
  data::Tokenizer tokenizer = data::Tokenizer::load(test_data("data/tiny"));
  TinyModel tiny(tokenizer.vocab_size(), 6);
  SamplerSetup setup = tiny.setup({.rows = {2}, .seed = 1});
  setup.tokenizer = tokenizer;
  Sampler sampler(setup);
  Request r = greedy("r", {1, 2, 3}, 200);
  r.settings.temperature = 1;
  Result whole = generate(sampler, {r}, tiny.parameters)[0];
  EXPECT_EQ(whole.text, tokenizer.decode(whole.tokens, {.skip_special = true}));
  // Two neighbours of plain letters, the first such pair.
  auto plain = [&](size_t i) {
    std::string_view bytes = tokenizer.id_to_bytes(whole.tokens[i]);
    return std::all_of(bytes.begin(), bytes.end(), [](char c) { return c > ' ' && c < 127; });
  };
  size_t at = 1;
  while (at + 1 < whole.tokens.size() && !(plain(at) && plain(at + 1))) ++at;
  ASSERT_LT(at + 1, whole.tokens.size());
  std::string stop(1, tokenizer.id_to_bytes(whole.tokens[at]).back());
  stop += tokenizer.id_to_bytes(whole.tokens[at + 1]).front();
  size_t found = whole.text.find(stop);
  ASSERT_NE(found, std::string::npos);
  std::string streamed;
  r.settings.stop = {stop, "no such text"};
  r.on_token = [&](const TokenEvent& e) { streamed += e.text; };
  Result cut = generate(sampler, {r}, tiny.parameters)[0];
  EXPECT_EQ(cut.finish_reason, FinishReason::stop);
  EXPECT_EQ(cut.text, whole.text.substr(0, found));
  EXPECT_EQ(streamed, cut.text);
  EXPECT_LE(cut.tokens.size(), at + 2);
  EXPECT_TRUE(std::equal(cut.tokens.begin(), cut.tokens.end(), whole.tokens.begin()));
  // The text of a special token is no text, but its token ends the answer.
  auto special = std::find_if(whole.tokens.begin(), whole.tokens.end(), [&](int32_t id) {
    return tokenizer.has(id) && tokenizer.is_special(id);
  });
  ASSERT_NE(special, whole.tokens.end());
  r.settings.stop = {std::string(tokenizer.id_to_bytes(*special))};
  Result ended = generate(sampler, {r}, tiny.parameters)[0];
  EXPECT_EQ(ended.finish_reason, FinishReason::stop);
  EXPECT_EQ(ended.tokens, std::vector<int32_t>(whole.tokens.begin(), special + 1));
}

// ---- NaN ----------------------------------------------------------------------------------------

// Token 5 has NaN in its embedding: the requests that use it fail, by name; the others and the
// next user of the row do not.
TEST(Sampler, NaNLogitsStopTheirRequestOnly) {
  TinyModel tiny(40, 4);
  Sampler clean(tiny.setup({.rows = {2}}));
  std::vector<int32_t> good{1, 2, 3};
  Request r = greedy("good", good, 8);
  Result want = generate(clean, {r}, tiny.parameters)[0];
  ASSERT_EQ(std::count(want.tokens.begin(), want.tokens.end(), 5), 0);
  std::vector<runtime::Array> arrays = tiny.random_weights(4);
  HostTensor embedding = arrays[0].get();
  ASSERT_EQ(embedding.dims(), (Dims{40, 16}));
  embedding.set(5 * 16 + 3, std::numeric_limits<double>::quiet_NaN());
  arrays[0] = runtime::Array::put(tiny.compiler->client(), embedding);
  tiny.publish(std::move(arrays));
  Sampler sampler(tiny.setup({.rows = {2}}));
  std::vector<Request> requests{greedy("bad", {7, 5, 2}, 8), r, greedy("later", good, 8)};
  std::vector<Result> results = generate(sampler, requests, tiny.parameters);
  EXPECT_EQ(results[0].finish_reason, FinishReason::error);
  EXPECT_NE(results[0].error.find("sample.logits"), std::string::npos);
  EXPECT_NE(results[0].error.find("request 'bad', position 3"), std::string::npos);
  EXPECT_TRUE(results[0].tokens.empty());
  for (size_t i : {1u, 2u}) EXPECT_EQ(results[i].tokens, want.tokens);
}

// ---- Errors -------------------------------------------------------------------------------------

TEST(Sampler, BadRequestsAreRefusedBeforeAnyWork) {
  Sampler sampler(dense().setup({.rows = {1}}));
  auto refuse = [&](Code code, const char* id, const char* part, const Request& r) {
    expect_error(code, id, part, [&] { sampler.submit(r); });
  };
  refuse(Code::invalid_argument, "sample.prompt", "request 'r'", greedy("r", {}, 1));
  refuse(Code::invalid_argument, "sample.prompt", "token 1: expected an id below 64, got 64",
         greedy("r", {3, 64}, 1));
  refuse(Code::invalid_argument, "sample.request_id", "an id", greedy("", {3}, 1));
  refuse(Code::out_of_range, "sample.context", "3 + 254 tokens", greedy("r", {1, 2, 3}, 254));
  Request r = greedy("r", {1, 2, 3}, 4);
  r.settings.stop = {"x"};
  refuse(Code::invalid_argument, "sample.stop", "there is no tokenizer", r);
  r.settings.stop.clear();
  r.settings.stop_ids = {64};
  refuse(Code::invalid_argument, "sample.stop", "stop ids below 64", r);
  r.settings.stop_ids.clear();
  r.settings.top_p = 1.5;
  refuse(Code::out_of_range, "sample.setting", "top_p of at least 0 and at most 1, got 1.5", r);
  EXPECT_EQ(sampler.pending(), 0);
  sampler.submit(greedy("r", {3}, 2));
  refuse(Code::already_exists, "sample.request_id", "in use", greedy("r", {3}, 2));
  expect_error(Code::failed_precondition, "sample.busy", "1 answers pending",
               [&] { run(sampler, {greedy("s", {3}, 2)}); });
  sampler.cancel("r");
  sampler.take_results();
  // One bad request among good ones: none is answered.
  expect_error(Code::out_of_range, "sample.context", "'bad'", [&] {
    run(sampler, {greedy("good", {3}, 2), greedy("bad", {3}, 256)});
  });
  EXPECT_EQ(sampler.pending(), 0);
  EXPECT_EQ(sampler.counters().steps, 0);
  EXPECT_TRUE(sampler.take_results().empty());
}

TEST(Sampler, BadSetupsAreRefused) {
  auto refuse = [&](Code code, const char* id, const char* part, SamplerSetup setup) {
    expect_error(code, id, part, [&] { Sampler sampler(std::move(setup)); });
  };
  refuse(Code::invalid_argument, "sample.rows", "[4, 4]", dense().setup({.rows = {4, 4}}));
  refuse(Code::invalid_argument, "sample.rows", "[]", dense().setup({.rows = {}}));
  refuse(Code::out_of_range, "sample.context", "context of 256", dense().setup({.context = 257}));
  SamplerSetup setup = dense().setup();
  setup.eos = {64};
  refuse(Code::invalid_argument, "sample.eos", "got 64", setup);
  setup.eos.clear();
  setup.tokenizer = data::Tokenizer::load(test_data("data/tiny"));
  refuse(Code::invalid_argument, "sample.vocabulary", "at most 64 tokens", setup);
}

TEST(Sampler, PrefillShapesMustFit) {
  ModelView view{dense().model.get(), dense().structure.get()};
  expect_error(Code::invalid_argument, "sample.prefill_shape", "16 tokens, room for 32", [&] {
    prefill_function(view, {16, 32, false});
  });
}

TEST(Sampler, ForeignParametersAreRefusedAndNothingStays) {
  TinyModel other(40, 1);
  Sampler sampler(dense().setup({.rows = {1}}));
  sampler.submit(greedy("r", {1, 2, 3}, 4));
  expect_error(Code::invalid_argument, "runtime.argument_count", "prefill",
               [&] { sampler.step(other.parameters); });
  EXPECT_EQ(sampler.pending(), 0);
  EXPECT_EQ(run(sampler, {greedy("r", greedy_cases()[0].prompt, 24)})[0].tokens,
            greedy_cases()[0].output);
}

}  // namespace
}  // namespace strata::sample
