// MemoryFit: what training takes of a machine's memory, whether that is there, and what would fit where it is not.
//
//   const MemoryFit fit = fit_of(plan);      // plan.machine says what there is
//   fit.fits()                               // else fit.lacks bytes are missing
//   for (const WayToFit& way : ways_to_fit(plan)) say(way.change, way.bytes);
//
// On a CPU device and host are both main memory. What is counted is the least that works: one unit gathered at a time.
// Activations are an estimate (MetaMemory), and the program itself is not counted. Local; computed from shapes.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "zero/plan/tier_split.h"

namespace zero {

struct TrainingPlan;

// The machines on which a plan is to run, all like this one.
struct PlannedMachine {
  int machines = 1;
  int ranks = 1;                      // of one machine
  std::int64_t free_bytes = 0;        // of its memory
  bool leaves_a_fifth = true;         // to activations, as the engine does where no budget is given
  std::int64_t batch = 1;             // of a rank
  std::int64_t activation_bytes = 0;  // of a rank, at this batch
  // The same with [train] checkpoint_activations; 0: they are on, or this model has none.
  std::int64_t checkpointed_bytes = 0;
  std::int64_t disk_free_bytes = 0;  // of the folders for states, together
  // Where the model computes on GPUs: free_bytes is then of the one with least of it, and what lies on the host is counted
  // apart.
  int ranks_on_gpu = 0;                    // that share one; 0: the model computes in main memory
  std::string gpu;                         // "cuda:0 NVIDIA H200"
  std::int64_t host_free_bytes = 0;        // of the machine's main memory
  std::int64_t host_activation_bytes = 0;  // of a rank's activations that are offloaded there
  std::string activations_of;              // the work by which a run notes what its operators take of the GPU
  std::int64_t learned_bytes = 0;          // that an earlier run noted; 0: none did
  std::string why_free_not_known;          // not empty: there is no such GPU here, and free_bytes is nothing
  // A file describes it (zero plan --cluster): nothing of this machine counts. free_bytes 0: the file does not say them.
  bool is_described = false;
  bool has_known_gpu() const { return ranks_on_gpu > 0 && why_free_not_known.empty(); }
  int sharers() const { return ranks_on_gpu > 0 ? ranks_on_gpu : ranks; }
};

// Of one rank.
struct MemoryNeed {
  std::int64_t states = 0;   // on device and host; where the model computes on a GPU, there alone
  std::int64_t working = 0;  // gathered, reduced, a gradient on its way, and tiles of what lies on disk
  std::int64_t activations = 0;
  std::int64_t disk = 0;  // of states; no memory
  std::int64_t host =
      0;  // where the model computes on a GPU: states in main memory, tiles for the disk, and activations
  // Of weighted shards this is the rank with the largest weight: bytes of states that the others hold less, together.
  std::int64_t others_less = 0;
  std::int64_t total() const { return states + working + activations; }
};

struct MemoryFit {
  MemoryNeed rank;
  std::int64_t needed = 0;  // of a machine
  std::int64_t free = 0;
  std::int64_t lacks = 0;  // 0: it fits
  bool is_known = true;    // false: not where it is to run
  bool refused = false;    // an engine would refuse it, whatever lacks
  bool fits() const { return lacks == 0 && host_lacks == 0 && !refused; }
  std::int64_t host = 0;        // of a machine's main memory, beside GPUs
  std::int64_t host_lacks = 0;  // 0: it has room for that
  std::int64_t disk = 0;        // of a machine's files: states that lie there, and room for those that may move there
  std::int64_t disk_lacks = 0;  // 0: the disks have room for them
};

// As planned.
MemoryFit fit_of(const TrainingPlan& plan);

struct WayToFit {
  std::string change;       // "--zero.stage 3"
  std::int64_t needed = 0;  // of a machine, then
  std::int64_t disk = 0;    // of a machine's disks
};
// Each alone, where it is enough: another stage, states on a disk, activation checkpoints, a smaller batch, more
// machines. Where none is: all but the machines together, if that is. Empty: nothing of this is enough.
std::vector<WayToFit> ways_to_fit(const TrainingPlan& plan);

// The lowest stage below the planned one that fits with all states in memory; -1: none. It sends as much or less.
int lower_stage_that_fits(const TrainingPlan& plan);

}  // namespace zero
