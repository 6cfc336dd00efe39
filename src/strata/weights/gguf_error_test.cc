// Damaged GGUF files, and GGUF files that cannot be imported.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <random>
#include <string>
#include <vector>

#include "strata/weights/files_for_test.h"
#include "strata/weights/gguf.h"
#include "strata/weights/gguf_for_test.h"
#include "strata/weights/import_gguf.h"

namespace strata::weights {
namespace {

using G = GgufImage;

void refused(const std::string& image, std::string_view id, std::string_view part) {
  auto parse = [&] { parse_gguf(bytes_of(image), "broken.gguf"); };
  expect_error(parse, id, part);
  expect_error(parse, id, "broken.gguf");
}

TEST(GgufError, MagicAndVersion) {
  refused("", "weights.gguf_truncated", "4 bytes of the magic");
  refused("GGML" + std::string(40, '\0'), "weights.gguf_magic", "begins with GGUF");
  refused(G().bytes(1), "weights.gguf_version", "version 1");
  refused(G().bytes(4), "weights.gguf_version", "version 4");
  refused(G().bytes(0x03000000), "weights.gguf_version", "big-endian");
  std::string one = G().bytes(1);
  EXPECT_EQ(error_of([&] { parse_gguf(bytes_of(one), "x"); }).code(), Code::unimplemented);
}

TEST(GgufError, Counts) {
  refused(G().bytes(3, 0, ~uint64_t{0}), "weights.gguf_count", "18446744073709551615");
  refused(G().bytes(3, ~uint64_t{0}, 0), "weights.gguf_count", "at most 0 tensors");
  refused(G().bytes(3, 1, 0), "weights.gguf_count", "at most 0 tensors");
  std::string many = G::raw(uint32_t{8}) + G::raw(uint64_t{1} << 60);
  refused(G().key("k", 9, many).bytes(), "weights.gguf_count", "key 'k'");
  std::string wrapping = G::raw(uint32_t{10}) + G::raw((uint64_t{1} << 61) + 1);
  refused(G().key("k", 9, wrapping).bytes(), "weights.gguf_count", "at most 0 array elements");
}

TEST(GgufError, Metadata) {
  refused(G().u32("k", 1).u32("k", 2).bytes(), "weights.gguf_duplicate", "key 'k'");
  refused(G().key("k", 13, "1234").bytes(), "weights.gguf_value_type", "got 13");
  refused(G().u32("\xff", 1).bytes(), "weights.gguf_name", "UTF-8");
  refused(G().key("k", 8, G::raw(~uint64_t{0})).bytes(), "weights.gguf_truncated",
          "18446744073709551615 bytes of a string");
  std::string nested;
  for (int i = 0; i < 5; ++i) nested += G::raw(uint32_t{9}) + G::raw(uint64_t{1});
  nested += G::raw(uint32_t{0}) + G::raw(uint64_t{0}) + std::string(12, '\0');
  refused(G().key("k", 9, nested).bytes(), "weights.gguf_depth", "at most 4 nested arrays");
  refused(G().u32("general.alignment", 24).bytes(), "weights.gguf_alignment", "got 24");
  refused(G().u32("general.alignment", 0).bytes(), "weights.gguf_alignment", "got 0");
  refused(G().string("general.alignment", "32").bytes(), "weights.gguf_alignment", "got string");
}

TEST(GgufError, Tensors) {
  std::string room(64, '\0');
  auto one = [&](const std::vector<uint64_t>& dims, uint32_t type, uint64_t offset) {
    return G().info("t.w", dims, type, offset).data(room).bytes();
  };
  refused(one({16, 2}, 0, 0), "weights.gguf_past_end", "tensor 't.w'");
  refused(one({16}, 0, 32), "weights.gguf_past_end", "64 bytes from byte");
  refused(one({1}, 0, uint64_t{1} << 63), "weights.gguf_past_end", "tensor 't.w'");
  refused(one({4}, 0, 4), "weights.gguf_offset", "a multiple of 32");
  refused(one({4}, 77, 0), "weights.gguf_tensor_type", "number 77");
  refused(one({31}, 8, 0), "weights.gguf_row", "multiple of 32 elements for Q8_0");
  refused(one({}, 8, 0), "weights.gguf_row", "rank 0");
  refused(one({1, 1, 1, 1, 1}, 0, 0), "weights.gguf_rank", "got 5");
  refused(one({~uint64_t{0}}, 0, 0), "weights.gguf_shape", "18446744073709551615");
  refused(one({uint64_t{1} << 40, uint64_t{1} << 40}, 0, 0), "weights.gguf_shape", "63 bits");
  refused(G().info("t", {4}, 0, 0).info("t", {4}, 0, 32).data(room).bytes(),
          "weights.gguf_duplicate", "tensor 't'");
  refused(G().info("a", {16}, 0, 0).info("b", {4}, 0, 32).data(room).bytes(),
          "weights.gguf_overlap", "tensor 'b'");
  refused(G().info("\xff", {4}, 0, 0).data(room).bytes(), "weights.gguf_name", "tensor name");
}

std::string small_image() {
  return G()
      .u32("n", 7)
      .strings("w", {"ab", "c"})
      .i32s("i", {1, 2})
      .tensor("x", {8})
      .tensor("y", {4, 2})
      .bytes();
}

TEST(GgufError, TruncationAtEveryByteIsRefused) {
  std::string whole = small_image();
  ASSERT_EQ(parse_gguf(bytes_of(whole), "x").tensors.size(), 2u);
  for (size_t n = 0; n < whole.size(); ++n) {
    std::string cut = whole.substr(0, n);  // its own allocation, so that sanitizers see over-reads
    EXPECT_THROW(parse_gguf(bytes_of(cut), "x"), Error) << n;
  }
}

// Reads everything that a parsed file offers, so that a bad view is touched.
size_t touch(const GgufIndex& index) {
  size_t sum = 0;
  for (const auto& pair : index.metadata) {
    int64_t whole = 0;
    pair.second.to_int(whole);
    sum += pair.second.strings().size() + pair.second.ints().size() + pair.second.doubles().size();
    for (std::string_view s : pair.second.strings()) {
      for (char c : s) sum += static_cast<size_t>(c != 0);
    }
  }
  for (const GgufTensor& t : index.tensors) {
    for (std::byte b : t.bytes) sum += static_cast<size_t>(b);
  }
  return sum;
}

TEST(GgufError, FlippedBitsAndRandomDamageStayInBounds) {
  std::string whole = small_image();
  size_t refusals = 0, trials = 0, sum = 0;
  auto trial = [&](const std::string& damaged) {
    ++trials;
    try {
      sum += touch(parse_gguf(bytes_of(damaged), "x"));
    } catch (const Error&) {
      ++refusals;
    }
  };
  for (size_t bit = 0; bit < whole.size() * 8; ++bit) {
    std::string damaged = whole;
    damaged[bit / 8] = static_cast<char>(damaged[bit / 8] ^ (1 << (bit % 8)));
    trial(damaged);
  }
  std::mt19937 random(11);
  for (int round = 0; round < 5000; ++round) {
    std::string damaged = whole;
    for (int k = 0; k < 3; ++k) damaged[random() % damaged.size()] = static_cast<char>(random());
    trial(damaged);
  }
  EXPECT_GT(refusals, trials / 3);
  EXPECT_GT(sum, 0u);
}

TEST(GgufError, TypesThatAreNotDecodedAreRefusedByName) {
  const GgmlType* q5 = ggml_type(13);
  ASSERT_NE(q5, nullptr);
  Error e = error_of([&] { dequantise(*q5, {}, {}, "f.gguf, tensor 't'"); });
  EXPECT_EQ(e.id(), "weights.ggml_type");
  EXPECT_EQ(e.code(), Code::unimplemented);
  EXPECT_NE(e.message().find("tensor 't'"), std::string::npos);
  EXPECT_NE(e.message().find("Q5_K"), std::string::npos);
  std::vector<float> three(3);
  expect_error([&] { dequantise(*ggml_type(0), {}, three, "x"); }, "weights.ggml_blocks",
               "whole blocks");
}

class ImportError : public ::testing::Test {
 protected:
  void refuse(const GgufImage& g, std::string_view id, std::string_view part) {
    put_file(scratch_ / "m.gguf", g.bytes());
    auto run = [&] { import_gguf(scratch_ / "m.gguf", scratch_ / "out"); };
    ::testing::internal::CaptureStderr();
    expect_error(run, id, part);
    expect_error(run, id, "m.gguf");
    ::testing::internal::GetCapturedStderr();
    EXPECT_EQ(std::distance(std::filesystem::directory_iterator(scratch_.path()), {}), 1)
        << "a failed import left something behind";
  }
  // A tiny model with one more key.
  void refuse_with(const std::function<void(GgufImage&)>& add, std::string_view id,
                   std::string_view part) {
    GgufImage g = tiny_qwen2_metadata();
    add(g);
    tiny_qwen2_tensors(g);
    refuse(g, id, part);
  }
  ScratchDirectory scratch_;
};

TEST_F(ImportError, Architecture) {
  refuse(G().u32("x", 1), "weights.gguf_key", "general.architecture");
  refuse(G().string("general.architecture", "mamba"), "weights.import_architecture", "'mamba'");
}

TEST_F(ImportError, Settings) {
  auto size = [&](const char* key, uint32_t value, const char* id, const char* part) {
    refuse_with([&](GgufImage& g) { g.u32(key, value); }, id, part);
  };
  size("qwen2.expert_count", 8, "weights.import_setting", "qwen2.expert_count");
  size("qwen2.rope.dimension_count", 2, "weights.import_setting", "over the whole head");
  size("qwen2.attention.value_length", 8, "weights.import_setting", "over the whole head");
  size("qwen2.attention.key_length", 0, "weights.import_size", "got 0");
  size("qwen2.attention.key_length", 3, "weights.import_heads", "2 and 1 heads of 3");
  size("qwen2.vocab_size", 7, "weights.import_tensors", "token_embd.weight: expected [7, 8]");
  refuse_with([](GgufImage& g) { g.string("qwen2.rope.scaling.type", "longrope"); },
              "weights.import_setting", "longrope");
  refuse_with([](GgufImage& g) { g.string("qwen2.rope.scaling.type", "linear"); },
              "weights.import_rope", "a positive factor");
  refuse_with(
      [](GgufImage& g) {
        g.string("qwen2.rope.scaling.type", "yarn").f32("qwen2.rope.scaling.factor", 4);
        g.f32("qwen2.rope.scaling.yarn_log_multiplier", 0.1f);
      },
      "weights.import_setting", "yarn_log_multiplier");
  refuse_with([](GgufImage& g) { g.tensor("rope_freqs.weight", {2}); }, "weights.import_setting",
              "Llama 3 scaling");
}

TEST_F(ImportError, TensorsAreCompared) {
  GgufImage g = tiny_qwen2_metadata();
  refuse(g, "weights.import_tensors", "14 missing (token_embd.weight, ");
  tiny_qwen2_tensors(g).tensor("blk.1.attn_norm.weight", {8});
  refuse(g, "weights.import_tensors", "1 unexpected (blk.1.attn_norm.weight)");
}

TEST_F(ImportError, HugeLayerCountEndsAtOnce) {
  GgufImage g;
  g.string("general.architecture", "qwen2");
  for (const char* k : {"block_count", "embedding_length", "feed_forward_length"}) {
    g.u32(std::string("qwen2.") + k, 0x7fffffff);
  }
  g.u32("qwen2.attention.head_count", 1).u32("qwen2.attention.key_length", 2);
  refuse(g, "weights.import_tensors", "missing");
}

TEST_F(ImportError, UndecodableTensor) {
  GgufImage g = tiny_qwen2_metadata();
  tiny_qwen2_tensors(g);
  std::string image = g.bytes();
  // The norm of eight elements becomes eight I32 elements: same bytes, another type.
  std::string info = GgufImage::text("output_norm.weight");
  size_t at = image.find(info) + info.size() + 4 + 8;
  image.replace(at, 4, GgufImage::raw(uint32_t{26}));
  put_file(scratch_ / "m.gguf", image);
  expect_error([&] { import_gguf(scratch_ / "m.gguf", scratch_ / "out"); }, "weights.ggml_type",
               "tensor 'output_norm.weight'");
}

TEST_F(ImportError, DtypeAndTarget) {
  GgufImage g = tiny_qwen2_metadata();
  tiny_qwen2_tensors(g);
  put_file(scratch_ / "m.gguf", g.bytes());
  ImportOptions options;
  options.dtype = DType::f16;
  expect_error([&] { import_gguf(scratch_ / "m.gguf", scratch_ / "out", options); },
               "weights.import_dtype", "expected f32 or bf16, got f16");
  put_file(scratch_ / "out/keep.txt", "mine");
  Error e = error_of([&] { import_gguf(scratch_ / "m.gguf", scratch_ / "out"); });
  EXPECT_EQ(e.code(), Code::already_exists);
  EXPECT_EQ(read_file(scratch_ / "out/keep.txt"), "mine");
}

// A model whose tokenizer keys are all written by `tokenizer`.
GgufImage with_tokenizer(const std::function<void(GgufImage&)>& tokenizer) {
  GgufImage g;
  g.string("general.architecture", "qwen2");
  g.u32("qwen2.block_count", 1).u32("qwen2.context_length", 64).u32("qwen2.embedding_length", 8);
  g.u32("qwen2.feed_forward_length", 12).u32("qwen2.attention.head_count", 2);
  g.u32("qwen2.attention.head_count_kv", 1);
  g.f32("qwen2.attention.layer_norm_rms_epsilon", 1e-6f);
  tokenizer(g);
  tiny_qwen2_tensors(g);
  return g;
}

void bpe(GgufImage& g, const std::vector<std::string>& tokens,
         const std::vector<std::string>& merges = {}) {
  g.string("tokenizer.ggml.model", "gpt2").string("tokenizer.ggml.pre", "gpt-2");
  g.strings("tokenizer.ggml.tokens", tokens).strings("tokenizer.ggml.merges", merges);
}

TEST_F(ImportError, Tokenizer) {
  auto tokenizer = [&](const std::function<void(GgufImage&)>& write, const char* id,
                       const char* part) { refuse(with_tokenizer(write), id, part); };
  tokenizer([](GgufImage& g) { g.string("tokenizer.ggml.model", "bert"); },
            "weights.import_tokenizer", "'bert'");
  tokenizer(
      [](GgufImage& g) {
        bpe(g, {"1", "2", "3", "4", "5", "6", "7"});
      },
      "weights.import_vocabulary", "1 to 6 tokens");
  tokenizer([](GgufImage& g) { bpe(g, {}); }, "weights.import_vocabulary", "got 0");
  tokenizer(
      [](GgufImage& g) {
        bpe(g, {"a", "b", "a"});
      },
      "weights.import_token", "token 2: expected unique UTF-8 text, got the text of token 0");
  tokenizer([](GgufImage& g) { bpe(g, {"a", "\xff"}); }, "weights.import_token", "token 1");
  for (const char* merge : {"a x", "ab", " ab", "b a", "\xff a"}) {
    tokenizer(
        [&](GgufImage& g) {
          bpe(g, {"a", "b", "ab"}, {"a b", merge});
        },
        "weights.import_merge", "entry 1");
  }
  tokenizer(
      [](GgufImage& g) {
        bpe(g, {"a", "b"});
        g.i32s("tokenizer.ggml.token_type", {1});
      },
      "weights.import_token_types", "expected 2 types, got 1");
  tokenizer(
      [](GgufImage& g) {
        bpe(g, {"a", "b"});
        g.u32("tokenizer.ggml.eos_token_id", 2);
      },
      "weights.import_token_id", "eos_token_id: expected a token from 0 to 1, got 2");
  tokenizer(
      [](GgufImage& g) {
        bpe(g, {"a", "b"});
        g.boolean("tokenizer.ggml.add_bos_token", true);
      },
      "weights.import_added", "tokenizer.ggml.bos_token_id");
  tokenizer(
      [](GgufImage& g) {
        bpe(g, {"a", "b"});
        g.string("tokenizer.chat_template", "\xff");
      },
      "weights.import_template", "UTF-8");
  tokenizer(
      [](GgufImage& g) {
        g.string("tokenizer.ggml.model", "gpt2").string("tokenizer.ggml.pre", "wavy");
        g.strings("tokenizer.ggml.tokens", {"a"}).strings("tokenizer.ggml.merges", {});
      },
      "weights.import_pre", "'wavy'");
}

TEST_F(ImportError, Pieces) {
  auto pieces = [&](const std::function<void(GgufImage&)>& write, const char* id,
                    const char* part) {
    refuse(with_tokenizer([&](GgufImage& g) {
             g.string("tokenizer.ggml.model", "llama");
             g.strings("tokenizer.ggml.tokens", {"<unk>", "a", "b"});
             g.boolean("tokenizer.ggml.add_bos_token", false);
             write(g);
           }),
           id, part);
  };
  pieces([](GgufImage&) {}, "weights.import_scores", "3 numbers, one for each token, got no such");
  pieces(
      [](GgufImage& g) {
        g.f32s("tokenizer.ggml.scores", {0, 1});
      },
      "weights.import_scores", "got 2 numbers");
  pieces([](GgufImage& g) { g.boolean("tokenizer.ggml.remove_extra_whitespaces", true); },
         "weights.import_pieces", "remove_extra_whitespaces");
  pieces([](GgufImage& g) { g.i32s("tokenizer.ggml.precompiled_charsmap", {1}); },
         "weights.import_pieces", "precompiled_charsmap");
}

// One of several files says so, instead of only naming what it lacks.
TEST_F(ImportError, OneOfSeveralFiles) {
  GgufImage g = tiny_qwen2_metadata();
  g.u32("split.count", 3);
  g.tensor("token_embd.weight", {8, 6});
  refuse(g, "weights.import_tensors", "one of 3 files");
}

}  // namespace
}  // namespace strata::weights
