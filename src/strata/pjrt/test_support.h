// For the tests of rooms pjrt and runtime: both CPU plug-ins, and small programs.
#pragma once

#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <vector>

#include "strata/pjrt/executable.h"

namespace strata::pjrt {

// A suite that runs on each CPU plug-in; the parameter is a path below the dependency folder.
class OnBothPlugins : public ::testing::TestWithParam<const char*> {
 protected:
  std::shared_ptr<const Client> client(int devices = 1) const {
    return Client::create(plugin(), {.device_count = devices});
  }
  std::shared_ptr<const Plugin> plugin() const {
    return Plugin::load(std::string(STRATA_DEPS_DIR) + "/" + GetParam());
  }
  bool newer() const { return std::string(GetParam()).find("lammps") == 0; }
};

inline constexpr const char* kPlugins[] = {"lammps_jax_pjrt_cpu/pjrt_c_api_cpu_plugin.so",
                                           "xla_plugins/xla_cpu_pjrt/xla_cpu_pjrt.so"};
inline std::string plugin_label(const ::testing::TestParamInfo<const char*>& info) {
  return info.index == 0 ? "newer" : "older";
}

// x + y for two f32 vectors of 4.
inline constexpr const char* kAdd = R"(
module @add {
  func.func public @main(%x: tensor<4xf32>, %y: tensor<4xf32>) -> tensor<4xf32> {
    %0 = stablehlo.add %x, %y : tensor<4xf32>
    return %0 : tensor<4xf32>
  }
})";

// x + 1, in the memory of x.
inline constexpr const char* kIncrement = R"(
module @increment {
  func.func public @main(%x: tensor<64xf32> {tf.aliasing_output = 0 : i32}) -> tensor<64xf32> {
    %one = stablehlo.constant dense<1.0> : tensor<64xf32>
    %0 = stablehlo.add %x, %one : tensor<64xf32>
    return %0 : tensor<64xf32>
  }
})";

template <class T>
Buffer put(const std::shared_ptr<const Client>& client, const std::vector<T>& values, Dims dims,
           int device = 0) {
  return Buffer::from_host(client, client->device(device), dtype_of<T>(), dims,
                           std::as_bytes(std::span(values)))
      .buffer;
}

template <class T>
std::vector<T> get(const Buffer& buffer) {
  std::vector<T> values(static_cast<size_t>(element_count(buffer.dims())));
  buffer.to_host(std::as_writable_bytes(std::span(values))).wait();
  return values;
}

// The error that `action` throws; fails the test when it throws none.
template <class Action>
Error error_of(Action action) {
  try {
    action();
  } catch (const Error& e) {
    return e;
  }
  ADD_FAILURE() << "expected a strata::Error";
  return Error(Code::unknown, "none", "none");
}

inline bool contains(std::string_view text, std::string_view part) {
  return text.find(part) != std::string_view::npos;
}

}  // namespace strata::pjrt
