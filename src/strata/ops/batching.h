// Lowered bodies with a first dim added to whatever depends on it. Internal to room ops: parts.h.
#pragma once

#include <string>
#include <unordered_map>
#include <vector>

#include "strata/ir/ir.h"

namespace strata::ops {

// A value, with or without the dim that counts the parts in front of its own.
struct PartValue {
  ir::Value value;
  bool split = false;
};

// Copies bodies into the region being traced. Bodies are lowered: loops are `while`, and scans,
// calls and tags are gone.
class Batching {
 public:
  Batching(ir::Function& function, int64_t parts, std::string axes_text)
      : f_(function), parts_(parts), axes_text_(std::move(axes_text)) {}

  // The body's results for these arguments.
  std::vector<PartValue> run(const ir::Region& body, const std::vector<PartValue>& arguments);
  // The value with the first dim, equal on all parts where it had none.
  ir::Value spread(const PartValue& v);

 private:
  using Map = std::unordered_map<ir::Value, PartValue, ir::ValueHash>;
  using Flags = std::vector<bool>;

  std::vector<PartValue> node(ir::Node& n, const std::vector<PartValue>& in);
  std::vector<PartValue> added(const ir::Node& n, ir::Values operands, ir::Attributes attributes);
  std::vector<PartValue> one(ir::Value value) { return {{value, true}}; }
  ir::Values spread_all(const std::vector<PartValue>& in);
  ir::Value dot(const ir::Node& n, const std::vector<PartValue>& in);
  ir::Value gathered(const ir::Node& n, const std::vector<PartValue>& in);
  ir::Value scattered(const ir::Node& n, const std::vector<PartValue>& in);
  ir::Value shaped(const ir::Node& n, const std::vector<PartValue>& in);
  ir::Value dynamic(const ir::Node& n, const std::vector<PartValue>& in);
  ir::Value constrained(const ir::Node& n, ir::Value x);
  std::vector<PartValue> loop(const ir::Node& n, const std::vector<PartValue>& in);
  std::vector<PartValue> branches(const ir::Node& n, const std::vector<PartValue>& in);
  Flags flags_of(const ir::Region& body, const Flags& arguments) const;
  Flags loop_flags(const ir::Node& n, Flags flags) const;
  std::unique_ptr<ir::Region> region(const ir::Region& body, const std::vector<PartValue>& like,
                                     const Flags& arguments, const Flags& results);

  ir::Function& f_;
  int64_t parts_;
  std::string axes_text_;  // `{"data"}`
};

}  // namespace strata::ops
