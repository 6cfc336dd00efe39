// What a GGUF file says about its model, in Hugging Face's terms: config.json and the name, shape
// and row order of every tensor.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "strata/base/json.h"
#include "strata/weights/gguf.h"

namespace strata::weights {

// One tensor to convert.
struct GgufTensorPlan {
  const GgufTensor* source = nullptr;
  std::string name;  // in the Hugging Face model
  Dims dims;
  // Not 0 for the query and key projections of llama files, whose rows GGUF orders for rotation of
  // adjacent pairs: row 2i + p of a head is row p * head_dim/2 + i in Hugging Face's order.
  int64_t head_dim = 0;
};

struct GgufModelPlan {
  Json config;  // config.json, without token ids
  int64_t vocab_size = 0;
  int64_t context_length = 0;
  std::vector<GgufTensorPlan> tensors;
};

// Reads the architectures llama, qwen2 and qwen3 (general.architecture). Every tensor of the file
// is accounted for. Throws not_found or invalid_argument naming the metadata key, one
// invalid_argument listing missing, unexpected and misshapen tensors, and unimplemented for what
// Hugging Face's model of that type cannot express or Strata does not read (mixtures of experts,
// sliding windows, partial rotation, unknown rope scalings). Pointers live as long as `file`.
GgufModelPlan plan_gguf_model(const GgufFile& file);

}  // namespace strata::weights
