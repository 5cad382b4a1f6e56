// ServedClock: what servers have done in one call of PushServer::serve(), and by which rules they update. Values only.
//
//   const ServedClock clock = server.serve(8, {.lr = [](std::int64_t clock) { return 0.1 / (1.0 + clock); }});
//   clock.report.grad_norm; clock.workers[2].pushes;
#pragma once

#include <cstdint>
#include <functional>
#include <limits>
#include <vector>

#include "zero/engine/engine.h"

namespace zero {

// What an update is made with, by the clock of its gradients and their mean loss. Functions of these alone, the same on all
// servers. Without `lr` the learning rate is that of the push, of several the first worker's.
struct UpdateRules {
  std::function<double(std::int64_t clock)> lr{};
  std::function<StepLimits(double loss)> limits = [](double loss) { return StepLimits{.loss = loss}; };
};

// What a worker has done in one call, as the head knows it.
struct ServedWorker {
  std::int64_t pushes = 0;  // that came
  std::int64_t pushed_bytes = 0;
  double waited_seconds = 0;     // that it says to have waited for answers, before these pushes
  std::int64_t applied = 0;      // gradients
  std::int64_t dropped = 0;      // that came too late
  std::int64_t sum_of_ages = 0;  // of those that were applied
  std::int64_t most_age = 0;
};

// What was served in one call. An update is skipped where a gradient or a loss of it is not finite, or beyond a limit: then
// no state changes, and its gradients are not applied. The weights count a version for it all the same.
struct ServedClock {
  StepReport report;                                       // of the last update; of one that was skipped, where one was
  double loss = std::numeric_limits<double>::quiet_NaN();  // mean over updates, those that were skipped too
  std::int64_t updates = 0;
  std::int64_t skipped = 0;
  std::int64_t dropped = 0;  // gradients that came too late
  double mean_age = 0;       // over updates
  std::int64_t most_age = 0;
  std::vector<ServedWorker> workers{};
  std::int64_t replaced = 0;  // workers that came back in a new process; on the head

  std::int64_t num_judged() const { return updates + skipped; }
};

}  // namespace zero
