// Which prompts a step trains on.
#pragma once

#include <cstdint>
#include <filesystem>
#include <span>
#include <vector>

#include "strata/rl/task.h"

namespace strata::rl {

// Problems from a JSON-lines file: {"messages": [...]} or {"prompt": "..."}, with optional "id",
// "answer" and "meta". Throws data_loss (rl.prompt_line) naming file:line; invalid_argument
// (rl.prompts_empty) when the file holds none.
std::vector<Example> read_prompts(const std::filesystem::path& path);

// The examples of step `step`: `count` in a row of an endless order that visits every example once
// an epoch, each epoch shuffled by (seed, epoch). A pure function, so that a resumed run goes on
// exactly where it was. Throws invalid_argument (rl.prompts_empty) for no examples.
std::vector<const Example*> prompts_of_step(std::span<const Example> examples, int64_t step,
                                            int64_t count, uint64_t seed);

}  // namespace strata::rl
