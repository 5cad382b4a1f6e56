// Rebalancer: frees memory when other programs on this machine need it, and takes it again later.
//
//   Rebalancer rebalancer(placer, budget, units, world, options, read_memory);
//   mine.wanted_bytes = rebalancer.wanted();                           // Local, once a step
//   if (auto change = rebalancer.change(agreed.wanted_bytes)) ...      // Collective: move, gather within the budget
//
// After each step a rank knows the least free memory during it (MemoryWatch), and the bytes to free for that
// (MemoryPolicy). Ranks agree on the largest number of bytes that any rank needs, and all do the same. They first
// release gathered units, down to two at a time. Then states leave the host, and then the device, to the tiers that the
// linear programme finds best within the rest. When memory is free again, this is undone in reverse order. States that
// may not move (Placer::movable()) stay. When nothing is left to free, each rank prints it once. Other programs may
// take half of the reserve in the time of a step (docs/algorithms.md, "How fast other programs may take memory"). If
// they take it faster, the rank is too late. No bits depend on any of this.
#pragma once

#include <algorithm>
#include <cstdint>
#include <optional>
#include <vector>

#include "zero/engine/place/placer.h"
#include "zero/memory/memory_policy.h"
#include "zero/memory/memory_watch.h"
#include "zero/plan/schedule/schedule.h"

namespace zero {

class Rebalancer {
 public:
  // `budget`: the first budget of gathered units. `read_memory`: reader of this machine's free memory.
  Rebalancer(Placer& placer, GatherBudget budget, const std::vector<Unit>& units, int world,
             const AttachOptions& options, int local_world, const MemoryWatch::Source& read_memory);

  // Local. Returns the bytes that this rank would free (> 0) or could take (< 0). `untouched`: bytes that it holds
  // without committed memory.
  std::int64_t wanted(std::int64_t untouched = 0);

  // Local. Measures the free memory for the next wanted(): activations are largest when a backward pass begins.
  void look() { monitor_.look_now(); }
  // Local. Returns the bytes that a rank may take without a shortage for others.
  std::int64_t spare() const { return std::max<std::int64_t>(worst_.free_bytes - 3 * reserve_, 0) / num_ranks_; }

  struct Change {
    std::vector<UnitTiers> tiers;  // by unit
    GatherBudget budget;
    std::int64_t given_back = 0;  // of the rank's first bytes
    std::int64_t wanted = 0;      // bytes for which the change was made
  };
  // Collective, with the same value on every rank. Empty: no change.
  std::optional<Change> change(std::int64_t wanted);
  // Local. Call it after states were placed again and nothing is given back: the current bytes become the first bytes.
  void restart();
  bool gives_back() const { return given_back_ > 0; }
  // Local. Call it after a change: earlier measurements no longer count.
  void changed();

  const MemoryReading& worst() const { return worst_; }  // reading behind wanted()
  std::int64_t reserve() const { return reserve_; }

 private:
  std::optional<std::vector<UnitTiers>> tiers_for(std::int64_t given_back_by_states);

  Placer& placer_;
  GatherBudget budget_;
  const std::vector<Unit> units_;
  int world_ = 1;
  std::vector<UnitTiers> first_tiers_;
  std::int64_t gathered_ = 0;  // bytes that gathered units can free
  std::int64_t most_ = 0;      // bytes that can be freed at most
  std::int64_t given_back_ = 0;
  std::int64_t reserve_ = 0;
  int num_ranks_ = 1;  // on this machine
  bool said_exhausted_ = false;
  bool said_blind_ = false;
  double next_look_ = 0, seconds_between_looks_ = 0;
  MemoryReading worst_;
  MemoryPolicy policy_;
  MemoryWatch monitor_;
};

}  // namespace zero
