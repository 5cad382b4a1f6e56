// ParamSpec: name, shape and type of a parameter, for the plan. No bytes, no torch.
#pragma once

#include <cstdint>
#include <numeric>
#include <string>
#include <vector>

#include "zero/base/numbers/dtype.h"

namespace zero {

struct ParamSpec {
  std::string name;                 // first name under which the module registered the parameter
  std::vector<std::int64_t> shape;  // empty: a scalar
  DType dtype = DType::kFloat32;
  bool trainable = true;             // false: frozen, without gradient and moments
  bool own_unit = false;             // embeddings, and a head tied to one, are gathered by themselves
  std::vector<std::string> aliases;  // further names of the same tensor: tied parameters are planned once

  std::int64_t numel() const {
    return std::accumulate(shape.begin(), shape.end(), std::int64_t{1},
                           [](std::int64_t a, std::int64_t b) { return a * b; });
  }
};

}  // namespace zero
