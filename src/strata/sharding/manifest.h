// Manifest: the frozen structure of a model. Ordered named slots with their declared types, the
// ties between names, and the layer plans. nn, optim, transfer, checkpoint and sync speak in it.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "strata/base/json.h"
#include "strata/sharding/dim.h"
#include "strata/sharding/layer_plan.h"

namespace strata::sharding {

// A `param` is trained (unless its group freezes it); a `buffer` never is. An `adapter` is what a
// model transform declares beside frozen parameters to be trained in their place.
enum class Kind : uint8_t { param, buffer, adapter };

// "param", "buffer", "adapter".
std::string_view name_of(Kind kind);

struct Slot {
  std::string name = {};
  Kind kind = Kind::param;
  ParamType type = {};

  friend bool operator==(const Slot&, const Slot&) = default;
};

// A second name of one slot: "lm_head.weight" → "model.embed_tokens.weight". One owner, one slot.
struct Tie {
  std::string alias;
  std::string owner;

  friend bool operator==(const Tie&, const Tie&) = default;
};

// Immutable once made; safe to share between threads.
class Manifest {
 public:
  // Version of the JSON form.
  static constexpr int64_t kVersion = 1;

  Manifest() = default;
  // Throws invalid_argument or already_exists naming the slot when a name is empty or not UTF-8 or
  // occurs twice (aliases included), a tie's owner is no slot, a dim is negative, a mesh axis
  // shards one slot twice, or a plan is not lawful (check_plan).
  Manifest(std::vector<Slot> slots, std::vector<Tie> ties, std::vector<LayerPlan> plans);

  const std::vector<Slot>& slots() const { return slots_; }
  const std::vector<Tie>& ties() const { return ties_; }
  const std::vector<LayerPlan>& plans() const { return plans_; }
  size_t size() const { return slots_.size(); }

  // Position of the slot that owns `name` (a slot's name or an alias); -1 when there is none.
  int64_t find(std::string_view name) const;
  // As find, but throws not_found with the nearest known name.
  int64_t index_of(std::string_view name) const;
  const Slot& at(std::string_view name) const;

  // Elements and bytes over all slots of a kind.
  int64_t elements(Kind kind) const;
  int64_t bytes(Kind kind) const;

  // SHA-256 over the JSON form: equal structures, equal hashes, on every machine and compiler.
  std::string hash() const;

  // {"version", "slots": [{"name", "kind", "dtype", "dims": [{"size", "role", "name", "axes"}]}],
  //  "ties": [{"alias", "owner"}], "plans": [{"stack", "runs": [{"first", "cycle", "repeats",
  //  "scanned"}]}]}; a dim's role, name and axes are left out when they have their default.
  Json to_json() const;
  // Throws (naming `where` and the entry) on a wrong type, an unknown key or version, and whatever
  // the constructor refuses.
  static Manifest from_json(const Json& json, const std::string& where);

  friend bool operator==(const Manifest& a, const Manifest& b) {
    return a.slots_ == b.slots_ && a.ties_ == b.ties_ && a.plans_ == b.plans_;
  }

 private:
  std::vector<Slot> slots_;
  std::vector<Tie> ties_;
  std::vector<LayerPlan> plans_;
  std::map<std::string, int64_t, std::less<>> index_;
};

}  // namespace strata::sharding
