// Served clock: the seconds of a clock of servers and workers (sync_plan.h) on a described cluster (cluster.h).
//
//   const ServedTraffic traffic = traffic_of(sync, {.pushed = 4e6, .pulled = 4e6, .messages = 6}, cluster);
//   clock_seconds(sync, cluster, /*computation=*/0.3, traffic)      // the mean of many clocks
//
// A worker sends a part of its push to each server, and receives a part of the weights from each. All ranks of a
// machine share its full-duplex link. With kSync, or without staleness, workers push, then wait, then pull. With
// staleness a worker waits only for its own transfers, and servers serve others meanwhile. So some workers of a link
// push while others pull or compute. Mean value analysis predicts how often they meet. A clock takes at least as long
// as all its bytes on the busiest machine's link.
//
// The servers' updates are not counted. Clocks follow the rules of push_order.h in simulated time. Random compute times
// (Cluster::jitter) come from a fixed sequence, so the same input has the same result. Values only; Local. 10,000 ranks
// take milliseconds.
#pragma once

#include <cstdint>

#include "zero/plan/cluster/cluster.h"
#include "zero/plan/served/sync_plan.h"

namespace zero {

// Bytes of one worker in a clock, over all servers.
struct ClockBytes {
  double pushed = 0;
  double pulled = 0;
  int messages = 0;         // consecutive messages to one server, and the same number back
  double largest_part = 0;  // the busiest server's share of these bytes; 0: all servers have equal shares
};

struct ServedTraffic {
  Exchange push, pull;          // all workers' bytes: the busiest rank and machine, including servers
  Exchange own_push, own_pull;  // the same for only the workers and their machines
  Exchange total() const;
};

// Counts a clock's traffic. The servers are the first ranks. require_possible(sync, cluster.world()) must hold.
ServedTraffic traffic_of(const SyncPlan& sync, const ClockBytes& bytes, const Cluster& cluster);

// Returns the mean seconds of a clock. `computation`: seconds of a worker of speed 1.
double clock_seconds(const SyncPlan& sync, const Cluster& cluster, double computation, const ServedTraffic& traffic);

// Returns the number of gradients of a clock that are used: all workers', or a quorum.
int num_used(const SyncPlan& sync, int world);

}  // namespace zero
