// block_specs: a model with large blocks: an embedding, two blocks, a frozen table and a small rest. A shard covers
// several blocks of a disk, or a unit covers several tiles.
#pragma once

#include <cstdint>
#include <vector>

#include "zero/plan/units/param_spec.h"

namespace zero {

struct BlockSizes {
  std::vector<std::int64_t> embedding = {300, 101};
  std::vector<std::int64_t> second_block = {160, 150};
  std::int64_t frozen = 20000;
};

inline std::vector<ParamSpec> block_specs(DType dtype, const BlockSizes& sizes = {}) {
  return {{.name = "wte", .shape = sizes.embedding, .dtype = dtype, .own_unit = true},
          {.name = "h.0.weight", .shape = {160, 150}, .dtype = dtype},
          {.name = "h.0.bias", .shape = {150}, .dtype = dtype},
          {.name = "h.1.weight", .shape = sizes.second_block, .dtype = dtype},
          {.name = "h.1.table", .shape = {sizes.frozen}, .dtype = dtype, .trainable = false},
          {.name = "ln_f", .shape = {9}, .dtype = dtype}};
}

}  // namespace zero
