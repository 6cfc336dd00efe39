// Session: a model directory opened on a device, with its tokenizer: what every training and
// sampling run starts from.
#pragma once

#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "strata/base/config.h"
#include "strata/data/chat_template.h"
#include "strata/data/tokenizer.h"
#include "strata/models/causal_lm.h"
#include "strata/nn/fake_quant.h"
#include "strata/nn/lora.h"
#include "strata/nn/structure.h"
#include "strata/rl/task.h"
#include "strata/runtime/array.h"
#include "strata/runtime/compile.h"

namespace strata::rl {

struct SessionOptions {
  std::filesystem::path model;  // a Hugging Face directory
  std::string plugin = "cpu";   // name or path
  nn::ScanOptions scan = {};
  sharding::PlacementOptions placement = {};
  std::optional<nn::FakeQuantConfig> fake_quant = {};  // compute with rounded kernels
  std::optional<nn::LoraConfig> lora = {};  // train adapters in place of the model's parameters
  uint64_t seed = 0;                        // of what new adapters start from
};

// The table [fake_quant], where there is one: format (int8, fp8_e4m3), per_channel, targets (globs
// of linear maps' paths). Throws naming file:line and key.
std::optional<nn::FakeQuantConfig> read_fake_quant(Config& config);

// The table [lora], where there is one: rank, alpha, targets (globs of linear maps' paths), rslora.
// Throws naming file:line and key; nn.lora_config.
std::optional<nn::LoraConfig> read_lora(Config& config);

// Keys sharding.mesh ("fsdp=2,tensor=2"; absent = one device), sharding.rules (["embed = fsdp"]; of
// the family's rules those of the same name are replaced), sharding.strict.
sharding::PlacementOptions read_placement(Config& config);

// Keys of read_placement, read_fake_quant and read_lora, run.seed, model.path, layers.scan,
// layers.remat, layers.param_scan_axis, layers.nested.
SessionOptions read_session_options(Config& config);

struct Session {
  SessionOptions options;
  std::unique_ptr<models::CausalLm> model;
  std::unique_ptr<nn::Structure> structure;
  std::optional<data::Tokenizer> tokenizer;
  std::optional<data::ChatTemplate> chat;  // absent when the directory has no template
  std::shared_ptr<runtime::Compiler> compiler;
  std::vector<bool> is_new;  // by slot of the manifest: not in the model directory

  // Ids of a conversation up to where the assistant's answer begins. Throws failed_precondition
  // (rl.no_chat_template) when the model has no chat template.
  std::vector<int32_t> prompt_ids(const std::vector<Message>& messages) const;
  // Float32 parameters from the model directory. Adapters and scales that it has not start as
  // nn::Lora and nn::FakeQuant say.
  std::vector<runtime::Array> load_parameters() const;
  // Ids that end an answer (sample::GenerationConfig::eos).
  std::vector<int32_t> eos_ids() const;
};

// Opens model (shapes only), with its transforms, and tokenizer; programs are compiled by
// `compiler`, on its client's first devices, as many as the mesh has. What could not be sharded as
// wished is told on stderr. Throws what opening throws; invalid_argument (rl.tokenizer_fit) when
// the tokenizer has more ids than the model has rows; failed_precondition (rl.transform_differs)
// when the directory has adapters or scales of another configuration than the options.
Session open_session(const SessionOptions& options, std::shared_ptr<runtime::Compiler> compiler);

}  // namespace strata::rl
