// The products of a traced program and the time they take alone: what a step of that program could
// reach at best on this machine.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "strata/ir/ir.h"
#include "strata/runtime/compile.h"

namespace strata::bench {

struct Product {
  const ir::Node* node = nullptr;  // one of its kind
  std::string text;                // operand types and dimension numbers
  int64_t count = 0;               // of this kind in the program, loops multiplied out
  double flops = 0;                // of one
  double seconds = 0;              // of one, once measured
};

// Equal products are counted together; a scan's body counts once a step.
std::vector<Product> products_of(const ir::Function& function);

// Fills `seconds` with the median of `rounds` runs of a program that holds the product alone.
void measure(std::vector<Product>& products, runtime::Compiler& compiler, int rounds);

struct Bound {
  double flops = 0;
  double seconds = 0;
};
Bound bound_of(const std::vector<Product>& products);

}  // namespace strata::bench
