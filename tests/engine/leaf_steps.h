// Steps of a scripted model in leaves: gradients and losses depend only on step and leaf.
//
//   const std::vector<StepReport> reports = train_in_leaves(model, comm, options, /*from=*/0, /*to=*/3);
#pragma once

#include <vector>

#include "zero/plan/units/leaves.h"

#include "tests/engine/scripted_model.h"

namespace zero {

// An idle micro-batch has gradients and a loss of its own, which must not count.
inline std::vector<StepReport> train_in_leaves(ScriptedModel& model, Communicator& comm, const AttachOptions& options,
                                               int from, int to) {
  constexpr int kIdle = 63;
  const Leaves leaves(options.leaves, comm.world(), options.reduce);
  std::vector<StepReport> reports;
  for (int step = from; step < to; ++step) {
    StepLimits limits;
    for (int micro = 0; micro < leaves.passes(); ++micro) {
      const int leaf = leaves.leaf(comm.rank(), micro);
      model.compute_as(leaf < 0 ? kIdle : leaf);
      model.forward(model.all_units());
      model.backward(model.all_units(), step, 0);
      limits.leaf_losses.push_back(leaf < 0 ? 1e6 : 0.1 * (leaf + 1) + step);
    }
    reports.push_back(model.engine().step(0.01, limits));
  }
  return reports;
}

}  // namespace zero
