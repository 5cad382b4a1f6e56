// MemoryFit: the memory that training needs of a machine, whether it is there, and changes that would make it fit.
//
//   const MemoryFit fit = fit_of(plan);      // plan.machine has the available memory
//   fit.fits()                               // false: fit.lacks bytes are missing
//   for (const WayToFit& way : ways_to_fit(plan)) say(way.change, way.needed);
//
// On a CPU, device and host are both main memory. The need is the least that works: one unit is gathered at a time.
// Activations are an estimate (MetaMemory), and the program itself is not counted. Local; computed from shapes.
#pragma once

#include <algorithm>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "zero/plan/units/tier_split.h"

namespace zero {

struct TrainingPlan;

// The machines on which a plan is to run, which are all like this one.
struct PlannedMachine {
  int machines = 1;
  int ranks = 1;                      // on one machine
  std::int64_t free_bytes = 0;        // of a machine's memory
  bool leaves_a_fifth = true;         // for activations, as the engine does without a budget
  std::int64_t batch = 1;             // of a rank
  std::int64_t activation_bytes = 0;  // of a rank, at this batch
  // activation_bytes with [train] checkpoint_activations; 0: they are already on, or this model has none
  std::int64_t checkpointed_bytes = 0;
  // If the model computes on GPUs, free_bytes is that of the GPU with the least free memory, and the host is counted
  // apart.
  int ranks_on_gpu = 0;  // ranks that share a GPU; 0: the model computes in main memory
  std::string gpu;       // "cuda:0 NVIDIA H200"
  // Beside a GPU of the machine's main memory; in the folders for states, together.
  PerLowerTier<std::int64_t> lower_free_bytes;
  std::int64_t host_activation_bytes = 0;  // of a rank's activations that are offloaded to the host
  std::string activations_of;      // the kind of work under which a run records its operators' memory on the GPU
  std::int64_t learned_bytes = 0;  // recorded by an earlier run; 0: none
  std::string why_free_not_known;  // not empty: there is no such GPU here, and free_bytes is unknown
  // Does a file describe it (zero plan --cluster)? Then nothing of this machine counts, and free_bytes 0 means that the
  // file does not have the memory.
  bool is_described = false;
  bool has_known_gpu() const { return ranks_on_gpu > 0 && why_free_not_known.empty(); }
  int sharers() const { return ranks_on_gpu > 0 ? ranks_on_gpu : ranks; }
};

// The need of one rank.
struct MemoryNeed {
  std::int64_t states = 0;   // on device and host; if the model computes on a GPU, only on the device
  std::int64_t working = 0;  // gathered units, reductions, a gradient before its reduction, tiles of states on disk
  std::int64_t activations = 0;
  // Bytes of states on a tier that is no memory. If the model computes on a GPU: states in main memory, tiles for the
  // disk, and activations.
  PerLowerTier<std::int64_t> lower;
  // With weighted shards, this is the rank with the largest weight. The other ranks together hold so many bytes of
  // states less.
  std::int64_t others_less = 0;
  std::int64_t total() const { return states + working + activations; }
};

// The need on a tier below the device. Without a GPU the host's need is part of the machine's memory, and 0 here.
struct TierFit {
  std::int64_t needed = 0;           // of a machine; of files: for states there, and for states that may move there
  std::optional<std::int64_t> free;  // empty: not known here
  std::int64_t lacks = 0;            // 0: it fits
};

struct MemoryFit {
  MemoryNeed rank;
  std::int64_t needed = 0;  // of a machine
  std::int64_t free = 0;
  std::int64_t lacks = 0;  // 0: it fits
  bool is_known = true;    // false: the free memory of the planned machine is unknown here
  bool refused = false;    // true: an engine would refuse it, even if nothing lacks
  PerLowerTier<TierFit> lower;
  // Returns whether no memory lacks; files can grow.
  bool fits() const {
    const auto lacks_on = [this](Tier tier) { return is_memory(tier) && lower[tier].lacks > 0; };
    return lacks == 0 && !refused && std::ranges::none_of(kLowerTiers, lacks_on);
  }
};

// Returns the fit of the plan as it is.
MemoryFit fit_of(const TrainingPlan& plan);

struct WayToFit {
  std::string change;       // "--zero.stage 3"
  std::int64_t needed = 0;  // of a machine, after the change
  std::int64_t disk = 0;    // of a machine's disks
};
// Returns the changes that suffice by themselves: another stage, a larger group, states on a disk, activation
// checkpoints, a smaller batch, more machines. If none does, returns all of them together except more machines, if that
// suffices. Empty: nothing does.
std::vector<WayToFit> ways_to_fit(const TrainingPlan& plan);

// Returns the lowest stage below the planned one that fits with all states in memory; -1: none. It never sends more.
int lower_stage_that_fits(const TrainingPlan& plan);

}  // namespace zero
