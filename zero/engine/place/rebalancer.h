// Rebalancer: gives memory back when others on this machine need it, and takes it again when they do not.
//
// After each step a rank knows how little memory was free in it (MemoryMonitor) and what it would give back for that
// (MemoryPolicy). The ranks agree on the most that any wants, and all do the same: units that stay gathered go first,
// down to two at a time; then states, from the host and then from the device, to where the linear programme finds them
// best under what is left. When memory is free again they come back in the opposite order. States that may not move
// (Placer::movable()) stay; when nothing is left to give, each rank says so once. Others may take half of the reserve
// in the time of a step (docs/algorithms.md, "How fast others may be"); what they take faster nobody gives back in
// time.
//
//   Rebalancer rebalancer(placer, budget, units, world, options, read_memory);
//   mine.wanted_bytes = rebalancer.wanted();                           // Local, once a step
//   if (auto change = rebalancer.change(agreed.wanted_bytes)) ...      // Collective: move, gather within the budget
//
// Bits do not depend on any of this.
#pragma once

#include <algorithm>
#include <cstdint>
#include <optional>
#include <vector>

#include "zero/engine/place/placer.h"
#include "zero/memory/memory_monitor.h"
#include "zero/memory/memory_policy.h"
#include "zero/plan/schedule/schedule.h"

namespace zero {

class Rebalancer {
 public:
  // `budget`: of gathered units, to begin with. `read_memory`: what is free on this machine.
  Rebalancer(Placer& placer, GatherBudget budget, const std::vector<Unit>& units, int world,
             const EngineOptions& options, const MemoryMonitor::Source& read_memory);

  // Local. > 0: bytes that this rank would give back; < 0: that it could take. `untouched`: bytes that it holds and
  // that have no memory behind them yet.
  std::int64_t wanted(std::int64_t untouched = 0);

  // Local. Looks at what is free now, for the next wanted(): activations take the most when a backward pass begins.
  void look() { monitor_.look_now(); }
  // Local. The bytes that a rank may take without leaving others short of memory.
  std::int64_t spare() const { return std::max<std::int64_t>(worst_.free_bytes - 3 * reserve_, 0) / num_ranks_; }

  struct Change {
    std::vector<UnitTiers> tiers;  // by unit
    GatherBudget budget;
    std::int64_t given_back = 0;  // of what the rank held to begin with
    std::int64_t wanted = 0;      // what the change came from
  };
  // Collective, with the same value everywhere. Nothing: things stay as they are.
  std::optional<Change> change(std::int64_t wanted);
  // Local. States were placed anew, and nothing is given back: what was held to begin with is what is held now.
  void restart();
  bool gives_back() const { return given_back_ > 0; }
  // Local. The change is made: what was seen until now does not count.
  void changed();

  const MemoryReading& worst() const { return worst_; }  // of wanted()
  std::int64_t reserve() const { return reserve_; }

 private:
  std::optional<std::vector<UnitTiers>> tiers_for(std::int64_t given_back_by_states);

  Placer& placer_;
  GatherBudget budget_;
  const std::vector<Unit> units_;
  int world_ = 1;
  std::vector<UnitTiers> first_tiers_;
  std::int64_t gathered_ = 0;  // what gathered units can give back
  std::int64_t most_ = 0;      // what all can
  std::int64_t given_back_ = 0;
  std::int64_t reserve_ = 0;
  int num_ranks_ = 1;  // of this machine
  bool said_exhausted_ = false;
  bool said_blind_ = false;
  double next_look_ = 0, seconds_between_looks_ = 0;
  MemoryReading worst_;
  MemoryPolicy policy_;
  MemoryMonitor monitor_;
};

}  // namespace zero
