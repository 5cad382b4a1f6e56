// find_first_element(): the first element of a state that differs between two checkpoints.
//
//   if (const auto found = find_first_element(recorded, executed, "exp_avg"))
//     found->tensor        // "wte.weight"
//
// Tensors are compared by name, in the order of the first checkpoint. Local. Throws IoError for a damaged checkpoint.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "zero/checkpoint/read/checkpoint_reader.h"

namespace zero::cli {

struct DifferentElement {
  std::string tensor;
  std::int64_t index = 0;  // in the flattened tensor
  float recorded = 0, found = 0;
  std::int64_t num_tensors = 0;  // that differ
};

std::optional<DifferentElement> find_first_element(CheckpointReader& recorded, CheckpointReader& executed,
                                                   std::string_view state);

// Returns the sums of a checkpoint's states, from its bytes.
StateSums sums_of(CheckpointReader& reader);

}  // namespace zero::cli
