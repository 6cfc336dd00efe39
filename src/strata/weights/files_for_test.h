// Files that the tests of this room write: scratch directories and raw safetensors images.
#pragma once

#include <gtest/gtest.h>

#include <cstdint>
#include <filesystem>
#include <functional>
#include <span>
#include <string>
#include <string_view>

#include "strata/base/error.h"
#include "strata/base/file.h"
#include "strata/testing/scratch_directory.h"

namespace strata::weights {

using strata::testing::ScratchDirectory;

inline void put_file(const std::filesystem::path& path, std::string_view bytes) {
  std::filesystem::create_directories(path.parent_path());
  FileWriter writer(path);
  writer.write(bytes);
  writer.commit();
}

inline std::span<const std::byte> bytes_of(std::string_view text) {
  return {reinterpret_cast<const std::byte*>(text.data()), text.size()};
}

// The eight length bytes and the header; `length` overrides the true length.
inline std::string safetensors_image(std::string_view header, std::string_view data,
                                     const uint64_t* length = nullptr) {
  uint64_t n = length != nullptr ? *length : header.size();
  std::string image(reinterpret_cast<const char*>(&n), sizeof n);
  return image + std::string(header) + std::string(data);
}

// One header entry.
inline std::string entry(std::string_view name, std::string_view dtype, std::string_view shape,
                         std::string_view offsets) {
  return "\"" + std::string(name) + "\":{\"dtype\":\"" + std::string(dtype) +
         "\",\"shape\":" + std::string(shape) + ",\"data_offsets\":" + std::string(offsets) + "}";
}

// Runs `action` and returns the Error that it must throw.
inline Error error_of(const std::function<void()>& action) {
  try {
    action();
  } catch (const Error& e) {
    return e;
  }
  ADD_FAILURE() << "no error was thrown";
  return Error(Code::unknown, "none", "none");
}

// Asserts that `action` throws Error `id` whose text holds `part`.
inline void expect_error(const std::function<void()>& action, std::string_view id,
                         std::string_view part) {
  Error e = error_of(action);
  EXPECT_EQ(e.id(), id) << e.what();
  EXPECT_NE(std::string_view(e.what()).find(part), std::string_view::npos)
      << "'" << part << "' is not in: " << e.what();
}

}  // namespace strata::weights
