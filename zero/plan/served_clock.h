// Served clock: what a clock of servers and workers (sync_plan.h) takes on a described cluster (cluster.h).
//
//   const ServedTraffic traffic = traffic_of(sync, {.pushed = 4e6, .pulled = 4e6, .messages = 6}, cluster);
//   clock_seconds(sync, cluster, /*computation=*/0.3, traffic)      // the mean of many clocks
//
// A worker sends a part of its push to each server, and gets a part of the weights from each. All ranks of a machine share
// its link, and both directions are as fast. With sync, and where no gradient may be old, workers push, then wait, then
// pull. With old gradients a worker waits only for its own transfers, while servers work for others: some workers of a link
// push while others pull or compute. How often they meet is what chance makes of it (mean value analysis), and a clock takes
// at least as long as all its bytes on the busiest machine's link.
//
// The servers' updates are not counted. Clocks follow each other with the rules of push_order.h, in time that is computed;
// what varies (Cluster::jitter) is drawn from a fixed sequence, so that the same question has the same answer. Values only;
// Local. 10,000 ranks take milliseconds.
#pragma once

#include <cstdint>

#include "zero/plan/cluster.h"
#include "zero/plan/sync_plan.h"

namespace zero {

// Of one worker in a clock, over all servers.
struct ClockBytes {
  double pushed = 0;
  double pulled = 0;
  int messages = 0;         // to one server, that follow each other; and as many back
  double largest_part = 0;  // share of these bytes that the busiest server has; 0: all have as much
};

struct ServedTraffic {
  Exchange push, pull;          // of all workers: of the busiest rank and machine, servers among them
  Exchange own_push, own_pull;  // the same of workers and their machines alone
  Exchange total() const;
};

// The servers are the first ranks; require_possible(sync, cluster.world()) holds.
ServedTraffic traffic_of(const SyncPlan& sync, const ClockBytes& bytes, const Cluster& cluster);

// `computation`: seconds of a worker of speed 1.
double clock_seconds(const SyncPlan& sync, const Cluster& cluster, double computation, const ServedTraffic& traffic);

// Gradients of a clock that are used: all workers', or a quorum.
int num_used(const SyncPlan& sync, int world);

}  // namespace zero
