// Reading Hugging Face config.json files: tolerant of the spellings that occur (numbers in quotes,
// null for absent), strict about everything else.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <string>

#include "strata/base/json.h"
#include "strata/nn/rotary.h"

namespace strata::models {

// A view of one JSON object. Errors name file, key, expectation and value.
class ConfigReader {
 public:
  static constexpr int64_t kLargest = int64_t{1} << 31;

  // `object` must outlive the reader. Throws invalid_argument when it is no object.
  ConfigReader(const Json& object, std::string where);

  const std::string& where() const { return where_; }
  // Whether the key is present and not null.
  bool has(const std::string& key) const;
  // Positive integer of a reasonable size, as every dimension is.
  int64_t dimension(const std::string& key, int64_t limit = kLargest) const;
  int64_t dimension_or(const std::string& key, int64_t fallback, int64_t limit = kLargest) const;
  // A finite number; a string that holds nothing but a number counts as one ("1e6").
  double number(const std::string& key) const;
  double number_or(const std::string& key, double fallback) const;
  // A number above 0.
  double positive(const std::string& key) const;
  bool flag_or(const std::string& key, bool fallback) const;
  std::string text_or(const std::string& key, const std::string& fallback) const;
  const Json& object() const { return object_; }
  // Throws unimplemented when the key holds anything but `value`.
  void only(const std::string& key, const std::string& value) const;

 private:
  const Json& object_;
  std::string where_;
};

// The rotary table of a config, as transformers reads it: a `rope_scaling` block that is not empty
// wins over `rope_parameters`; `rope_theta` stands in either or at the top (default 10000); types
// default, linear, llama3, yarn, and dynamic, which within max_position_embeddings is default. An
// unknown type, a missing factor or a block for each type of layer is an error.
nn::RotaryTable read_rotary(const ConfigReader& config, int64_t head_dim,
                            double default_partial_factor);

}  // namespace strata::models
