// Extra: a whole tensor of one rank in a checkpoint, such as a buffer or a random generator's state. Values only.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "zero/checkpoint/safetensors/element_type.h"

namespace zero {

struct Extra {
  std::string name;  // "rng/cpu", "buffer/bn.running_mean"
  ElementType dtype = ElementType::kU8;
  std::vector<std::int64_t> shape;
  std::vector<std::byte> bytes;
};

}  // namespace zero
