// A temporary directory of small files; used by tests only.
#pragma once

#include <filesystem>
#include <string>
#include <string_view>

#include "strata/base/json.h"
#include "strata/testing/scratch_directory.h"

namespace strata::sample {

class Directory {
 public:
  std::filesystem::path write_text(const std::string& name, std::string_view text) const {
    return scratch_.write(name, text);
  }
  void write(const std::string& name, const Json& json) const { write_text(name, json.dump()); }
  const std::filesystem::path& path() const { return scratch_.path(); }

 private:
  strata::testing::ScratchDirectory scratch_;
};

}  // namespace strata::sample
