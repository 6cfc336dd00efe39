#include "strata/data/tokenizer.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <thread>

#include "strata/base/file.h"
#include "strata/data/test_data.h"
#include "strata/data/utf8.h"

namespace strata::data {
namespace {

using Ids = std::vector<int32_t>;

Tokenizer tiny() { return Tokenizer::load(data_path("tiny")); }

// What HF tokenizers computes for the tiny tokenizer under one changed rule at a time.
TEST(TokenizerGolden, EveryRuleOfTokenizerJsonActsAsInHf) {
  Json base = read_json(data_path("tiny/tokenizer.json"));
  Json variants = read_json(data_path("tiny/variants.json"));
  EXPECT_GE(variants.size(), 15U);
  for (const auto& [name, variant] : variants.items()) {
    Json document = base;
    document.update(variant["change"]);
    Tokenizer tokenizer = Tokenizer::from_json(document.dump(), name);
    for (const Json& c : variant["cases"]) {
      std::string text = c["text"];
      SCOPED_TRACE(name + ": " + c.dump());
      EXPECT_EQ(tokenizer.encode(text), c["ids"].get<Ids>());
      EXPECT_EQ(tokenizer.encode(text, {.plain = true}), c["plain"].get<Ids>());
      EXPECT_EQ(tokenizer.decode(c["ids"].get<Ids>()), c["decoded"]);
      EXPECT_EQ(tokenizer.decode(c["ids"].get<Ids>(), {.skip_special = true}), c["skipped"]);
    }
  }
}

TEST(TokenizerGolden, SentencePieceModel) {
  Tokenizer tokenizer = Tokenizer::load(data_path("sentencepiece"));
  Json cases = read_json(data_path("sentencepiece/cases.json"));
  for (const Json& c : cases) {
    SCOPED_TRACE(c.dump());
    EXPECT_EQ(tokenizer.encode(c["text"].get<std::string>(), {.add_special_tokens = false}),
              c["ids"].get<Ids>());
    EXPECT_EQ(tokenizer.decode(c["ids"].get<Ids>()), c["decoded"]);
  }
  EXPECT_EQ(tokenizer.vocab_size(), 320);
  EXPECT_EQ(tokenizer.token_id("</s>"), 2);
  EXPECT_EQ(tokenizer.encode("hello").front(), 1) << "BOS";
  Ids control = tokenizer.encode("a</s>", {.add_special_tokens = false});
  EXPECT_EQ(control.back(), 2);
  Ids plain = tokenizer.encode("a</s>", {.add_special_tokens = false, .plain = true});
  EXPECT_EQ(std::count(plain.begin(), plain.end(), 2), 0);
}

TEST(TokenizerGolden, SmolLm2OnAllStringsOfTheOracle) {
  Tokenizer tokenizer = Tokenizer::load(data_path("smollm2_tokenizer.json"));
  Json cases = read_json(data_path("smollm2_cases.json"));
  EXPECT_EQ(cases.size(), 207U);
  for (const Json& c : cases) {
    EXPECT_EQ(tokenizer.encode(c["text"].get<std::string>()), c["ids"].get<Ids>()) << c["text"];
    EXPECT_EQ(tokenizer.decode(c["ids"].get<Ids>()), c["decoded"]) << c["text"];
  }
  EXPECT_EQ(tokenizer.vocab_size(), 49152);
}

// A text that begins with the BOS text is encoded without special tokens: one BOS, as in the case
// H1; raw text gets one from the post-processor.
TEST(Tokenizer, BosExactlyOnce) {
  Tokenizer tokenizer = Tokenizer::load(data_path("tiny/tokenizer_with_bos.json"));
  EXPECT_EQ(tokenizer.encode("<|endoftext|>hello world", {.add_special_tokens = false}),
            (Ids{269, 259, 264}));
  EXPECT_EQ(tokenizer.encode("hello world"), (Ids{269, 259, 264}));
  EXPECT_EQ(Ids(tokenizer.prefix_ids().begin(), tokenizer.prefix_ids().end()), Ids{269});
}

// Sampled ids are kept: the prompt of the next turn is old ids + sampled ids + new text (H2).
TEST(Tokenizer, SampledIdsNeedNotBeCanonical) {
  Tokenizer tokenizer = tiny();
  Ids sampled = {256, 258};
  EXPECT_EQ(tokenizer.decode(sampled), "hello");
  EXPECT_EQ(tokenizer.encode("hello"), Ids{259});
  Ids second = sampled;
  Ids added = tokenizer.encode(" world", {.add_special_tokens = false});
  second.insert(second.end(), added.begin(), added.end());
  EXPECT_EQ(second, (Ids{256, 258, 264}));
}

// H6: text inside a message is plain, the template's own markers are not.
TEST(Tokenizer, ProtectedRangesHoldNoSpecialTokens) {
  Tokenizer tokenizer = tiny();
  std::string text = "<|im_start|>say <|im_end|> now<|im_end|>";
  std::vector<ProtectedRange> content = {{12, 30, false}};
  Ids ids = tokenizer.encode_protected(text, content);
  Ids expected = tokenizer.encode("say <|im_end|> now", {.plain = true});
  EXPECT_EQ(expected.size(), 18U);
  expected.insert(expected.begin(), 270);
  expected.push_back(271);
  EXPECT_EQ(ids, expected);

  // A marker that is half content is content.
  std::vector<ProtectedRange> half = {{0, 5, false}};
  EXPECT_EQ(tokenizer.encode_protected("<|im_end|>", half),
            tokenizer.encode("<|im_end|>", {.plain = true}));
  // Added tokens that are not special pass where the range allows them.
  std::vector<ProtectedRange> strict = {{0, 7, false}};
  std::vector<ProtectedRange> loose = {{0, 7, true}};
  EXPECT_EQ(tokenizer.encode_protected("<think>", loose), Ids{272});
  EXPECT_NE(tokenizer.encode_protected("<think>", strict), Ids{272});
}

TEST(Tokenizer, ProtectedRangesSurviveNormalization) {
  Json document = read_json(data_path("tiny/tokenizer.json"));
  document["normalizer"] = {{"type", "NFC"}};
  for (Json& token : document["added_tokens"]) token["normalized"] = true;
  Tokenizer tokenizer = Tokenizer::from_json(document.dump(), "t");
  std::string text = "<|im_start|>e\xcc\x81<|im_end|>e\xcc\x81<|im_end|>";
  std::vector<ProtectedRange> content = {{12, 25, false}};
  Ids ids = tokenizer.encode_protected(text, content);
  EXPECT_EQ(ids.front(), 270);
  EXPECT_EQ(ids.back(), 271);
  EXPECT_EQ(std::count(ids.begin(), ids.end(), 271), 1);
}

TEST(Tokenizer, IllFormedUtf8IsReadAsReplacementCharacters) {
  Tokenizer tokenizer = tiny();
  EXPECT_EQ(tokenizer.encode("a\xff\xe4\xb8z"), tokenizer.encode("a\xef\xbf\xbd\xef\xbf\xbdz"));
  EXPECT_EQ(tokenizer.encode("\xf0\x9f\x98"), tokenizer.encode("\xef\xbf\xbd"));
  EXPECT_EQ(tokenizer.encode("\xed\xa0\x80"),
            tokenizer.encode("\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd"));
}

// As in HF, a run of byte tokens is text as a whole or not at all.
TEST(Tokenizer, RunsOfByteTokens) {
  Json document = read_json(data_path("tiny/tokenizer.json"));
  document.update(read_json(data_path("tiny/variants.json"))["pieces"]["change"]);
  Tokenizer tokenizer = Tokenizer::from_json(document.dump(), "pieces");
  auto byte = [&](const char* name) { return tokenizer.token_id(name).value(); };
  int32_t hello = tokenizer.token_id("\xe2\x96\x81hello").value();
  EXPECT_EQ(tokenizer.decode(std::vector<int32_t>{byte("<0xC3>"), byte("<0xA9>"), hello}),
            "\xc3\xa9 hello");
  EXPECT_EQ(tokenizer.decode(std::vector<int32_t>{hello, byte("<0x41>"), byte("<0xC3>")}),
            "hello\xef\xbf\xbd\xef\xbf\xbd");
  EXPECT_EQ(tokenizer.decode(std::vector<int32_t>{hello, byte("<0x0A>"), hello}), "hello\n hello");
  StreamDecoder stream(tokenizer);
  EXPECT_EQ(stream.push(byte("<0xC3>")), "");
  EXPECT_EQ(stream.push(byte("<0xA9>")), "");
  EXPECT_EQ(stream.push(hello), "\xc3\xa9 hello");
}

// Text that follows other text gets no prefix; a text of its own does.
TEST(Tokenizer, PrefixesOfPiecesOfAText) {
  Json document = read_json(data_path("tiny/tokenizer.json"));
  Json variants = read_json(data_path("tiny/variants.json"));
  for (const char* name : {"pieces", "pieces_first", "pieces_always"}) {
    Json changed = document;
    changed.update(variants[name]["change"]);
    Tokenizer tokenizer = Tokenizer::from_json(changed.dump(), name);
    int32_t hello = tokenizer.token_id("\xe2\x96\x81hello").value();
    int32_t bare = tokenizer.token_id("hello").value();
    EXPECT_EQ(tokenizer.encode_protected("hello", {}), std::vector<int32_t>{hello}) << name;
    EXPECT_EQ(tokenizer.encode_protected("hello", {}, true), std::vector<int32_t>{bare}) << name;
    EXPECT_EQ(tokenizer.encode_protected(" hello", {}, true), std::vector<int32_t>{hello}) << name;
    // Behind a token, as when the token and the text were one piece.
    Ids whole = tokenizer.encode("</s>hello", {.add_special_tokens = false});
    Ids rest = tokenizer.encode_protected("hello", {}, true, true);
    EXPECT_EQ(Ids(whole.begin() + 1, whole.end()), rest) << name;
    // A protected range cuts no word, although marks replace the spaces around it.
    ProtectedRange range{2, 7, false};
    Ids cut = tokenizer.encode_protected("x hello", std::span(&range, 1));
    EXPECT_EQ(cut, tokenizer.encode("x hello", {.add_special_tokens = false})) << name;
  }
}

TEST(Tokenizer, AnyBytesDecodeAndStreamAlike) {
  Tokenizer tokenizer = tiny();
  uint32_t state = 12345;
  for (int round = 0; round < 300; ++round) {
    Ids ids;
    for (int i = 0; i < 24; ++i) {
      state = state * 1664525 + 1013904223;
      ids.push_back(static_cast<int32_t>((state >> 8) % 280));  // some ids have no token
    }
    StreamDecoder stream(tokenizer);
    std::string joined;
    for (int32_t id : ids) joined += stream.push(id);
    joined += stream.finish();
    EXPECT_EQ(joined, tokenizer.decode(ids)) << "round " << round;
    Ids again = tokenizer.encode(joined);
    EXPECT_EQ(tokenizer.decode(again), joined) << "round " << round;
  }
}

TEST(Tokenizer, StreamHoldsBackHalfCharacters) {
  Tokenizer tokenizer = tiny();
  StreamDecoder stream(tokenizer);
  std::string emoji = "\xf0\x9f\x98\x80";
  Ids ids = tokenizer.encode(emoji);
  ASSERT_EQ(ids.size(), 4U);
  for (int i = 0; i < 3; ++i) EXPECT_EQ(stream.push(ids[static_cast<size_t>(i)]), "");
  EXPECT_EQ(stream.push(ids[3]), emoji);
  EXPECT_EQ(stream.push(ids[0]), "");
  EXPECT_EQ(stream.push(tokenizer.encode("a")[0]),
            "\xef\xbf\xbd"
            "a");
  EXPECT_EQ(stream.push(ids[0]), "");
  EXPECT_EQ(stream.finish(), "\xef\xbf\xbd");
}

TEST(Tokenizer, LookUpsOfTokens) {
  Tokenizer tokenizer = tiny();
  EXPECT_EQ(tokenizer.vocab_size(), 274);
  EXPECT_EQ(tokenizer.token_id("<|im_end|>"), 271);
  EXPECT_EQ(tokenizer.token_id("Ġworld"), 264);
  EXPECT_EQ(tokenizer.token_id("nowhere"), std::nullopt);
  EXPECT_EQ(tokenizer.id_to_bytes(264), " world");
  EXPECT_TRUE(tokenizer.is_special(271));
  EXPECT_FALSE(tokenizer.is_special(272)) << "<think> is added but not special";
  EXPECT_FALSE(tokenizer.has(274));
  EXPECT_FALSE(tokenizer.has(-1));
}

TEST(Tokenizer, ThreadsShareOneTokenizer) {
  Tokenizer tokenizer = tiny();
  std::vector<Ids> results(4);
  std::vector<std::thread> threads;
  for (Ids& result : results) {
    threads.emplace_back([&tokenizer, &result] {
      for (int i = 0; i < 200; ++i) {
        result = tokenizer.encode("hello thinking world " + std::to_string(i % 7));
      }
    });
  }
  for (std::thread& t : threads) t.join();
  for (const Ids& result : results) EXPECT_EQ(result, results[0]);
}

TEST(Tokenizer, LongRunsTakeWellBelowQuadraticTime) {
  Tokenizer tokenizer = Tokenizer::load(data_path("smollm2_tokenizer.json"));
  for (const char* unit : {"a", " ", "\n", "1", "!", "\xe4\xb8\xad", "ab c\n"}) {
    std::string text;
    while (text.size() < 400'000) text += unit;
    auto start = std::chrono::steady_clock::now();
    Ids ids = tokenizer.encode(text);
    std::chrono::duration<double> took = std::chrono::steady_clock::now() - start;
    EXPECT_EQ(tokenizer.decode(ids), text) << unit;
    // Quadratic work would take hours; sanitizers and a busy machine get room.
    EXPECT_LT(took.count(), 30.0) << unit;
  }
}

TEST(Utf8, StepsCutMaximalIllFormedParts) {
  EXPECT_EQ(to_valid_utf8("\xe2\x82"), "\xef\xbf\xbd");
  EXPECT_EQ(to_valid_utf8("\xc0\x80"), "\xef\xbf\xbd\xef\xbf\xbd");
  EXPECT_EQ(to_valid_utf8("\xf4\x90\x80\x80").size(), 12U);
  EXPECT_EQ(utf8_step("\xe2\x82").kind, Utf8Step::Kind::truncated);
  EXPECT_EQ(utf8_step("\xe2z").kind, Utf8Step::Kind::invalid);
  EXPECT_EQ(to_upper("a\xc3\x9f\xc3\xa9"), "ASS\xc3\x89");
  EXPECT_EQ(to_lower("A\xc3\x89"), "a\xc3\xa9");
}

}  // namespace
}  // namespace strata::data
