#include "strata/weights/stacked_tree.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <map>
#include <set>
#include <utility>

#include "strata/base/error.h"
#include "strata/base/json.h"
#include "strata/base/log.h"
#include "strata/base/strings.h"
#include "strata/weights/hf_directory.h"

namespace strata::weights {
namespace {

namespace fs = std::filesystem;

constexpr const char* kConvert =
    "`strata convert SRC DST --to hf` (or stacked, cycle) writes the other forms";

// A wanted tensor of one layer.
struct Leaf {
  std::string name;
  const Wanted* wanted = nullptr;
};
// By number.
using Layers = std::map<int64_t, std::vector<Leaf>>;

// Layers that lie in one stacked tensor a leaf: `inner` neighbours a cycle, `first` the position of
// the first of them in the cycle.
struct Group {
  std::string prefix;  // "model.layers." or "model.layers.layer_2."
  int64_t first = 0;
  int64_t inner = 1;
};

// A leaf of a group: the stacked tensor and the dims of one layer.
struct Member {
  const TensorView* whole = nullptr;
  const Wanted* one = nullptr;
};

// Whether `whole` is `one` with `extra` dims inserted at `axis`.
bool fits(const Dims& whole, const Dims& one, size_t axis, size_t extra) {
  if (whole.size() != one.size() + extra || axis > one.size()) return false;
  for (size_t i = 0; i < one.size(); ++i) {
    if (whole[i < axis ? i : i + extra] != one[i]) return false;
  }
  return true;
}

// Where the layer dim stands in a tensor of this rank.
size_t placed(int64_t axis, size_t rank) {
  auto r = static_cast<int64_t>(rank);
  return static_cast<size_t>(std::clamp<int64_t>(axis < 0 ? axis + r + 1 : axis, 0, r));
}

// One stack of the tree, or a part of one that names its layers.
class Stack {
 public:
  Stack(const TensorSource& tree, std::string name, const Layers& wanted, const TreeDemand& demand)
      : tree_(tree), name_(std::move(name)), demand_(demand) {
    for (const auto& [layer, leaves] : wanted) {
      bool own = std::any_of(leaves.begin(), leaves.end(), [&](const Leaf& leaf) {
        return tree_.find(leaf.wanted->name) != nullptr;
      });
      if (!own) layers_.emplace_back(layer, &leaves);
    }
    find_groups();
    if (groups_.empty()) return;
    measure_groups();
    axis_ = choose_axis();
  }

  bool is_stacked() const { return !groups_.empty(); }
  int64_t axis() const { return axis_; }

  // Adds the layers' views, and to `used` the tensors that they are parts of.
  void add(std::vector<UnstackedTensor>& out, std::set<const TensorView*>& used) const {
    for (size_t i = 0; i < layers_.size(); ++i) {
      const auto at = static_cast<int64_t>(i);
      const Group& group = group_of(at % cycle_);
      int64_t index = at / cycle_ * group.inner + at % cycle_ - group.first;
      for (const Leaf& leaf : *layers_[i].second) {
        const TensorView* whole = tree_.find(group.prefix + leaf.name);
        if (whole == nullptr) continue;  // missing: the comparison with what is wanted tells
        const bool last = index == repeats_ * group.inner - 1;
        out.push_back({view(*whole, *leaf.wanted, index), last ? whole : nullptr});
        used.insert(whole);
      }
    }
  }

 private:
  using Placements = std::vector<size_t>;  // one a member

  void find_groups() {
    if (layers_.empty()) return;
    auto starts = [&](const std::string& prefix) {
      return std::any_of(tree_.tensors().begin(), tree_.tensors().end(),
                         [&](const TensorView& t) { return t.name.starts_with(prefix); });
    };
    for (int64_t slot = 0; starts(fmt::format("{}.layer_{}.", name_, slot)); ++slot) {
      groups_.push_back({fmt::format("{}.layer_{}.", name_, slot)});
    }
    if (!groups_.empty()) return;
    for (const auto& layer : layers_) {
      for (const Leaf& leaf : *layer.second) {
        if (tree_.find(name_ + "." + leaf.name) == nullptr) continue;
        groups_.push_back({name_ + "."});
        return;
      }
    }
  }

  // Which layers a group holds follows from the ranks: a leaf with two dims more than one layer's
  // has an inner layer dim.
  void measure_groups() {
    for (Group& group : groups_) {
      group.first = cycle_;
      if (static_cast<size_t>(cycle_) < layers_.size()) group.inner = inner_layers(group);
      cycle_ += group.inner;
    }
    const auto count = static_cast<int64_t>(layers_.size());
    require(count % cycle_ == 0,
            {.id = "weights.layer_cycle",
             .where = fmt::format("{}, stack '{}'", tree_.path().string(), name_),
             .expected = fmt::format("{} layers as a multiple of a cycle of {}", count, cycle_),
             .got = fmt::format("{} over", count % cycle_),
             .cure = "Give the layers that are left over tensors of their own"});
    repeats_ = count / cycle_;
    for (const Group& group : groups_) {
      for (const Leaf& leaf : *layers_[static_cast<size_t>(group.first)].second) {
        const TensorView* whole = tree_.find(group.prefix + leaf.name);
        if (whole == nullptr) continue;
        members_.push_back({whole, leaf.wanted});
        inner_.push_back(group.inner);
      }
    }
  }

  int64_t inner_layers(const Group& group) const {
    std::optional<int64_t> said = demand_.axis ? demand_.axis : advised_axis();
    std::set<int64_t> sizes;
    for (const Leaf& leaf : *layers_[static_cast<size_t>(group.first)].second) {
      const TensorView* whole = tree_.find(group.prefix + leaf.name);
      const Dims& one = leaf.wanted->dims;
      if (whole == nullptr || whole->dims.size() != one.size() + 2) continue;
      std::set<int64_t> own;
      for (size_t axis = 0; axis <= one.size(); ++axis) {
        if (said && placed(*said, one.size()) != axis) continue;
        if (fits(whole->dims, one, axis, 2)) own.insert(whole->dims[axis + 1]);
      }
      if (sizes.empty()) sizes = own;
      std::erase_if(sizes, [&](int64_t size) { return own.count(size) == 0; });
    }
    return sizes.size() == 1 ? std::max<int64_t>(1, *sizes.begin()) : 1;
  }

  std::optional<int64_t> advised_axis() const {
    auto hint = tree_.metadata().find("param_scan_axis");
    if (hint == tree_.metadata().end()) return std::nullopt;
    int64_t axis = 0;
    const char* end = hint->second.data() + hint->second.size();
    bool number = std::from_chars(hint->second.data(), end, axis).ptr == end;
    return number ? std::optional(axis) : std::nullopt;
  }

  // Where every member's layer dim stands if the stack's axis is `axis`; nothing when one does not
  // fit.
  std::optional<Placements> placements(int64_t axis) const {
    Placements out;
    for (size_t i = 0; i < members_.size(); ++i) {
      const Dims& whole = members_[i].whole->dims;
      const Dims& one = members_[i].one->dims;
      size_t at = placed(axis, one.size());
      const size_t extra = whole.size() == one.size() + 2 ? 2 : 1;
      bool right =
          fits(whole, one, at, extra) && whole[at] == repeats_ * (extra == 1 ? inner_[i] : 1);
      if (right && extra == 2) right = whole[at + 1] == inner_[i];
      if (!right) return std::nullopt;
      out.push_back(at);
    }
    return out;
  }

  int64_t choose_axis() const {
    if (demand_.axis) {
      if (placements(*demand_.axis)) return *demand_.axis;
      fail_axis(fmt::format("a layer dim of {} at axis {}", repeats_, *demand_.axis),
                "weights.tree_form", Code::failed_precondition, kConvert);
    }
    size_t rank = 0;
    for (const Member& m : members_) rank = std::max(rank, m.one->dims.size());
    std::map<Placements, int64_t> found;
    for (size_t axis = 0; axis <= rank; ++axis) {
      auto at = placements(static_cast<int64_t>(axis));
      if (at) found.emplace(std::move(*at), static_cast<int64_t>(axis));
    }
    if (found.size() == 1) return found.begin()->second;
    std::optional<int64_t> advised = advised_axis();
    if (found.size() > 1 && advised && placements(*advised)) return *advised;
    fail_axis(fmt::format("one axis at which each has a layer dim of {}", repeats_),
              "weights.layer_axis", Code::invalid_argument,
              found.empty()
                  ? "Check that the configuration and the weights belong to one model"
                  : fmt::format("{} axes fit: say which, with `strata convert SRC DST --to "
                                "hf --from-axis K` or as param_scan_axis in the "
                                "safetensors metadata",
                                found.size()));
  }

  [[noreturn]] void fail_axis(std::string expected, std::string_view id, Code code,
                              std::string cure) const {
    constexpr size_t kShown = 3;
    std::vector<std::string> shown;
    for (const Member& m : members_) {
      if (shown.size() == kShown) break;
      shown.push_back(fmt::format("{} {} for layers of {}", m.whole->name, list_text(m.whole->dims),
                                  list_text(m.one->dims)));
    }
    fail({.id = id,
          .where = fmt::format("{}, stack '{}'", tree_.path().string(), name_),
          .expected = std::move(expected),
          .got = join(shown, ", ") + (members_.size() > kShown ? ", …" : ""),
          .cure = std::move(cure),
          .code = code});
  }

  const Group& group_of(int64_t position) const {
    size_t i = groups_.size() - 1;
    while (i > 0 && groups_[i].first > position) --i;
    return groups_[i];
  }

  // Layer `index` of a stacked tensor.
  TensorView view(const TensorView& whole, const Wanted& one, int64_t index) const {
    TensorView out = whole;
    out.name = one.name;
    const size_t extra = whole.dims.size() - std::min(whole.dims.size(), one.dims.size());
    const size_t at = placed(axis_, one.dims.size());
    // A layer unlike its neighbours in the same tensor: the comparison with what is wanted tells.
    if (extra == 0 || extra > 2 || !fits(whole.dims, one.dims, at, extra)) return out;
    out.dims = one.dims;
    size_t inner = size_of(whole.dtype);
    for (size_t i = at; i < one.dims.size(); ++i) inner *= static_cast<size_t>(one.dims[i]);
    size_t stride = inner * static_cast<size_t>(whole.dims[at]);
    if (extra == 2) stride *= static_cast<size_t>(whole.dims[at + 1]);
    const size_t begin = static_cast<size_t>(index) * inner;
    const size_t outer = stride == 0 ? 0 : whole.bytes.size() / stride;
    out.offset += begin;
    if (outer * inner == 0) {
      out.bytes = {};
      return out;
    }
    out.bytes = whole.bytes.subspan(begin, (outer - 1) * stride + inner);
    if (outer > 1) {
      out.run = inner;
      out.stride = stride;
    }
    return out;
  }

  const TensorSource& tree_;
  std::string name_;
  const TreeDemand& demand_;
  std::vector<std::pair<int64_t, const std::vector<Leaf>*>> layers_;  // those without tensors
  std::vector<Group> groups_;
  std::vector<Member> members_;
  std::vector<int64_t> inner_;  // one a member
  int64_t cycle_ = 0, repeats_ = 0, axis_ = 0;
};

// "12_" at the beginning of `text`, which is taken from there; nothing when it does not begin so.
std::optional<int64_t> take_number(std::string_view& text, char end) {
  int64_t value = 0;
  const char* last = text.data() + text.size();
  auto parsed = std::from_chars(text.data(), last, value);
  if (parsed.ec != std::errc() || parsed.ptr == last || *parsed.ptr != end) return std::nullopt;
  text.remove_prefix(static_cast<size_t>(parsed.ptr + 1 - text.data()));
  return value;
}

// The parts of a stack that name their layers, and at the end, under the stack's own name, the
// layers that no part names.
std::vector<std::pair<std::string, Layers>> parts_of(const TensorSource& tree,
                                                     const std::string& stack, Layers layers) {
  std::set<std::pair<int64_t, int64_t>> bounds;
  const std::string prefix = stack + ".layers_";
  for (const TensorView& t : tree.tensors()) {
    if (!t.name.starts_with(prefix)) continue;
    std::string_view rest = std::string_view(t.name).substr(prefix.size());
    auto begin = take_number(rest, '_');
    auto end = begin ? take_number(rest, '.') : std::nullopt;
    if (end) bounds.emplace(*begin, *end);
  }
  std::vector<std::pair<std::string, Layers>> parts;
  for (const auto& [begin, end] : bounds) {
    Layers part;
    for (auto it = layers.lower_bound(begin); it != layers.end() && it->first < end;) {
      part.insert(layers.extract(it++));
    }
    parts.emplace_back(fmt::format("{}{}_{}", prefix, begin, end), std::move(part));
  }
  parts.emplace_back(stack, std::move(layers));
  return parts;
}

// What `scan_layers` says in the metadata and in config.json, and where it says so.
std::vector<std::pair<bool, std::string>> flags_of(const TensorSource& tree) {
  std::vector<std::pair<bool, std::string>> flags;
  auto found = tree.metadata().find("scan_layers");
  if (found != tree.metadata().end()) {
    const std::string& text = found->second;
    bool yes = text == "true" || text == "True";
    if (yes || text == "false" || text == "False") {
      flags.emplace_back(yes, tree.path().string() + ", its metadata,");
    }
  }
  std::error_code ec;
  fs::path config = config_path(tree.path());
  if (!fs::is_directory(tree.path(), ec) || !fs::exists(config, ec)) return flags;
  Json json = read_json(config);
  auto flag = json.is_object() ? json.find("scan_layers") : json.end();
  bool says = json.is_object() && flag != json.end() && flag->is_boolean();
  if (says) flags.emplace_back(flag->get<bool>(), config.string());
  return flags;
}

void compare_flags(const TensorSource& tree, bool stacked) {
  for (const auto& [flag, place] : flags_of(tree)) {
    if (flag == stacked) continue;
    log_warning(fmt::format("{} says scan_layers = {}, but the tensors are {}: the tensors decide",
                            place, flag, stacked ? "stacked" : "one a layer"));
  }
}

void check_demand(const TensorSource& tree, bool stacked, const TreeDemand& demand) {
  // An axis speaks of stacked tensors.
  std::optional<bool> asked = demand.axis && !demand.stacked ? true : demand.stacked;
  if (!asked || *asked == stacked) return;
  std::string text = *asked ? "stacked tensors" : "one tensor a layer";
  if (demand.axis) text += fmt::format(" with the layer dim at axis {}", *demand.axis);
  fail({.id = "weights.tree_form",
        .where = tree.path().string(),
        .expected = text + ", as was asked for",
        .got = stacked ? "stacked tensors" : "one tensor a layer",
        .cure = kConvert,
        .code = Code::failed_precondition});
}

}  // namespace

std::optional<LayerName> parse_layer_name(std::string_view name) {
  size_t begin = 0;
  while (true) {
    size_t dot = name.find('.', begin);
    if (dot == std::string_view::npos) return std::nullopt;
    int64_t layer = 0;
    std::string_view part = name.substr(begin, dot - begin);
    auto parsed = std::from_chars(part.data(), part.data() + part.size(), layer);
    bool number = parsed.ec == std::errc() && parsed.ptr == part.data() + part.size() && layer >= 0;
    if (number && begin > 0) {
      return LayerName{std::string(name.substr(0, begin - 1)), layer,
                       std::string(name.substr(dot + 1))};
    }
    begin = dot + 1;
  }
}

UnstackedSource::UnstackedSource(const TensorSource& tree, std::vector<UnstackedTensor> tensors)
    : tree_(tree) {
  for (UnstackedTensor& t : tensors) {
    tensors_.push_back(std::move(t.view));
    releases_.push_back(t.consumed);
  }
  for (size_t i = 0; i < tensors_.size(); ++i) by_name_[tensors_[i].name] = i;
}

const TensorView* UnstackedSource::find(std::string_view name) const {
  auto it = by_name_.find(name);
  return it == by_name_.end() ? nullptr : &tensors_[it->second];
}

void UnstackedSource::release(const TensorView& tensor) const {
  auto it = by_name_.find(tensor.name);
  const TensorView* consumed = it == by_name_.end() ? nullptr : releases_[it->second];
  if (tensor.run == 0) tree_.release(tensor);
  if (tensor.run != 0 && consumed != nullptr) tree_.release(*consumed);
}

std::unique_ptr<TensorSource> unstack(const TensorSource& tree, std::span<const Wanted> wanted,
                                      const TreeDemand& demand) {
  std::map<std::string, Layers> stacks;
  for (const Wanted& w : wanted) {
    auto parts = parse_layer_name(w.name);
    if (parts) stacks[parts->stack][parts->layer].push_back({parts->leaf, &w});
  }
  std::vector<UnstackedTensor> views;
  std::set<const TensorView*> used;
  bool stacked = false;
  for (const auto& [name, layers] : stacks) {
    for (const auto& [part, its_layers] : parts_of(tree, name, layers)) {
      Stack stack(tree, part, its_layers, demand);
      if (!stack.is_stacked()) continue;
      stacked = true;
      stack.add(views, used);
    }
  }
  check_demand(tree, stacked, demand);
  compare_flags(tree, stacked);
  if (!stacked) return nullptr;
  for (const TensorView& t : tree.tensors()) {
    if (used.count(&t) == 0) views.push_back({t, nullptr});
  }
  return std::make_unique<UnstackedSource>(tree, std::move(views));
}

}  // namespace strata::weights
