// ServedClock, UpdateRules: results of one call of PushServer::serve(), and the rules for its updates. Values only.
//
//   const ServedClock clock = server.serve(8, {.lr = [](std::int64_t clock) { return 0.1 / (1.0 + clock); }});
//   clock.report.grad_norm; clock.workers[2].pushes;
#pragma once

#include <cstdint>
#include <functional>
#include <limits>
#include <vector>

#include "zero/engine/rank_engine.h"

namespace zero {

// Rules of an update, as functions of the clock and mean loss of its gradients. They depend on nothing else, and are
// the same on all servers. Without `lr`, the push gives the learning rate; of several pushes, the first worker's does.
struct UpdateRules {
  std::function<double(std::int64_t clock)> lr{};
  std::function<StepLimits(double loss)> limits = [](double loss) { return StepLimits{.loss = loss}; };
};

// Figures of a worker in one call, as the head knows them.
struct ServedWorker {
  std::int64_t pushes = 0;  // received
  std::int64_t pushed_bytes = 0;
  double waited_seconds = 0;     // seconds that it waited for answers before these pushes, by its own report
  std::int64_t applied = 0;      // gradients applied
  std::int64_t dropped = 0;      // gradients that were too late
  std::int64_t sum_of_ages = 0;  // sum over the applied gradients
  std::int64_t most_age = 0;
};

// Figures of one call. An update is skipped if one of its gradients or losses is not finite, or beyond a limit. Then no
// state changes and its gradients are not applied, but the weights get a new version number.
struct ServedClock {
  StepReport report;  // of the last update; if updates were skipped, of the first skipped one
  double loss = std::numeric_limits<double>::quiet_NaN();  // mean over all updates, with skipped ones
  std::int64_t updates = 0;
  std::int64_t skipped = 0;
  std::int64_t dropped = 0;  // gradients that were too late
  double mean_age = 0;       // over updates that were applied
  std::int64_t most_age = 0;
  std::vector<ServedWorker> workers{};
  std::int64_t replaced = 0;  // workers that returned in a new process; counted on the head

  std::int64_t num_judged() const { return updates + skipped; }
};

}  // namespace zero
