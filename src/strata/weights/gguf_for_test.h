// Builds GGUF images field by field, so that tests can break any of them.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace strata::weights {

class GgufImage {
 public:
  template <class T>
  static std::string raw(T value) {
    return std::string(reinterpret_cast<const char*>(&value), sizeof value);
  }
  static std::string text(std::string_view s) { return raw(uint64_t{s.size()}) + std::string(s); }

  // A key with a value of type number `type` in the file's encoding.
  GgufImage& key(std::string_view name, uint32_t type, std::string_view value) {
    metadata_ += text(name) + raw(type) + std::string(value);
    ++keys_;
    return *this;
  }
  GgufImage& u32(std::string_view name, uint32_t value) { return key(name, 4, raw(value)); }
  GgufImage& f32(std::string_view name, float value) { return key(name, 6, raw(value)); }
  GgufImage& string(std::string_view name, std::string_view value) {
    return key(name, 8, text(value));
  }
  GgufImage& boolean(std::string_view name, bool value) {
    return key(name, 7, std::string(1, value ? '\1' : '\0'));
  }
  GgufImage& strings(std::string_view name, const std::vector<std::string>& values) {
    std::string all = raw(uint32_t{8}) + raw(uint64_t{values.size()});
    for (const std::string& v : values) all += text(v);
    return key(name, 9, all);
  }
  GgufImage& i32s(std::string_view name, const std::vector<int32_t>& values) {
    std::string all = raw(uint32_t{5}) + raw(uint64_t{values.size()});
    for (int32_t v : values) all += raw(v);
    return key(name, 9, all);
  }
  GgufImage& f32s(std::string_view name, const std::vector<float>& values) {
    std::string all = raw(uint32_t{6}) + raw(uint64_t{values.size()});
    for (float v : values) all += raw(v);
    return key(name, 9, all);
  }
  // A tensor info with dims innermost first, as the file has them.
  GgufImage& info(std::string_view name, const std::vector<uint64_t>& dims, uint32_t type,
                  uint64_t offset) {
    infos_ += text(name) + raw(static_cast<uint32_t>(dims.size()));
    for (uint64_t d : dims) infos_ += raw(d);
    infos_ += raw(type) + raw(offset);
    ++tensors_;
    return *this;
  }
  // An F32 tensor of `count` elements 0, 1, 2, … with its data.
  GgufImage& tensor(std::string_view name, const std::vector<uint64_t>& dims) {
    uint64_t count = 1;
    for (uint64_t d : dims) count *= d;
    info(name, dims, 0, data_.size());
    for (uint64_t i = 0; i < count; ++i) data_ += raw(static_cast<float>(i));
    pad(data_);
    return *this;
  }
  GgufImage& data(std::string_view bytes) {
    data_ += bytes;
    return *this;
  }
  std::string bytes(uint32_t version = 3) const { return bytes(version, tensors_, keys_); }
  std::string bytes(uint32_t version, uint64_t tensors, uint64_t keys) const {
    std::string all = "GGUF" + raw(version) + raw(tensors) + raw(keys) + metadata_ + infos_;
    if (!data_.empty()) pad(all);
    return all + data_;
  }

 private:
  static void pad(std::string& s) { s.resize((s.size() + 31) / 32 * 32, '\0'); }

  std::string metadata_, infos_, data_;
  uint64_t keys_ = 0, tensors_ = 0;
};

// The metadata of a qwen2 model of one layer: 2 heads of 4, width 8, hidden 12, 6 rows of
// vocabulary and a byte-level tokenizer of five tokens; then its tensors.
inline GgufImage tiny_qwen2_metadata() {
  GgufImage g;
  g.string("general.architecture", "qwen2");
  g.u32("qwen2.block_count", 1).u32("qwen2.context_length", 64).u32("qwen2.embedding_length", 8);
  g.u32("qwen2.feed_forward_length", 12).u32("qwen2.attention.head_count", 2);
  g.u32("qwen2.attention.head_count_kv", 1);
  g.f32("qwen2.attention.layer_norm_rms_epsilon", 1e-6f);
  g.string("tokenizer.ggml.model", "gpt2").string("tokenizer.ggml.pre", "gpt-2");
  g.strings("tokenizer.ggml.tokens", {"<e>", "a", "b", "ab", "c"});
  g.strings("tokenizer.ggml.merges", {"a b"});
  g.u32("tokenizer.ggml.eos_token_id", 0);
  return g;
}

inline GgufImage& tiny_qwen2_tensors(GgufImage& g, bool with_output = false) {
  g.tensor("token_embd.weight", {8, 6}).tensor("output_norm.weight", {8});
  if (with_output) g.tensor("output.weight", {8, 6});
  g.tensor("blk.0.attn_norm.weight", {8}).tensor("blk.0.ffn_norm.weight", {8});
  g.tensor("blk.0.attn_q.weight", {8, 8}).tensor("blk.0.attn_q.bias", {8});
  g.tensor("blk.0.attn_k.weight", {8, 4}).tensor("blk.0.attn_k.bias", {4});
  g.tensor("blk.0.attn_v.weight", {8, 4}).tensor("blk.0.attn_v.bias", {4});
  g.tensor("blk.0.attn_output.weight", {8, 8}).tensor("blk.0.ffn_gate.weight", {8, 12});
  return g.tensor("blk.0.ffn_up.weight", {8, 12}).tensor("blk.0.ffn_down.weight", {12, 8});
}

}  // namespace strata::weights
