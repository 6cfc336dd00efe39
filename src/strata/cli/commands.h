// One declaration for each command's file.
#pragma once

#include "strata/cli/command.h"

namespace strata::cli {

Command convert_command();      // convert.cc
Command generate_command();     // generate.cc
Command import_gguf_command();  // import_gguf.cc
Command inspect_command();      // inspect.cc
Command lint_command();         // lint.cc
Command plan_command();         // plan.cc
Command score_command();        // score.cc
Command tokenize_command();     // tokenize.cc
Command train_command();        // train.cc
Command version_command();      // version.cc

}  // namespace strata::cli
