// For the tests of room runtime.
#pragma once

#include "strata/testing/scratch_directory.h"

namespace strata::runtime {

using ScratchDir = strata::testing::ScratchDirectory;

}  // namespace strata::runtime
