// A run's adapters on disk: in its checkpoints' configuration, merged in the export, and in PEFT's
// form.
#pragma once

#include <filesystem>
#include <vector>

#include "strata/base/json.h"
#include "strata/checkpoint/export_hf.h"
#include "strata/models/causal_lm.h"
#include "strata/rl/session.h"

namespace strata::rl {

// config.json for the checkpoints of the session's model, which says what transforms it has. Null
// where the model directory's own does.
Json checkpoint_config(const Session& session);

// Throws failed_precondition (rl.transform_resume) when the checkpoint is of a model with other
// transforms.
void check_transforms(const std::filesystem::path& checkpoint, const models::CausalLm& model);

// The adapters of `model` for checkpoint::export_hf.
std::vector<checkpoint::LowRankMerge> merges_of(const models::CausalLm& model);

// `config`, a config.json, for an export that merges the adapters: without them.
Json merged_config(const Json& config, const models::CausalLm& model);

// As export_hf wants them for the session's model; without adapters as they are by default.
checkpoint::ExportOptions export_options(const Session& session);

// The model's adapters as PEFT's adapter_config.json. `base` names the model they belong to. Null
// unless it has adapters of one configuration.
Json peft_config(const models::CausalLm& model, const std::string& base);

}  // namespace strata::rl
