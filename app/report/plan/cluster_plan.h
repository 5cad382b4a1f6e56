// ClusterPlan: the seconds of a planned step on a described cluster, in several ways, and the best way.
//
//   const ClusterPlan found = plan_on(plan, cluster, computation);
//   found.ways[found.best]
//   text += cluster_table(found);
//
// A way is a stage and a group of ranks that hold one copy of the model. Gradients are summed in each step, or copies
// train apart (local). Stage 3 over several machines may have secondary groups of a machine's ranks, if weights do not
// stay gathered. Other ways have servers and workers (zero/plan/served/served_clock.h). A step takes the seconds of the
// slowest rank's computation and of the exchange, without overlap. With servers, it is the time for the samples of a
// step of the other ways. The best way is the fastest that fits and has the mathematics of one model. If several ways
// are within 3 % of it, the best is the way that holds least. Other ways are named, with their cost, if they take far
// less time. Local; computed from shapes.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include <nlohmann/json_fwd.hpp>

#include "zero/plan/cluster/cluster.h"

#include "app/report/plan/training_plan.h"

namespace zero {

struct ClusterWay {
  int stage = 0;
  Mesh mesh;
  bool local = false;
  SyncPlan sync;      // servers, if any; then stage is 3, and mesh is that of the servers
  WireCodecs wire{};  // codecs of a way that is tried with and without them
  int secondary = 0;  // ranks of a secondary group (zero/plan/units/secondary.h); 0: no such groups
  // Bytes of a rank, at least: states, gathered units, reductions, activations. With servers: of a server or a worker,
  // whichever holds more.
  std::int64_t held = 0;
  bool fits = true;
  bool can_run = true;  // false: servers, and more ranks than such a run may have (kMaxBoardRanks)
  Exchange exchange;    // of a step; with local steps also the step's part of an outer step
  double exchange_seconds = 0;
  double seconds = 0;        // of a step
  double clock_seconds = 0;  // of a clock of servers; 0: no servers
  // Seconds of a step in which ranks wait, because they vary, and for the slowest rank. Ways with servers wait within
  // the clock.
  double waiting_seconds = 0;
};

struct ClusterPlan {
  Cluster cluster;
  double computation = 0;  // seconds of a rank of speed 1, in a step
  std::int64_t local_steps = 0;
  std::vector<ClusterWay> ways;
  int planned = -1;  // the index of the configured way; -1: none of them
  int best = -1;     // index; -1: no way fits
};

// Returns the ways on `cluster`. `computation`: seconds of a step's passes and update on a rank of speed 1.
// - More ranks than servers may have: ways with servers are computed for equal ranges only, marked, and never
//   recommended.
// - A plan without codecs: the best way, and ways with local steps, are also tried with codecs (WireCodecs). Codecs
//   apply to bytes between copies, if there are copies, or else to all bytes. The processor's time for coding is not
//   counted.
// - Units are cut as planned (zero.shards), again for each group. Weighted shards have weights only for the planned
//   group, and hash shards need stage 3.
ClusterPlan plan_on(const TrainingPlan& plan, const Cluster& cluster, double computation);

// Returns the seconds of the exchange in a step of this plan only, without overlap.
double exchange_seconds(const TrainingPlan& plan, const Cluster& cluster);

std::string cluster_table(const ClusterPlan& plan);
nlohmann::ordered_json cluster_json(const ClusterPlan& plan);

}  // namespace zero
