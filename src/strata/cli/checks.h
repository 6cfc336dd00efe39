// Checks of option values.
#pragma once

#include <functional>
#include <string>

#include "strata/base/error.h"

namespace strata::cli {

// A check for CLI11's Option::check, which wants the fault as text and empty for none: runs
// `parse`, which throws strata::Error on a value it does not know.
inline std::function<std::string(const std::string&)> parses_with(
    std::function<void(const std::string&)> parse) {
  return [parse](const std::string& value) {
    try {
      parse(value);
      return std::string();
    } catch (const Error& e) {
      return e.message();
    }
  };
}

}  // namespace strata::cli
