#include "strata/nn/taps.h"

#include <algorithm>

#include "strata/base/error.h"
#include "strata/base/strings.h"
#include "strata/nn/layer_stack.h"

namespace strata::nn {

TapSink::TapSink(const Structure& structure, std::vector<std::string> names)
    : names_(names.begin(), names.end()) {
  const std::vector<std::string>& known = structure.taps();
  for (const std::string& name : names) {
    if (std::find(known.begin(), known.end(), name) != known.end()) continue;
    std::string near = nearest(name, known);
    fail({.id = "nn.unknown_tap",
          .where = "taps",
          .expected = known.empty() ? "no names, as the model has no taps" : join(known, ", "),
          .got = "'" + name + "'",
          .cure = near.empty() ? "" : "Did you mean '" + near + "'?",
          .code = Code::not_found});
  }
}

bool TapSink::wants(const Tap& tap) const { return names_.contains(common_path(tap)); }

const TapValue& TapSink::at(const std::string& name) const {
  for (const TapValue& v : values_) {
    if (v.name == name) return v;
  }
  fail({.id = "nn.tap_not_emitted",
        .where = "taps",
        .expected = "'" + name + "' wanted and emitted by the traced call",
        .got = std::to_string(values_.size()) + " other taps",
        .code = Code::failed_precondition});
}

}  // namespace strata::nn
