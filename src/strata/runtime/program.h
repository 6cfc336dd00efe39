// A compiled program together with what goes in and what comes out.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "strata/base/json.h"
#include "strata/pjrt/executable.h"
#include "strata/runtime/array_spec.h"

namespace strata::runtime {

// One argument or result as the caller describes it. `donated` means something for parameters
// only: the program's text gives its memory away (tf.aliasing_output, jax.buffer_donor).
struct Slot {
  std::string name;
  SpecPtr spec;
  bool donated = false;
};

// What the compiler made of a program's signature, on one device, and how the devices share each
// value. Kept beside the program in the disk cache, so that a loaded program is checked without
// reading its code again.
struct Signature {
  struct Value {
    DType dtype = DType::f32;
    Dims dims;
    bool donated = false;
    // None on one device, and where the plug-in does not tell.
    std::optional<pjrt::HloSharding> sharding = {};
  };
  std::vector<Value> parameters;
  std::vector<Value> results;

  // Throws Unimplemented "runtime.signature_type" for values that no Array can hold (tokens,
  // tuples, complex numbers), and internal "runtime.slot_layout" for one that is not row-major in
  // memory, as all arrays are.
  static Signature of(const pjrt::OptimizedProgram& program);
  std::string json() const;
  // Throws data_loss as Json access does.
  static Signature from_json(std::string_view text);
};

// Seconds spent on a program: the caller's tracing, XLA's compiling, and loading from disk.
struct ProgramTimes {
  double trace = 0;
  double compile = 0;
  double load = 0;
};

// Immutable and thread-safe; shared by everyone who runs it.
class Program {
 public:
  // Completes `parameters` and `results` from the signature where they are empty (a program of one
  // device only), and otherwise compares each with it. Throws invalid_argument "runtime.describe"
  // (several devices and no description). A description is made from the plan (request_for), so
  // where the program differs Strata is wrong: throws internal "runtime.slot_count",
  // "runtime.slot_type" (dtype or per-device dims: among others an argument that Shardy replicated
  // because its dim does not divide), "runtime.slot_devices", "runtime.slot_sharding" (equal dims,
  // but another part of the array on some device), "runtime.donation" (the compiler kept another
  // set of donated arguments).
  Program(std::string name, std::shared_ptr<const pjrt::Executable> executable,
          const Signature& signature, std::vector<Slot> parameters, std::vector<Slot> results,
          ProgramTimes times);

  const std::string& name() const { return name_; }
  const pjrt::Executable& executable() const { return *executable_; }
  const std::vector<Slot>& parameters() const { return parameters_; }
  const std::vector<Slot>& results() const { return results_; }
  const ProgramTimes& times() const { return times_; }

 private:
  // Slots laid out alike get one spec, so that an array which went through the program before is
  // recognised by the pointer alone.
  void share_specs();
  void check_slots(std::vector<Slot>& slots, const std::vector<Signature::Value>& values,
                   const char* kind);
  void check_slot(const Slot& slot, const Signature::Value& value, const std::string& where) const;
  void check_donation(const Slot& slot, const Signature::Value& value,
                      const std::string& where) const;

  std::string name_;
  std::shared_ptr<const pjrt::Executable> executable_;
  std::vector<Slot> parameters_;
  std::vector<Slot> results_;
  ProgramTimes times_;
};

}  // namespace strata::runtime
