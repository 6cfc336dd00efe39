#include "strata/runtime/box_copy.h"

namespace strata::runtime {

using sharding::Box;

bool is_contiguous(const Dims& dims, const Box& box) {
  size_t first = 0;
  while (first < dims.size() && box.size[first] == 1) ++first;
  for (size_t i = first + 1; i < dims.size(); ++i) {
    if (box.size[i] != dims[i]) return false;
  }
  return true;
}

int64_t first_element(const Dims& dims, const Box& box) {
  int64_t offset = 0;
  for (size_t i = 0; i < dims.size(); ++i) offset = offset * dims[i] + box.start[i];
  return offset;
}

Dims byte_strides(const Dims& dims, size_t element_size) {
  Dims strides(dims.size());
  auto stride = static_cast<int64_t>(element_size);
  for (size_t i = dims.size(); i-- > 0;) {
    strides[i] = stride;
    stride *= dims[i];
  }
  return strides;
}

void for_each_run(const Box& part, const Box& a_box, const Box& b_box, size_t element_size,
                  const std::function<void(size_t, size_t, size_t)>& run) {
  if (part.elements() == 0) return;
  size_t rank = part.size.size();
  // Dims from `inner` on are whole in both storages, so they join into one run; so does a part of
  // the dim before them.
  size_t inner = rank;
  while (inner > 0 && part.size[inner - 1] == a_box.size[inner - 1] &&
         part.size[inner - 1] == b_box.size[inner - 1]) {
    --inner;
  }
  size_t outer = inner == 0 ? 0 : inner - 1;
  int64_t elements = 1;
  for (size_t i = outer; i < rank; ++i) elements *= part.size[i];
  Dims index(rank, 0);
  while (true) {
    int64_t a = 0, b = 0;
    for (size_t i = 0; i < rank; ++i) {
      a = a * a_box.size[i] + part.start[i] - a_box.start[i] + index[i];
      b = b * b_box.size[i] + part.start[i] - b_box.start[i] + index[i];
    }
    run(static_cast<size_t>(a) * element_size, static_cast<size_t>(b) * element_size,
        static_cast<size_t>(elements) * element_size);
    size_t i = outer;
    while (i > 0 && ++index[i - 1] == part.size[i - 1]) index[--i] = 0;
    if (i == 0) return;
  }
}

}  // namespace strata::runtime
