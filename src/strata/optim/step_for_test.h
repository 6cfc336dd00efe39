// For the tests of room optim: manifests from rows, and update plans run on the newer CPU plug-in.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <iterator>
#include <limits>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "strata/optim/update.h"
#include "strata/testing/executor.h"

namespace strata::optim {

using Tensors = std::vector<HostTensor>;

inline HostTensor tensor(const std::vector<float>& values, Dims dims = {}) {
  if (dims.empty()) dims = {static_cast<int64_t>(values.size())};
  return HostTensor::of<float>(std::move(dims), values);
}

inline std::vector<float> values_of(const HostTensor& t) {
  std::span<const float> data = t.data<float>();
  return {data.begin(), data.end()};
}

// Float32 parameters by name and type.
inline sharding::Manifest manifest_of(std::vector<std::pair<std::string, sharding::ParamType>> rows,
                                      std::vector<sharding::Tie> ties = {}) {
  std::vector<sharding::Slot> slots;
  for (auto& row : rows) {
    slots.push_back({std::move(row.first), sharding::Kind::param, std::move(row.second)});
  }
  return sharding::Manifest(std::move(slots), std::move(ties), {});
}

inline sharding::ParamType f32_type(const Dims& sizes) {
  return sharding::plain_type(DType::f32, sizes);
}

// One group for everything.
inline GroupsConfig one_group(GroupConfig group = {}) {
  if (group.name.empty()) group.name = "all";
  return {.groups = {group}, .rules = {{.group = group.name}}};
}

// All parameters in one group, at a constant rate.
inline UpdatePlan simple_plan(const sharding::Manifest& manifest,
                              std::shared_ptr<const Optimizer> optimizer, double rate,
                              double clip_norm = std::numeric_limits<double>::infinity()) {
  return UpdatePlan(std::move(optimizer), Groups(manifest, one_group()), Schedule({.peak = rate}),
                    clip_norm);
}

// The entry function of one step: parameters, slots, gradients, loss, weight, scalars in;
// parameters, slots, loss, weight, applied, norms out. Over a mesh they lie as the plan says.
inline std::unique_ptr<ir::Function> step_function(const UpdatePlan& plan,
                                                   DType gradient = DType::f32,
                                                   const sharding::Mesh& mesh = {}) {
  auto f = std::make_unique<ir::Function>("step");
  f->set_mesh(mesh);
  ir::Values parameters, slots, scalars;
  Sums sums;
  for (const Parameter& p : plan.parameters()) parameters.push_back(f->declare(p.type, p.name));
  for (const SlotSpec& s : plan.slots()) slots.push_back(f->declare(s.type, s.name));
  for (size_t i = 0; i < plan.parameters().size(); ++i) {
    sharding::ParamType type = plan.accumulator()[i].type;
    type.dtype = gradient;
    sums.gradients.push_back(f->declare(type, "gradient of " + plan.parameters()[i].name));
  }
  sums.loss = f->parameter(ir::Type{}, "loss");
  sums.weight = f->parameter(ir::Type{}, "weight");
  for (const NamedScalar& s : plan.scalars(0)) scalars.push_back(f->parameter(ir::Type{}, s.name));
  UpdateResult r = plan.trace(*f, parameters, slots, sums, scalars);
  ir::Values results = r.parameters;
  results.insert(results.end(), r.slots.begin(), r.slots.end());
  results.insert(results.end(), {r.loss, r.weight, r.applied});
  results.insert(results.end(), r.norms.begin(), r.norms.end());
  f->set_results(results);
  for (size_t i = 0; i < parameters.size() + slots.size(); ++i) {
    f->result_ports()[i].axes = f->argument_ports()[i].axes;
  }
  return f;
}

// Runs steps of one plan and keeps the state between them.
class Stepper {
 public:
  struct Report {
    float loss, weight;
    bool applied;
    std::vector<float> norms;
  };

  Stepper(const testing::Executor& executor, UpdatePlan plan, Tensors start,
          DType gradient = DType::f32)
      : executor_(executor),
        plan_(std::move(plan)),
        program_(executor.compile(*step_function(plan_, gradient))),
        parameters(std::move(start)) {
    for (const SlotSpec& s : plan_.slots()) slots.emplace_back(s.type.dtype, s.type.sizes());
  }

  // One step after `count` finished ones; the gradients are sums, like loss and weight.
  Report step(const Tensors& gradients, int64_t count, float weight = 1, float loss = 0) {
    Tensors inputs;
    for (const Tensors* list : {&std::as_const(parameters), &std::as_const(slots), &gradients}) {
      for (const HostTensor& t : *list) inputs.push_back(t.clone());
    }
    for (float x : {loss, weight}) inputs.push_back(HostTensor::scalar(x));
    for (float x : plan_.scalar_values(count)) inputs.push_back(HostTensor::scalar(x));
    Tensors out = executor_.run(program_, inputs);
    auto next = std::make_move_iterator(out.begin());
    for (HostTensor& t : parameters) t = *next++;
    for (HostTensor& t : slots) t = *next++;
    Report report = {.loss = float((*next++).at(0)),
                     .weight = float((*next++).at(0)),
                     .applied = (*next++).at(0) != 0};
    while (report.norms.size() < plan_.norms().size()) {
      report.norms.push_back(float((*next++).at(0)));
    }
    return report;
  }

  const UpdatePlan& plan() const { return plan_; }

 private:
  const testing::Executor& executor_;
  UpdatePlan plan_;
  pjrt::Executable program_;

 public:
  Tensors parameters, slots;
};

inline const testing::Executor& newer_plugin() {
  static const testing::Executor executor;
  return executor;
}

// |got - want| / |want| in the Euclidean norm; |got| where `want` is zero.
inline double relative_l2(const HostTensor& got, const std::vector<double>& want) {
  double difference = 0, length = 0;
  for (size_t i = 0; i < want.size(); ++i) {
    double x = got.at(static_cast<int64_t>(i));
    difference += (x - want[i]) * (x - want[i]);
    length += want[i] * want[i];
  }
  return std::sqrt(difference / (length == 0 ? 1 : length));
}

inline bool same_bits(const HostTensor& a, const HostTensor& b) {
  return a.dtype() == b.dtype() && a.dims() == b.dims() &&
         std::equal(a.bytes(), a.bytes() + a.byte_size(), b.bytes());
}

}  // namespace strata::optim
