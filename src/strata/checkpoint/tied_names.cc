#include "strata/checkpoint/tied_names.h"

#include <algorithm>

#include "strata/base/error.h"

namespace strata::checkpoint {

using weights::TensorView;

namespace {

std::vector<std::string> unstacked(const std::string& name) {
  auto parsed = sharding::parse_stacked_name(name);
  return parsed ? parsed->layer_names() : std::vector<std::string>{name};
}

bool same_bits(const TensorView& a, const TensorView& b) {
  if (a.dtype != b.dtype || a.dims != b.dims) return false;
  std::vector<std::byte> gathered_a, gathered_b;
  auto x = weights::contiguous(a, gathered_a), y = weights::contiguous(b, gathered_b);
  return std::equal(x.begin(), x.end(), y.begin(), y.end());
}

}  // namespace

std::vector<std::pair<std::string, std::string>> tied_names(const sharding::Manifest& model) {
  std::vector<std::pair<std::string, std::string>> out;
  for (const sharding::Tie& tie : model.ties()) {
    std::vector<std::string> owners = unstacked(tie.owner);
    size_t i = 0;
    for (std::string& alias : unstacked(tie.alias)) {
      // One owner may have a name in every layer.
      out.emplace_back(std::move(alias), owners[std::min(i++, owners.size() - 1)]);
    }
  }
  return out;
}

std::vector<std::string> with_aliases(std::vector<std::string> ignorable,
                                      const sharding::Manifest& model) {
  for (auto& names : tied_names(model)) ignorable.push_back(std::move(names.first));
  return ignorable;
}

void check_tied(const weights::TensorSource& source, const sharding::Manifest& model) {
  for (const auto& [alias, owner] : tied_names(model)) {
    const TensorView* second = source.find(alias);
    const TensorView* first = source.find(owner);
    if (first == nullptr || second == nullptr) continue;
    require(same_bits(*first, *second),
            {.id = "checkpoint.tied",
             .where = source.path().string(),
             .expected = "'" + alias + "' with the bits of '" + owner +
                         "', as the model ties the two to one parameter",
             .got = shape_text(first->dtype, first->dims) + " and " +
                    shape_text(second->dtype, second->dims) + " that differ",
             .cure = "Set tie_word_embeddings to false in config.json if they are two parameters, "
                     "or remove '" +
                     alias + "'"});
    source.release(*first);
    source.release(*second);
  }
}

}  // namespace strata::checkpoint
