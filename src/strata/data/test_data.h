// Where the tests of this room find their data. Included by *_test.cc only.
#pragma once

#include <filesystem>
#include <string>

#include "strata/base/error.h"
#include "strata/base/json.h"

namespace strata::data {

inline std::filesystem::path data_path(const std::string& name) {
  return std::filesystem::path(STRATA_SOURCE_DIR) / "tests" / "testdata" / "data" / name;
}

// Runs `action` and returns the Error that it throws; an Error with id "nothing thrown" when it
// throws none.
template <class Action>
Error error_of(Action action) {
  try {
    action();
  } catch (const Error& e) {
    return e;
  }
  return Error(Code::unknown, "nothing thrown", "nothing thrown");
}

}  // namespace strata::data
