// StageCost: the bytes that a rank holds at a stage, and sends in a step, with the papers' formulas.
//
//   StageCost cost = cost_of(units, mesh, options, placement_at(options, mesh, 2));
//   cost.state.total(), cost.sent
//
// Sent bytes assume that forward and backward access each unit once, and at stage 3 the min budget. All Local.
#pragma once

#include <cstdint>
#include <vector>

#include "zero/engine/options/options.h"
#include "zero/plan/units/estimate.h"
#include "zero/plan/units/mesh.h"

namespace zero {

struct StageCost {
  StateBytes state;
  double state_formula = 0;
  std::int64_t sent = 0;
  double sent_formula = 0;
  std::int64_t sent_between_copies = 0;  // part of `sent`, between copies of the model; the mean over the copies
  double sent_between_copies_formula = 0;
  // If copies train apart: the cost of an outer step, and the formula for its bytes between copies.
  OuterBytes outer;
  double outer_formula = 0;
};

// Returns whether sums of 16-bit gradients stay in fp32. Throws ConfigError under "reduce_dtype" for another type than
// fp32, and if ranks sum their micro-batches before they send them.
bool keeps_fp32_sums(const AttachOptions& options);

// Returns the placement of `stage`, with everything on the device. Engines and plans use no other. Throws ConfigError
// as place() and keeps_fp32_sums() do.
Placement placement_at(const AttachOptions& options, const Mesh& mesh, int stage);

// `stage`: of the placement.
StageCost cost_of(const std::vector<Unit>& units, const Mesh& mesh, const AttachOptions& options,
                  const Placement& placement, int stage);

}  // namespace zero
