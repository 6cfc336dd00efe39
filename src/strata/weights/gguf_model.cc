#include "strata/weights/gguf_model.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <numbers>
#include <set>
#include <string_view>

#include "strata/base/error.h"
#include "strata/base/strings.h"

namespace strata::weights {
namespace {

struct Architecture {
  std::string_view name;  // general.architecture, and model_type
  std::string_view model_class;
  bool permuted;        // rows of q and k are in adjacent-pair order
  bool head_norms;      // q_norm and k_norm
  bool has_qkv_biases;  // always, without a setting
};

constexpr std::array<Architecture, 3> kArchitectures = {{
    {"llama", "LlamaForCausalLM", true, false, false},
    {"qwen2", "Qwen2ForCausalLM", false, false, true},
    {"qwen3", "Qwen3ForCausalLM", false, true, false},
}};

// Settings that change the computation in ways the three architectures do not have.
constexpr std::array<std::string_view, 8> kForeignSettings = {
    "expert_count",           "attention.sliding_window", "logit_scale",
    "residual_scale",         "embedding_scale",          "attention.scale",
    "attn_logit_softcapping", "final_logit_softcapping"};

// The sizes that shapes and configuration follow from.
struct Sizes {
  int64_t layers = 0, width = 0, hidden = 0, heads = 0, kv_heads = 0, head_dim = 0, vocab = 0;
};

const Architecture& architecture_of(const GgufFile& file) {
  std::string name = file.get_string("general.architecture");
  std::vector<std::string> known;
  for (const Architecture& a : kArchitectures) {
    if (a.name == name) return a;
    known.emplace_back(a.name);
  }
  unimplemented({.id = "weights.import_architecture",
                 .where = file.path().string(),
                 .expected = "an architecture among " + join(known, ", "),
                 .got = "'" + name + "'"});
}

// The shortest decimal that reads back as the stored f32: 1e-05 rather than 9.999999747e-06.
double plain_double(double stored) {
  auto narrow = static_cast<float>(stored);
  if (static_cast<double>(narrow) != stored) return stored;
  return std::stod(fmt::format("{}", narrow));
}

int64_t positive(const GgufFile& file, const std::string& key, int64_t value) {
  // The bound keeps every product of two sizes in 63 bits.
  require(value > 0 && value < (int64_t{1} << 31), {.id = "weights.import_size",
                                                    .where = file.path().string() + ", " + key,
                                                    .expected = "a size from 1 to 2^31 - 1",
                                                    .got = std::to_string(value)});
  return value;
}

class Planner {
 public:
  explicit Planner(const GgufFile& file)
      : file_(file), arch_(architecture_of(file)), where_(file.path().string()) {}

  GgufModelPlan plan();

 private:
  std::string key(std::string_view name) const { return fmt::format("{}.{}", arch_.name, name); }
  int64_t size(std::string_view name) const {
    return positive(file_, key(name), file_.get_int(key(name)));
  }
  [[noreturn]] void refuse(std::string what, std::string got) const {
    unimplemented({.id = "weights.import_setting",
                   .where = where_,
                   .expected = std::move(what),
                   .got = std::move(got)});
  }
  bool has(const std::string& tensor) const { return file_.find_tensor(tensor) != nullptr; }
  void refuse_foreign_settings() const;
  void read_sizes();
  bool biased(std::string_view first, std::string_view second) const;
  Json config() const;
  Json rope_scaling(double base) const;
  Json scaling_from_factors(const GgufTensor& factors, double base) const;
  void add(std::string source, std::string name, Dims dims, bool permuted = false);
  void add_linear(const std::string& source, const std::string& name, int64_t out, int64_t in,
                  bool bias, bool permuted = false);
  void add_layer(int64_t index);
  void add_all();
  void check_tensors() const;

  const GgufFile& file_;
  const Architecture& arch_;
  std::string where_;
  Sizes s_;
  bool attention_bias_ = false, mlp_bias_ = false, tied_ = false;
  std::vector<GgufTensorPlan> tensors_;
  std::vector<std::string> missing_, misshapen_;
};

void Planner::refuse_foreign_settings() const {
  for (std::string_view name : kForeignSettings) {
    double value = file_.get_double_or(key(name), 0);
    if (value != 0) {
      refuse(fmt::format("a plain {} model without {}", arch_.name, key(name)),
             fmt::format("{}", value));
    }
  }
}

void Planner::read_sizes() {
  s_.layers = size("block_count");
  s_.width = size("embedding_length");
  s_.hidden = size("feed_forward_length");
  s_.heads = size("attention.head_count");
  std::string kv = key("attention.head_count_kv"), dim = key("attention.key_length");
  s_.kv_heads = positive(file_, kv, file_.get_int_or(kv, s_.heads));
  s_.head_dim = positive(file_, dim, file_.get_int_or(dim, s_.width / s_.heads));
  require(s_.heads % s_.kv_heads == 0 && s_.head_dim % 2 == 0,
          {.id = "weights.import_heads",
           .where = where_,
           .expected = "query heads that are a multiple of the key heads, of an even size",
           .got = fmt::format("{} and {} heads of {}", s_.heads, s_.kv_heads, s_.head_dim)});
  int64_t value_dim = file_.get_int_or(key("attention.value_length"), s_.head_dim);
  int64_t rotated = file_.get_int_or(key("rope.dimension_count"), s_.head_dim);
  if (value_dim != s_.head_dim || rotated != s_.head_dim) {
    refuse(fmt::format("values and rotation over the whole head of {}", s_.head_dim),
           fmt::format("{} and {}", value_dim, rotated));
  }
  const GgufTensor* embedding = file_.find_tensor("token_embd.weight");
  int64_t rows = embedding != nullptr && embedding->dims.size() == 2 ? embedding->dims[0] : 0;
  std::string vocab = key("vocab_size");
  s_.vocab = positive(file_, vocab, file_.get_int_or(vocab, std::max<int64_t>(rows, 1)));
}

// Whether biases exist: all of the named projections have one, or none.
bool Planner::biased(std::string_view first, std::string_view second) const {
  bool one = has(fmt::format("blk.0.{}.bias", first));
  if (one != has(fmt::format("blk.0.{}.bias", second))) {
    refuse(fmt::format("biases on both {} and {}, or on neither", first, second), "one of the two");
  }
  return one;
}

Json Planner::config() const {
  double base = plain_double(file_.get_double_or(key("rope.freq_base"), 10000.0));
  Json config = {
      {"architectures", Json::array({arch_.model_class})},
      {"model_type", arch_.name},
      {"vocab_size", s_.vocab},
      {"hidden_size", s_.width},
      {"intermediate_size", s_.hidden},
      {"num_hidden_layers", s_.layers},
      {"num_attention_heads", s_.heads},
      {"num_key_value_heads", s_.kv_heads},
      {"head_dim", s_.head_dim},
      {"hidden_act", "silu"},
      {"max_position_embeddings", size("context_length")},
      {"rms_norm_eps", plain_double(file_.get_double(key("attention.layer_norm_rms_epsilon")))},
      {"rope_theta", base},
      {"rope_scaling", rope_scaling(base)},
      {"attention_dropout", 0.0},
      {"initializer_range", 0.02},
      {"tie_word_embeddings", tied_},
      {"use_cache", true}};
  if (!arch_.has_qkv_biases) config["attention_bias"] = attention_bias_;
  if (arch_.name == "llama") config["mlp_bias"] = mlp_bias_;
  if (arch_.name != "llama") {
    config["use_sliding_window"] = false;
    config["sliding_window"] = nullptr;
  }
  return config;
}

Json Planner::rope_scaling(double base) const {
  std::string type = file_.get_string_or(key("rope.scaling.type"), "none");
  double factor = file_.get_double_or(key("rope.scaling.factor"), 0);
  if (factor == 0) factor = file_.get_double_or(key("rope.scale_linear"), 0);
  // Files that name no type and state a factor mean linear scaling.
  if (type == "none" && factor > 1 && file_.find(key("rope.scaling.type")) == nullptr) {
    type = "linear";
  }
  const GgufTensor* factors = file_.find_tensor("rope_freqs.weight");
  if (factors != nullptr && type == "none") return scaling_from_factors(*factors, base);
  if (factors != nullptr) refuse("rope_freqs.weight or a rope.scaling.type", "both");
  if (type == "none") return nullptr;
  if (type != "linear" && type != "yarn") refuse("rope scaling none, linear or yarn", type);
  require(factor > 0, {.id = "weights.import_rope",
                       .where = where_ + ", " + key("rope.scaling.factor"),
                       .expected = "a positive factor for " + type + " scaling",
                       .got = fmt::format("{}", factor)});
  Json scaling = {{"rope_type", type}, {"factor", plain_double(factor)}};
  if (type == "linear") return scaling;
  for (const char* name :
       {"attn_factor", "yarn_ext_factor", "yarn_attn_factor", "yarn_log_multiplier"}) {
    if (file_.find(key(std::string("rope.scaling.") + name)) != nullptr) {
      refuse("yarn scaling with the usual attention factor", std::string("rope.scaling.") + name);
    }
  }
  scaling["original_max_position_embeddings"] = size("rope.scaling.original_context_length");
  for (const char* name : {"beta_fast", "beta_slow"}) {
    std::string full = key(std::string("rope.scaling.yarn_") + name);
    if (file_.find(full) != nullptr) scaling[name] = plain_double(file_.get_double(full));
  }
  return scaling;
}

// Llama 3.1 files state no scaling; they carry a divisor for each frequency. Those that its
// published settings (low 1, high 4, 8,192 positions) give for some factor are recognised.
Json Planner::scaling_from_factors(const GgufTensor& factors, double base) const {
  constexpr double kLow = 1, kHigh = 4, kPositions = 8192;
  auto count = static_cast<size_t>(s_.head_dim / 2);
  std::vector<float> f(count);
  if (factors.dims != Dims{s_.head_dim / 2} || factors.type->name != "F32") {
    refuse(fmt::format("rope_freqs.weight of F32[{}]", count),
           fmt::format("{}{}", factors.type->name, list_text(factors.dims)));
  }
  dequantise(*factors.type, factors.bytes, f, where_);
  double factor = *std::max_element(f.begin(), f.end());
  for (size_t i = 0; i < count; ++i) {
    double exponent = -2.0 * static_cast<double>(i) / static_cast<double>(s_.head_dim);
    double turns = kPositions * std::pow(base, exponent) / (2 * std::numbers::pi);
    double smooth = std::clamp((turns - kLow) / (kHigh - kLow), 0.0, 1.0);
    double expected = 1 / ((1 - smooth) / factor + smooth);
    if (!(std::fabs(f[i] - expected) <= 1e-4 * expected)) {
      refuse(fmt::format("rope_freqs.weight of Llama 3 scaling ({:.6g} at {})", expected, i),
             fmt::format("{:.6g}", f[i]));
    }
  }
  if (factor == 1) return nullptr;
  return Json{{"rope_type", "llama3"},
              {"factor", plain_double(factor)},
              {"low_freq_factor", kLow},
              {"high_freq_factor", kHigh},
              {"original_max_position_embeddings", static_cast<int64_t>(kPositions)}};
}

void Planner::add(std::string source, std::string name, Dims dims, bool permuted) {
  const GgufTensor* tensor = file_.find_tensor(source);
  if (tensor == nullptr) {
    missing_.push_back(std::move(source));
    return;
  }
  if (tensor->dims != dims) {
    misshapen_.push_back(
        fmt::format("{}: expected {}, got {}", source, list_text(dims), list_text(tensor->dims)));
  }
  tensors_.push_back({tensor, std::move(name), std::move(dims), permuted ? s_.head_dim : 0});
}

void Planner::add_linear(const std::string& source, const std::string& name, int64_t out,
                         int64_t in, bool bias, bool permuted) {
  add(source + ".weight", name + ".weight", {out, in}, permuted);
  if (bias) add(source + ".bias", name + ".bias", {out}, permuted);
}

void Planner::add_layer(int64_t index) {
  std::string from = fmt::format("blk.{}.", index), to = fmt::format("model.layers.{}.", index);
  int64_t q = s_.heads * s_.head_dim, kv = s_.kv_heads * s_.head_dim;
  bool qkv_bias = attention_bias_ || arch_.has_qkv_biases;
  add(from + "attn_norm.weight", to + "input_layernorm.weight", {s_.width});
  add_linear(from + "attn_q", to + "self_attn.q_proj", q, s_.width, qkv_bias, arch_.permuted);
  add_linear(from + "attn_k", to + "self_attn.k_proj", kv, s_.width, qkv_bias, arch_.permuted);
  add_linear(from + "attn_v", to + "self_attn.v_proj", kv, s_.width, qkv_bias);
  add_linear(from + "attn_output", to + "self_attn.o_proj", s_.width, q, attention_bias_);
  if (arch_.head_norms) {
    add(from + "attn_q_norm.weight", to + "self_attn.q_norm.weight", {s_.head_dim});
    add(from + "attn_k_norm.weight", to + "self_attn.k_norm.weight", {s_.head_dim});
  }
  add(from + "ffn_norm.weight", to + "post_attention_layernorm.weight", {s_.width});
  add_linear(from + "ffn_gate", to + "mlp.gate_proj", s_.hidden, s_.width, mlp_bias_);
  add_linear(from + "ffn_up", to + "mlp.up_proj", s_.hidden, s_.width, mlp_bias_);
  add_linear(from + "ffn_down", to + "mlp.down_proj", s_.width, s_.hidden, mlp_bias_);
}

void Planner::add_all() {
  add("token_embd.weight", "model.embed_tokens.weight", {s_.vocab, s_.width});
  // A file has at least nine tensors a layer: a wild count of layers stops at the first gap.
  for (int64_t i = 0; i < s_.layers && missing_.size() < 40; ++i) add_layer(i);
  add("output_norm.weight", "model.norm.weight", {s_.width});
  if (!tied_) add("output.weight", "lm_head.weight", {s_.vocab, s_.width});
}

void Planner::check_tensors() const {
  std::set<std::string_view> used = {"rope_freqs.weight"};
  for (const GgufTensorPlan& p : tensors_) used.insert(p.source->name);
  std::vector<std::string> extra;
  for (const GgufTensor& t : file_.tensors()) {
    if (used.count(t.name) == 0) extra.push_back(t.name);
  }
  std::string text;
  auto print = [&](const char* kind, const std::vector<std::string>& names) {
    if (names.empty()) return;
    size_t shown = std::min<size_t>(names.size(), 20);
    text +=
        fmt::format("{}{} {} ({}{})", text.empty() ? "" : "; ", names.size(), kind,
                    join(std::span(names).first(shown), ", "), shown < names.size() ? ", …" : "");
  };
  print("missing", missing_);
  print("unexpected", extra);
  print("of another shape", misshapen_);
  int64_t files = file_.get_int_or("split.count", 1);
  std::string cure;
  if (files > 1) {
    cure = fmt::format("This is one of {} files: merge them (llama-gguf-split --merge)", files);
  }
  require(text.empty(), {.id = "weights.import_tensors",
                         .where = where_,
                         .expected = fmt::format("exactly the tensors of a {} model of {} layers",
                                                 arch_.name, s_.layers),
                         .got = text,
                         .cure = cure});
}

GgufModelPlan Planner::plan() {
  refuse_foreign_settings();
  read_sizes();
  tied_ = !has("output.weight");
  if (!arch_.has_qkv_biases) attention_bias_ = biased("attn_q", "attn_output");
  if (arch_.name == "llama") mlp_bias_ = biased("ffn_gate", "ffn_down");
  add_all();
  check_tensors();
  GgufModelPlan plan;
  plan.config = config();
  plan.vocab_size = s_.vocab;
  plan.context_length = size("context_length");
  plan.tensors = std::move(tensors_);
  for (const GgufTensorPlan& p : plan.tensors) {
    if (!can_dequantise(*p.source->type)) {
      dequantise(*p.source->type, {}, {}, fmt::format("{}, tensor '{}'", where_, p.source->name));
    }
  }
  return plan;
}

}  // namespace

GgufModelPlan plan_gguf_model(const GgufFile& file) { return Planner(file).plan(); }

}  // namespace strata::weights
