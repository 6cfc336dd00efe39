// Inside room pjrt only: the one place that includes pjrt_c_api.h, and the one way to call through
// its table. Public headers of the room name the C types by forward declaration.
#pragma once

#include <pjrt_c_api.h>

#include <cstddef>
#include <cstring>
#include <span>
#include <string_view>

#include "strata/base/dtype.h"
#include "strata/pjrt/plugin.h"

namespace strata::pjrt {

// Names of the table's slots in order; slot i lies at byte kFirstSlot + i * sizeof(pointer).
std::span<const std::string_view> slot_names();
inline constexpr size_t kFirstSlot = offsetof(PJRT_Api, PJRT_Error_Destroy);

// Whether the slot at byte `offset` lies inside the plug-in's table and is set.
bool has_slot(const Plugin& plugin, size_t offset);

// Throws Unimplemented "pjrt.missing_slot" naming the plug-in and the slot at `offset`.
[[noreturn]] void fail_missing_slot(const Plugin& plugin, size_t offset);

// The one place where a PJRT_Error becomes strata::Error: reads code and text, frees `error`, and
// throws "pjrt.call" with the function's name. `error` must not be null.
[[noreturn]] void throw_error(const Plugin& plugin, PJRT_Error* error, size_t offset);

// Frees `error`; for destructors. Null is allowed.
void discard_error(const Plugin& plugin, PJRT_Error* error) noexcept;

// The number in an enum field that the plug-in filled in. A newer plug-in writes numbers that our
// header's enums do not have, and reading such a field as the enum is undefined.
template <class Enum>
int number_of(const Enum& field) {
  static_assert(sizeof(Enum) == sizeof(int));
  int number = 0;
  std::memcpy(&number, &field, sizeof(number));
  return number;
}

// A slot of the table taking Args.
template <class Args>
using Slot = PJRT_Error* (*PJRT_Api::*)(Args*);

template <class Args>
size_t offset_of(Slot<Args> slot) {
  static constexpr PJRT_Api kTable{};
  return static_cast<size_t>(reinterpret_cast<const std::byte*>(&(kTable.*slot)) -
                             reinterpret_cast<const std::byte*>(&kTable));
}

// An argument struct as the C API wants it: every byte zero (padding too, so that fields a newer
// plug-in reads there are absent) and its own size filled in.
template <class Args>
Args zeroed() {
  Args args;
  std::memset(static_cast<void*>(&args), 0, sizeof(args));
  args.struct_size = sizeof(args);
  return args;
}

// Calls one function of the plug-in. Throws Unimplemented when the slot is missing and Error with
// PJRT's own code when the call fails.
template <class Args>
void call(const Plugin& plugin, Slot<Args> slot, Args& args) {
  const size_t offset = offset_of(slot);
  if (!has_slot(plugin, offset)) fail_missing_slot(plugin, offset);
  PJRT_Error* error = (plugin.api()->*slot)(&args);
  if (error != nullptr) throw_error(plugin, error, offset);
}

// As `call` for destructors: a missing slot or a failure is ignored.
template <class Args>
void call_quietly(const Plugin& plugin, Slot<Args> slot, Args& args) noexcept {
  if (!has_slot(plugin, offset_of(slot))) return;
  discard_error(plugin, (plugin.api()->*slot)(&args));
}

// Element types; `type` is the number of a PJRT_Buffer_Type. to_dtype throws Unimplemented
// "pjrt.element_type" for types that DType lacks.
PJRT_Buffer_Type to_pjrt(DType dtype);
DType to_dtype(int type);

}  // namespace strata::pjrt
