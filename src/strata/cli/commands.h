// One declaration for each command's file.
#pragma once

#include "strata/cli/command.h"

namespace strata::cli {

Command version_command();  // version.cc

}  // namespace strata::cli
