// Row-major boxes inside row-major arrays, as contiguous runs of bytes.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>

#include "strata/base/host_tensor.h"
#include "strata/sharding/box.h"

namespace strata::runtime {

// Whether `box` is one contiguous run of a row-major array of `dims`.
bool is_contiguous(const Dims& dims, const sharding::Box& box);

// Element offset of the box's first element in a row-major array of `dims`.
int64_t first_element(const Dims& dims, const sharding::Box& box);

// Row-major strides of `dims` in bytes.
Dims byte_strides(const Dims& dims, size_t element_size);

// The runs that a box shares between two row-major storages: `a` holds the box `a_box`, `b` holds
// `b_box` (both in the coordinates of one whole array), and `part` lies inside both. Calls
// run(byte offset in a, byte offset in b, bytes) for each maximal run that is contiguous in both.
void for_each_run(const sharding::Box& part, const sharding::Box& a_box, const sharding::Box& b_box,
                  size_t element_size, const std::function<void(size_t, size_t, size_t)>& run);

}  // namespace strata::runtime
