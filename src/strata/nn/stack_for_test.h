// For the tests of stacks: values of parameters however they are stacked, and a call of a stack
// with everything that it gives, by unstacked names, so that plans can be compared.
#pragma once

#include <cmath>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "strata/nn/toy_for_test.h"
#include "strata/ops/constant.h"
#include "strata/ops/random.h"
#include "strata/ops/reduce.h"
#include "strata/ops/shape.h"
#include "strata/transform/vjp.h"

namespace strata::nn {

// Copies layer k of a stacked slot to or from `one`; the whole of a slot without a layer dim.
inline void copy_member(const sharding::ParamType& type, int64_t k, HostTensor& all,
                        HostTensor& one, bool out) {
  auto axis = type.position_of(sharding::Role::layer);
  int64_t layers = 1, inner = 1;
  if (axis) layers = type.dims[static_cast<size_t>(*axis)].size;
  for (size_t d = axis ? static_cast<size_t>(*axis) + 1 : 0; d < type.dims.size(); ++d) {
    inner *= type.dims[d].size;
  }
  for (int64_t i = 0; i < one.size(); ++i) {
    int64_t at = axis ? (i / inner * layers + k) * inner + i % inner : i;
    out ? one.set(i, all.at(at)) : all.set(at, one.at(i));
  }
}

// Random values of the parameters: a member of a stacked slot gets what its own slot would get.
inline Tensors parameters_of(const Structure& structure) {
  Tensors out;
  for (size_t i = 0; i < structure.manifest().size(); ++i) {
    const sharding::ParamType& type = structure.manifest().slots()[i].type;
    out.emplace_back(DType::f32, type.sizes());
    for (size_t k = 0; k < structure.members(i).size(); ++k) {
      const Param* p = structure.members(i)[k];
      testing::Random random(std::hash<std::string>()(p->path()));
      HostTensor one = random.tensor(DType::f32, p->type().sizes(), -1, 1);
      copy_member(type, static_cast<int64_t>(k), out.back(), one, false);
    }
  }
  return out;
}

struct ProbeOptions {
  std::vector<std::string> taps = {};
  DType compute = DType::f32;
  std::string keep_f32 = "";        // parameters whose name contains this are not cast
  std::optional<double> step = {};  // with it, calls are random
  uint64_t seed = 11;
  bool each = false;  // run_each instead of run
};

using Results = std::map<std::string, std::vector<double>>;

inline std::vector<double> values_of(const HostTensor& t) {
  std::vector<double> out;
  for (int64_t i = 0; i < t.size(); ++i) out.push_back(t.at(i));
  return out;
}

// Carry, outputs, taps and (where the tests can want them) gradients of
// Σ carry² + Σ outputs + Σ taps² by names: of parameters, of the carry and the per-layer input. The
// carry is (2, 3), the only input (L, 2, 3).
inline Results probe(const Module& model, const LayerStack& stack, const ScanOptions& scan,
                     const ProbeOptions& o = {}) {
  static const testing::Executor executor;
  Structure structure(model, scan);
  Tensors inputs = parameters_of(structure);
  testing::Random random(5);
  auto layers = static_cast<int64_t>(stack.size());
  inputs.push_back(random.tensor(DType::f32, {2, 3}, -1, 1));
  inputs.push_back(random.tensor(DType::f32, {layers, 2, 3}, -1, 1));
  std::vector<std::string> names;
  auto f = testing::trace(testing::types_of(inputs), [&](ir::Function& g, const ir::Values& v) {
    ir::Values parameters(v.begin(), v.end() - 2);
    for (size_t i = 0; i < parameters.size(); ++i) {
      const std::string& name = structure.manifest().slots()[i].name;
      bool keep = !o.keep_f32.empty() && name.find(o.keep_f32) != std::string::npos;
      if (!keep) parameters[i] = ops::convert(parameters[i], o.compute);
    }
    Context context(g, structure, parameters);
    TapSink sink(structure, o.taps);
    context = context.with_taps(sink);
    if (o.step) {
      context = context.with_random({ops::key(g, o.seed), ops::scalar(g, DType::i32, *o.step)});
    }
    ir::Value h = ops::convert(v[v.size() - 2], o.compute);
    ir::Value x = ops::convert(v.back(), o.compute);
    LayerResult r;
    if (o.each) {
      std::vector<ir::Values> own;
      for (int64_t i = 0; i < layers; ++i) own.push_back({ops::select_index(x, 0, i)});
      EachResult e = stack.run_each(context, {h}, own, {});
      ir::Values rows;
      for (const ir::Values& out : e.outputs) {
        Dims dims = out[0].dims();
        dims.insert(dims.begin(), 1);
        rows.push_back(ops::reshape(out[0], dims));
      }
      r = {e.carry, {ops::concatenate(rows, 0)}};
    } else {
      r = stack.run(context, {h}, {x}, {});
    }
    EXPECT_EQ(r.carry[0].dtype(), o.compute);
    ir::Values out{r.carry[0]};
    names = {"carry"};
    auto total = [](ir::Value y) {
      Dims axes;
      for (int64_t i = 0; i < y.rank(); ++i) axes.push_back(i);
      return ops::reduce_sum(ops::convert(y, DType::f32), axes);
    };
    ir::Value loss = total(r.carry[0] * r.carry[0]);
    for (const ir::Value& y : r.outputs) {
      names.push_back("output " + std::to_string(out.size() - 1));
      out.push_back(y);
      loss = loss + total(y);
    }
    for (const TapValue& t : sink.values()) {
      names.push_back("tap " + t.name);
      out.push_back(t.value);
      loss = loss + total(t.value * t.value);
    }
    out.push_back(loss);
    names.push_back("loss");
    for (const ir::Value& y : transform::gradient(loss, v)) out.push_back(y);
    return out;
  });
  Tensors got = executor.run(*f, inputs);
  Results results;
  for (size_t i = 0; i < names.size(); ++i) results[names[i]] = values_of(got[i]);
  for (size_t i = 0; i < structure.manifest().size(); ++i) {
    for (size_t k = 0; k < structure.members(i).size(); ++k) {
      const Param* p = structure.members(i)[k];
      HostTensor one(DType::f32, p->type().sizes());
      copy_member(structure.manifest().slots()[i].type, static_cast<int64_t>(k),
                  got[names.size() + i], one, true);
      results["of " + p->path()] = values_of(one);
    }
  }
  results["of the carry"] = values_of(got[got.size() - 2]);
  results["of the input"] = values_of(got.back());
  return results;
}

// Relative L2 of every entry at most `tolerance` (0: equal bits).
inline void expect_same(const Results& got, const Results& want, double tolerance) {
  ASSERT_EQ(got.size(), want.size());
  for (const auto& row : want) {
    auto it = got.find(row.first);
    ASSERT_NE(it, got.end()) << row.first;
    ASSERT_EQ(it->second.size(), row.second.size()) << row.first;
    double difference = 0, size = 0;
    for (size_t i = 0; i < row.second.size(); ++i) {
      difference += std::pow(it->second[i] - row.second[i], 2);
      size += std::pow(row.second[i], 2);
    }
    EXPECT_LE(std::sqrt(difference), tolerance * std::sqrt(size)) << row.first;
  }
}

}  // namespace strata::nn
