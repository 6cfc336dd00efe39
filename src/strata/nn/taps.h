// Taps wanted as outputs of a traced call.
#pragma once

#include <set>
#include <string>
#include <vector>

#include "strata/ir/ir.h"
#include "strata/nn/module.h"
#include "strata/nn/structure.h"

namespace strata::nn {

struct TapValue {
  std::string name;             // as Structure::taps() lists it
  std::vector<int64_t> layers;  // of a stack's tap: the layers that have it, ascending
  ir::Value value;              // stacked over those layers on dim 0; as emitted outside of stacks
};

// Says which taps are wanted, and receives them while a model is traced. One call, one sink.
class TapSink {
 public:
  // `names` as Structure::taps() lists them. Throws not_found with the nearest name.
  TapSink(const Structure& structure, std::vector<std::string> names);

  bool wants(const Tap& tap) const;
  // Called by stacks and Context::tap.
  void put(TapValue value) { values_.push_back(std::move(value)); }
  // The value of a wanted tap. Throws failed_precondition when the traced call emitted none.
  const TapValue& at(const std::string& name) const;
  const std::vector<TapValue>& values() const { return values_; }

 private:
  std::set<std::string> names_;
  std::vector<TapValue> values_;
};

}  // namespace strata::nn
