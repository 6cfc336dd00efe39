// Damaged or unsupported configs are errors that name file, key and value.
#include <gtest/gtest.h>

#include "strata/models/registry.h"
#include "strata/testing/errors.h"

namespace strata::models {
namespace {

using strata::testing::expect_error;

Json config(const std::string& type = "qwen3") {
  return {{"model_type", type},       {"vocab_size", 16},       {"hidden_size", 8},
          {"intermediate_size", 8},   {"num_hidden_layers", 2}, {"num_attention_heads", 2},
          {"num_key_value_heads", 1}, {"head_dim", 4},          {"max_position_embeddings", 64}};
}

// Building `config()` with other values of some keys fails so.
void fails(Code code, const std::string& id, const std::string& part, const Json& changes,
           const std::string& type = "qwen3") {
  SCOPED_TRACE(changes.dump());
  Json c = config(type);
  c.update(changes);
  expect_error(code, id, part, [&] { build_model(c, "dir/config.json"); });
}

// Building `config()` with other values of some keys works.
void builds(const Json& changes) {
  SCOPED_TRACE(changes.dump());
  Json c = config();
  c.update(changes);
  EXPECT_NO_THROW(build_model(c, "c"));
}

constexpr Code kInvalid = Code::invalid_argument;

TEST(Config, TheUnchangedOneBuilds) {
  EXPECT_EQ(build_model(config(), "c")->config().layers, 2);
  EXPECT_EQ(build_model(config("llama"), "c")->config().head_dim, 4);
}

TEST(Config, NotAnObject) {
  expect_error(kInvalid, "models.config_object", "dir/config.json",
               [] { build_model(Json::array(), "dir/config.json"); });
  fails(kInvalid, "models.config_object", "rope_scaling", {{"rope_scaling", 4}});
}

TEST(Config, Transforms) {
  fails(Code::data_loss, "models.transforms", "dir/config.json, key 'strata_transforms'",
        {{"strata_transforms", "lora"}});
  fails(Code::data_loss, "nn.transform_kind", "'dora'",
        {{"strata_transforms", {{{"kind", "dora"}}}}});
  Json lora = {{"kind", "lora"}, {"rank", 2}, {"alpha", 4}, {"rslora", false}};
  lora["targets"] = {"*.q_proj", "lm_head"};
  Json c = with_transforms(config(), Json::array({lora}));
  auto model = build_model(c, "c");
  EXPECT_EQ(model->transforms(), Json::array({lora}));
  EXPECT_EQ(model->all_params().size(), build_model(config(), "c")->all_params().size() + 6);
  EXPECT_EQ(with_transforms(c, Json::array()), config());
  c["tie_word_embeddings"] = true;
  expect_error(kInvalid, "nn.transform_target", "another name of model.embed_tokens.weight",
               [&] { build_model(c, "c"); });
}

TEST(Config, MissingKey) {
  fails(Code::not_found, "models.config_missing", "vocab_size", {{"vocab_size", nullptr}});
  fails(Code::not_found, "models.config_missing", "rope_scaling",
        {{"rope_scaling", {{"type", "linear"}}}});
}

TEST(Config, WrongValue) {
  constexpr auto kId = "models.config_value";
  fails(kInvalid, kId, "hidden_size", {{"hidden_size", 0}});
  fails(kInvalid, kId, "hidden_size", {{"hidden_size", 1.5}});
  fails(kInvalid, kId, "hidden_size", {{"hidden_size", "8k"}});
  fails(kInvalid, kId, "hidden_size", {{"hidden_size", Json::array()}});
  fails(kInvalid, kId, "[1, 2147483648]", {{"vocab_size", 1e300}});
  fails(kInvalid, kId, "rope_theta", {{"rope_theta", "nan"}});
  fails(kInvalid, kId, "rope_theta", {{"rope_theta", "inf"}});
  fails(kInvalid, kId, "tie_word_embeddings", {{"tie_word_embeddings", "yes"}});
  fails(kInvalid, kId, "hidden_act", {{"hidden_act", 3}});
  fails(kInvalid, kId, "model_type", {{"model_type", 3}});
}

// Numbers that would allocate without end before any weight is read.
TEST(Config, NumbersBeyondAnyModel) {
  constexpr auto kId = "models.config_value";
  fails(kInvalid, kId, "num_hidden_layers", {{"num_hidden_layers", 2000000000}});
  fails(kInvalid, kId, "head_dim", {{"head_dim", 2147483648}});
  fails(kInvalid, "models.odd_head_dim", "1073741824",
        {{"hidden_size", 2147483648}, {"head_dim", nullptr}}, "llama");
}

TEST(Config, HeadDim) {
  fails(kInvalid, "models.odd_head_dim", "5", {{"head_dim", 5}});
  fails(kInvalid, "models.odd_head_dim", "even",
        {{"num_attention_heads", 16}, {"head_dim", nullptr}}, "llama");
}

TEST(Config, OnlyOneActivation) {
  fails(Code::unimplemented, "models.config_only", "'gelu'", {{"hidden_act", "gelu"}});
}

TEST(Config, SlidingWindows) {
  fails(kInvalid, "models.layer_types", "2 layer types", {{"layer_types", {"full_attention"}}});
  fails(kInvalid, "models.layer_types", "layer_types", {{"layer_types", "full_attention"}});
  fails(Code::unimplemented, "models.sliding_attention", "layer 1",
        {{"layer_types", {"full_attention", "sliding_attention"}}, {"sliding_window", 32}});
  fails(Code::unimplemented, "models.sliding_attention", "use_sliding_window",
        {{"use_sliding_window", true}, {"sliding_window", 32}, {"max_window_layers", 0}});
  // transformers assumes a window of 4096, and that layers from 28 on slide.
  fails(
      Code::unimplemented, "models.sliding_attention", "layer 1",
      {{"use_sliding_window", true}, {"max_window_layers", 1}, {"max_position_embeddings", 8192}});
  fails(Code::unimplemented, "models.sliding_attention", "layer 28",
        {{"use_sliding_window", true}, {"sliding_window", 32}, {"num_hidden_layers", 29}});
  builds({{"layer_types", {"full_attention", "full_attention"}}, {"sliding_window", 32}});
  builds({{"use_sliding_window", true}, {"sliding_window", 32}, {"max_window_layers", 2}});
  builds({{"use_sliding_window", true}, {"sliding_window", 32}});
  builds({{"use_sliding_window", true}, {"sliding_window", nullptr}, {"max_window_layers", 0}});
  builds({{"use_sliding_window", true}, {"sliding_window", 64}, {"max_window_layers", 0}});
}

// A file of a known model_type may hold what its architecture does not have.
TEST(Config, KeysOfOtherArchitectures) {
  constexpr auto kId = "models.foreign_key";
  constexpr Code kCode = Code::unimplemented;
  for (const std::string type : {"llama", "qwen3"}) {
    fails(kCode, kId, "'quantization_config'", {{"quantization_config", {{"bits", 4}}}}, type);
    fails(kCode, kId, "'final_logit_softcapping'", {{"final_logit_softcapping", 30.0}}, type);
    fails(kCode, kId, "'attn_logit_softcapping'", {{"attn_logit_softcapping", 50}}, type);
    fails(kCode, kId, "'embedding_multiplier'", {{"embedding_multiplier", 12.0}}, type);
    fails(kCode, kId, "'no_rope_layers'", {{"no_rope_layers", {1, 0}}}, type);
    fails(kCode, kId, "'is_causal'", {{"is_causal", false}}, type);
    fails(kCode, kId, "'use_parallel_residual'", {{"use_parallel_residual", true}}, type);
  }
  builds({{"quantization_config", nullptr}, {"final_logit_softcapping", nullptr}});
  builds({{"embedding_multiplier", 1}, {"logit_scale", 1.0}, {"alibi", false}});
  builds({{"no_rope_layers", Json::array()}, {"is_causal", true}, {"hidden_act", "swish"}});
}

Json scaling(const Json& block) { return {{"rope_scaling", block}}; }

TEST(Rope, Factors) {
  Json llama3{{"rope_type", "llama3"},
              {"factor", 8.0},
              {"low_freq_factor", 2.0},
              {"high_freq_factor", 2.0},
              {"original_max_position_embeddings", 64}};
  fails(kInvalid, "models.llama3_factors", "low_freq_factor", scaling(llama3));
  llama3["original_max_position_embeddings"] = 0;
  fails(kInvalid, "models.config_value", "original_max_position_embeddings", scaling(llama3));
  fails(kInvalid, "models.config_value", "factor", scaling({{"type", "linear"}, {"factor", 0}}));
  fails(kInvalid, "models.config_value", "above 0", scaling({{"type", "yarn"}, {"factor", -4}}));
}

TEST(Rope, Range) {
  fails(kInvalid, "models.rope_range", "rope_theta", {{"rope_theta", 0}});
  fails(kInvalid, "models.rope_range", "partial_rotary_factor", {{"partial_rotary_factor", 1.5}});
  fails(kInvalid, "models.rope_range", "partial_rotary_factor", {{"partial_rotary_factor", 0}});
}

TEST(Rope, SettingsForEachTypeOfLayer) {
  fails(Code::unimplemented, "models.rope_nested", "'full_attention'",
        {{"rope_parameters", {{"full_attention", {{"rope_theta", 1e6}}}}}});
}

TEST(Rope, UnknownTypeNamesTheNearest) {
  fails(Code::unimplemented, "models.rope_type", "'linear'",
        scaling({{"rope_type", "lineal"}, {"factor", 2}}));
}

TEST(Registry, UnknownTypeListsTheKnownAndTheNearest) {
  fails(Code::unimplemented, "models.model_type", "llama, qwen3", {{"model_type", "qwen33"}});
  fails(Code::unimplemented, "models.model_type", "nearest is 'qwen3'", {{"model_type", "qwen33"}});
  fails(Code::unimplemented, "models.model_type", "none", {{"model_type", nullptr}});
}

}  // namespace
}  // namespace strata::models
