// ServedReport: how servers used the gradients of their workers, in a run or in a step. Values only.
#pragma once

#include <algorithm>
#include <cstdint>
#include <string>
#include <vector>

namespace zero {

struct ServedSteps {
  std::int64_t updates = 0;
  std::int64_t dropped = 0;  // gradients that were too late for their update
  double mean_age = 0;       // updates between the weights of a gradient and its use
  std::int64_t most_age = 0;
  std::int64_t pushed_bytes = 0;           // gradients that this rank received
  std::int64_t pulled_bytes = 0;           // weights that it sent
  double waited_seconds = 0;               // by this rank, for gradients
  std::int64_t replaced = 0;               // workers that returned in a new process
  std::vector<std::int64_t> of_workers{};  // applied gradients, by worker

  void add(const ServedSteps& more) {
    if (updates + more.updates > 0)
      mean_age = (mean_age * static_cast<double>(updates) + more.mean_age * static_cast<double>(more.updates)) /
                 static_cast<double>(updates + more.updates);
    updates += more.updates;
    dropped += more.dropped;
    most_age = std::max(most_age, more.most_age);
    pushed_bytes += more.pushed_bytes;
    pulled_bytes += more.pulled_bytes;
    waited_seconds += more.waited_seconds;
    replaced += more.replaced;
    of_workers.resize(std::max(of_workers.size(), more.of_workers.size()), 0);
    for (std::size_t worker = 0; worker < more.of_workers.size(); ++worker)
      of_workers[worker] += more.of_workers[worker];
  }
};

struct ServedReport {
  std::string mode;  // "sync", "stale", "async"; empty: no servers
  int servers = 0, workers = 0;
  int staleness = 0, quorum = 0;
  ServedSteps run;
};

}  // namespace zero
