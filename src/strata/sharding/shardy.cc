#include "strata/sharding/shardy.h"

#include <fmt/format.h>

namespace strata::sharding {

std::string shardy_mesh(const Mesh& mesh) {
  std::string text;
  for (const MeshAxis& axis : mesh.axes()) {
    text += fmt::format("{}\"{}\"={}", text.empty() ? "" : ", ", axis.name, axis.size);
  }
  return "sdy.mesh @mesh = <[" + text + "]>";
}

std::string shardy_sharding(const std::vector<std::vector<std::string>>& axes) {
  std::string text;
  for (size_t i = 0; i < axes.size(); ++i) {
    text += i == 0 ? "{" : ", {";
    for (size_t k = 0; k < axes[i].size(); ++k) {
      text += (k == 0 ? "\"" : ", \"") + axes[i][k] + "\"";
    }
    text += "}";
  }
  return "#sdy.sharding<@mesh, [" + text + "]>";
}

}  // namespace strata::sharding
