// ClusterPlan: what a step of a planned training takes on a described cluster, held in several ways, and which to take.
//
//   const ClusterPlan found = plan_on(plan, cluster);
//   found.ways[found.best]
//   text += cluster_table(found);
//
// A way is a stage and a group of ranks that hold the model once, with gradients summed in each step, or with copies that
// train apart (local); at stage 3 over several machines also with secondary groups of a machine's ranks, where weights do not
// stay gathered; or servers and workers (zero/plan/served_clock.h). The time of a step is that of the slowest rank's
// computation and of the exchange, as if neither hid behind the other; with servers it is that of as many samples as all
// ranks take in a step of the others. The best is the fastest way that fits, among those with the mathematics of one model;
// of ways that are as fast, to 3 %, the one that holds least. Others are named where they take far less time, with their cost.
//
// Ways with servers are computed on any number of ranks, with equal ranges; on more ranks than servers can have they are marked, and
// no line recommends them. Where the plan has no codecs of its own, the best way and the one with local steps are tried with codecs, too (WireCodecs): of what crosses between copies, or else of all that
// crosses. Bytes are counted, and not what coding takes a processor.
//
// Units are cut as planned (zero.shards), for each group anew: weighted shards have weights for the planned group alone, and a
// hash needs stage 3.
//
// Local; computed from shapes.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include <nlohmann/json_fwd.hpp>

#include "zero/plan/cluster.h"
#include "zero/report/training_plan.h"

namespace zero {

struct ClusterWay {
  int stage = 0;
  Mesh mesh;
  bool local = false;
  SyncPlan sync;      // servers, if it has any: then stage and mesh are 3 and the servers
  WireCodecs wire{};  // of a way that is tried with them, beside the one without
  int secondary = 0;  // ranks of a secondary group (zero/plan/secondary.h); 0: there are none
  // Bytes of a rank, at least: states, gathered units, reductions, activations. With servers, of a server or a worker, whichever
  // holds more.
  std::int64_t held = 0;
  bool fits = true;
  bool can_run = true;  // false: with servers, on more ranks than such a run has at most (kMaxBoardRanks)
  Exchange exchange;    // of a step; with local steps the outer step's part of it, too
  double exchange_seconds = 0;
  double seconds = 0;        // of a step
  double clock_seconds = 0;  // of a clock of servers; 0: there are none
  double waiting_seconds =
      0;  // of a step: for ranks that vary, and for the slowest; servers' ways wait within the clock
};

struct ClusterPlan {
  Cluster cluster;
  double computation = 0;  // seconds of a rank of speed 1, in a step
  std::int64_t local_steps = 0;
  std::vector<ClusterWay> ways;
  int planned = -1;  // of the ways, the one that the configuration asks for; -1: none of them
  int best = -1;     // -1: none fits
};

// `computation`: seconds of a step's passes and update on a rank of speed 1.
ClusterPlan plan_on(const TrainingPlan& plan, const Cluster& cluster, double computation);

// Of the exchange in a step of this plan alone, as if nothing hid it.
double exchange_seconds(const TrainingPlan& plan, const Cluster& cluster);

std::string cluster_table(const ClusterPlan& plan);
nlohmann::ordered_json cluster_json(const ClusterPlan& plan);

}  // namespace zero
