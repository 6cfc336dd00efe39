#include "products.h"

#include <algorithm>
#include <map>
#include <random>
#include <utility>

#include "strata/base/log.h"
#include "strata/ops/control.h"
#include "strata/ops/dot.h"
#include "strata/runtime/executor.h"
#include "strata/transform/lower.h"

namespace strata::bench {
namespace {

using ir::Node;
using ir::Region;

std::string text_of(const Node& n) {
  std::string out;
  for (const ir::Value& v : n.operands) out += shape_text(v.dtype(), v.dims()) + " ";
  for (const auto& [name, text] : n.def->print(n)) {
    if (name == "dot_dimension_numbers") out += text;
  }
  return out;
}

double flops_of(const Node& n) {
  double out = 2;
  for (int64_t d : n.results[0].dims) out *= static_cast<double>(d);
  for (int64_t axis : n.attributes.get<Dims>("lhs_contract")) {
    out *= static_cast<double>(n.operands[0].dim(axis));
  }
  return out;
}

void collect(const Region& region, int64_t times, std::map<std::string, Product>& found) {
  for (Node* n : ir::post_order(region.results, &region)) {
    if (n->def == &ops::kDotGeneral) {
      Product& p = found[text_of(*n)];
      p = {n, text_of(*n), p.count + times, flops_of(*n), 0};
    }
    int64_t inside = n->def == &ops::kScan ? times * ops::ScanLayout(*n).length : times;
    for (const auto& body : n->regions) collect(*body, inside, found);
  }
}

HostTensor random_tensor(const ir::Type& type) {
  std::mt19937 random(1);
  std::uniform_real_distribution<float> uniform(-1, 1);
  HostTensor out(DType::f32, type.dims);
  for (float& v : out.data<float>()) v = uniform(random);
  return type.dtype == DType::f32 ? std::move(out) : convert(out, type.dtype);
}

double seconds_of(const Node& product, runtime::Compiler& compiler, int rounds) {
  ir::Function f("product");
  ir::Values operands;
  std::vector<runtime::Array> arrays;
  for (const ir::Value& v : product.operands) {
    operands.push_back(f.parameter(v.type()));
    arrays.push_back(runtime::Array::put(compiler.client(), random_tensor(v.type())));
  }
  f.set_results({f.clone(product, operands).result()});
  runtime::Executor run(compiler.compile(transform::program_text(f)));
  std::vector<runtime::Argument> arguments;
  for (const runtime::Array& a : arrays) arguments.push_back(runtime::Argument::borrow(a));
  std::vector<double> seconds;
  for (int i = 0; i <= rounds; ++i) {
    Stopwatch clock;
    auto results = run.run(arguments);
    run.wait();
    if (i > 0) seconds.push_back(clock.seconds());
  }
  std::sort(seconds.begin(), seconds.end());
  return seconds[seconds.size() / 2];
}

}  // namespace

std::vector<Product> products_of(const ir::Function& function) {
  std::map<std::string, Product> found;
  collect(function.top(), 1, found);
  std::vector<Product> out;
  for (auto& entry : found) out.push_back(std::move(entry.second));
  return out;
}

void measure(std::vector<Product>& products, runtime::Compiler& compiler, int rounds) {
  for (Product& p : products) p.seconds = seconds_of(*p.node, compiler, rounds);
}

Bound bound_of(const std::vector<Product>& products) {
  Bound out;
  for (const Product& p : products) {
    out.flops += p.flops * static_cast<double>(p.count);
    out.seconds += p.seconds * static_cast<double>(p.count);
  }
  return out;
}

}  // namespace strata::bench
