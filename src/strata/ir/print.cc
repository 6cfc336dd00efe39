#include <unordered_map>

#include "strata/ir/ir.h"
#include "strata/sharding/shardy.h"

namespace strata::ir {

std::string mlir_text(const Type& type) {
  std::string text = "tensor<";
  for (int64_t d : type.dims) text += std::to_string(d) + "x";
  return text + std::string(mlir_name(type.dtype)) + ">";
}

namespace {

std::string quoted(std::string_view raw) {
  std::string text = "\"";
  for (char c : raw) {
    if (c == '"' || c == '\\') text += '\\';
    text += c;
  }
  return text + "\"";
}

// Writes nodes post-order from the results; names are numbers in order of appearance.
class Printer {
 public:
  explicit Printer(bool locations) : locations_(locations) {}

  std::string module(const Function& f) {
    out_ = "module @" + f.name() +
           " attributes {mhlo.num_partitions = " + std::to_string(f.num_partitions) +
           " : i32, mhlo.num_replicas = 1 : i32} {\n";
    if (!f.module_header.empty()) out_ += f.module_header + "\n";
    out_ += "  func.func public @main(";
    const Region& top = f.top();
    for (size_t i = 0; i < top.params.size(); ++i) {
      if (i > 0) out_ += ", ";
      names_[top.params[i]] = "%arg" + std::to_string(i);
      out_ += names_[top.params[i]] + ": " + mlir_text(top.params[i].type());
      port_attributes(f, f.argument_ports()[i], top.params[i].rank());
    }
    out_ += ") -> (";
    for (size_t i = 0; i < top.results.size(); ++i) {
      if (i > 0) out_ += ", ";
      out_ += mlir_text(top.results[i].type());
      port_attributes(f, f.result_ports()[i], top.results[i].rank());
    }
    out_ += ") {\n";
    body(top, "func.return", 2);
    return out_ + "  }\n}\n";
  }

 private:
  // In memory every port is row-major ("default"), so what a step returns it can be given again.
  // Over a mesh every port is annotated, the replicated ones too: what is left open, the
  // partitioner lays out as it likes.
  void port_attributes(const Function& f, const Port& port, int64_t rank) {
    std::string text = port.attributes;
    text += (text.empty() ? "" : ", ") + std::string("mhlo.layout_mode = \"default\"");
    if (f.mesh().size() > 1) {
      auto axes = port.axes;
      axes.resize(static_cast<size_t>(rank));
      text += ", sdy.sharding = " + sharding::shardy_sharding(axes);
    }
    out_ += " {" + text + "}";
  }

  void body(const Region& region, std::string_view terminator, int depth) {
    for (Node* n : post_order(region.results, &region)) {
      if (n->def != &kParameter) node(*n, depth);
    }
    out_.append(static_cast<size_t>(depth) * 2, ' ');
    out_ += quoted(terminator);
    names(region.results);
    out_ += " : ";
    types(region.results);
    out_ += " -> ()\n";
  }

  void node(Node& n, int depth) {
    bool printable = n.def->lower == nullptr || n.def->print != nullptr;
    invariant(!n.def->dialect.empty() && printable, "ir.print_unlowered",
              "a printable op instead of " + place(n));
    out_.append(static_cast<size_t>(depth) * 2, ' ');
    if (!n.results.empty()) {
      std::string name = "%" + std::to_string(next_++);
      out_ += name;
      if (n.results.size() > 1) out_ += ":" + std::to_string(n.results.size());
      out_ += " = ";
      for (size_t i = 0; i < n.results.size(); ++i) {
        Value v = n.result(static_cast<int>(i));
        names_[v] = n.results.size() > 1 ? name + "#" + std::to_string(i) : name;
      }
    }
    out_ += quoted(std::string(n.def->dialect) + "." + std::string(n.def->name));
    std::span<const Value> shown = n.operands;
    if (n.def->region_captures) shown = shown.first(1);
    names(shown);
    regions(n, depth);
    if (n.def->print != nullptr) attributes(n.def->print(n));
    out_ += " : ";
    types(shown);
    out_ += " -> ";
    result_types(n);
    if (locations_ && !n.loc.empty()) out_ += " loc(" + quoted(n.loc) + ")";
    out_ += "\n";
  }

  void regions(Node& n, int depth) {
    if (n.regions.empty()) return;
    out_ += " (";
    for (size_t r = 0; r < n.regions.size(); ++r) {
      const Region& region = *n.regions[r];
      if (r > 0) out_ += ", ";
      out_ += "{\n";
      if (n.def->region_captures) {
        for (size_t i = 0; i < region.params.size(); ++i) {
          names_[region.params[i]] = names_.at(n.operands[i + 1]);
        }
      } else if (!region.params.empty()) {
        block_arguments(region, depth + 1);
      }
      body(region, std::string(n.def->dialect) + ".return", depth + 2);
      out_.append(static_cast<size_t>(depth) * 2, ' ');
      out_ += "}";
    }
    out_ += ")";
  }

  void block_arguments(const Region& region, int depth) {
    out_.append(static_cast<size_t>(depth) * 2, ' ');
    out_ += "^bb0(";
    for (size_t i = 0; i < region.params.size(); ++i) {
      if (i > 0) out_ += ", ";
      std::string name = "%" + std::to_string(next_++);
      names_[region.params[i]] = name;
      out_ += name + ": " + mlir_text(region.params[i].type());
    }
    out_ += "):\n";
  }

  void attributes(const AttributeTexts& rows) {
    if (rows.empty()) return;
    out_ += " {";
    for (size_t i = 0; i < rows.size(); ++i) {
      if (i > 0) out_ += ", ";
      out_ += rows[i].first + " = " + rows[i].second;
    }
    out_ += "}";
  }

  void names(std::span<const Value> values) {
    out_ += "(";
    for (size_t i = 0; i < values.size(); ++i) {
      if (i > 0) out_ += ", ";
      out_ += names_.at(values[i]);
    }
    out_ += ")";
  }

  void types(std::span<const Value> values) {
    out_ += "(";
    for (size_t i = 0; i < values.size(); ++i) {
      if (i > 0) out_ += ", ";
      out_ += mlir_text(values[i].type());
    }
    out_ += ")";
  }

  void result_types(const Node& n) {
    if (n.results.size() != 1) out_ += "(";
    for (size_t i = 0; i < n.results.size(); ++i) {
      if (i > 0) out_ += ", ";
      out_ += mlir_text(n.results[i]);
    }
    if (n.results.size() != 1) out_ += ")";
  }

  bool locations_;
  std::string out_;
  std::unordered_map<Value, std::string, ValueHash> names_;
  size_t next_ = 0;
};

}  // namespace

std::string print_module(const Function& function, bool locations) {
  return Printer(locations).module(function);
}

}  // namespace strata::ir
