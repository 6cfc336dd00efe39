#include "strata/transform/lower.h"

namespace strata::transform {
namespace {

using ir::Function;
using ir::Node;
using ir::Region;
using ir::RegionScope;
using ir::Value;
using ir::ValueMap;
using ir::Values;

class Lowering {
 public:
  explicit Lowering(Function& target) : f_(target) {}

  // Copies what the region's results need into the region being traced.
  Values body(const Region& source, ValueMap& map) {
    for (Node* n : ir::post_order(source.results, &source)) {
      if (n->def != &ir::kParameter) node(*n, map);
    }
    Values results;
    for (const Value& v : source.results) results.push_back(map.at(v));
    return results;
  }

 private:
  void node(Node& n, ValueMap& map) {
    Values operands;
    for (const Value& v : n.operands) operands.push_back(map.at(v));
    ir::LocationScope at(f_, n.loc);
    // Bodies first, so that a rule that inlines its region sees printable ops only.
    Node copy = bare(n);
    for (const auto& r : n.regions) copy.regions.push_back(region(*r));
    Values results;
    if (n.def->lower != nullptr) {
      results = n.def->lower(copy, operands);
    } else {
      Node& out = f_.clone(copy, std::move(operands));
      for (size_t i = 0; i < n.results.size(); ++i) {
        results.push_back(out.result(static_cast<int>(i)));
      }
    }
    for (size_t i = 0; i < n.results.size(); ++i) {
      map[n.result(static_cast<int>(i))] = results[i];
    }
  }

  Node bare(const Node& n) {
    Node copy;
    copy.def = n.def;
    copy.function = &f_;
    copy.operands = n.operands;
    copy.attributes = n.attributes;
    copy.results = n.results;
    copy.loc = n.loc;
    return copy;
  }

  std::unique_ptr<Region> region(const Region& source) {
    RegionScope scope(f_);
    ValueMap map;
    for (const Value& p : source.params) map[p] = scope.parameter(p.type());
    scope.close(body(source, map));
    return scope.take();
  }

  Function& f_;
};

}  // namespace

std::unique_ptr<Function> lower(const Function& source) {
  auto out = std::make_unique<Function>(source.name());
  out->set_mesh(source.mesh());
  out->module_header = source.module_header;
  out->num_partitions = source.num_partitions;
  ValueMap map;
  for (const Value& p : source.top().params) map[p] = out->parameter(p.type());
  Values results = Lowering(*out).body(source.top(), map);
  out->argument_ports() = source.argument_ports();
  out->set_results(std::move(results), source.result_ports());
  return out;
}

std::string program_text(const Function& function, bool locations) {
  return ir::print_module(*lower(function), locations);
}

}  // namespace strata::transform
