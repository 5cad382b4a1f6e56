// A unit of a given size, without a model around it.
#pragma once

#include "zero/plan/units/unit.h"

namespace zero {

inline Unit one_unit(std::int64_t numel, DType dtype, int index = 0, bool trainable = true) {
  return {.index = index,
          .name = "unit " + std::to_string(index),
          .dtype = dtype,
          .trainable = trainable,
          .slices = {{.param = index, .numel = numel}},
          .numel = numel};
}

}  // namespace zero
