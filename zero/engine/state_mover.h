// StateMover: places states again while a model trains, and moves them.
//
//   mine.wanted_bytes = state_mover.wanted(/*updates=*/steps);              // Local, once a step
//   state_mover.rebalance(agreed.wanted_bytes, steps);                      // Collective: the same on all ranks
//   if (taken == kProfileStep) state_mover.learn(statistics.profile(), steps);
//
// It does so when memory is short or free again (Rebalancer), and once when the profile of the model is known (Placer).
// States move between the step sync and the update. At that time no unit is gathered, and every rank has read the
// shards of others that it needs. Pages that an update writes for the first time are not committed yet. Moves change no
// bits. Collective, unless said otherwise. Throws IoError.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "zero/engine/engine_parts.h"
#include "zero/engine/options/step_report.h"
#include "zero/engine/place/rebalancer.h"

namespace zero {

class StateMover {
 public:
  explicit StateMover(EngineParts& parts);

  // Moves states to other tiers if memory is short. Call it before the first step, when parameters have their values.
  void settle(std::int64_t updates);

  // Local. See Rebalancer::look() and wanted(); 0 if memory is not watched. `updates`: the number made so far.
  void look();
  std::int64_t wanted(std::int64_t updates);
  void rebalance(std::int64_t wanted_bytes, std::int64_t updates);
  void learn(const StepProfile& profile, std::int64_t updates);

  // Local.
  void add_to(EngineReport& report) const;

 private:
  std::int64_t untouched_bytes(std::int64_t updates) const;
  // Returns the bytes with this tag on tiers that are memory.
  std::int64_t in_memory(MemoryTag tag) const;
  std::int64_t move(const std::vector<UnitTiers>& tiers, GatherBudget budget);
  std::string where_states_lie() const;

  EngineParts& parts_;
  std::optional<Rebalancer> rebalancer_;  // empty: memory is not watched
  std::int64_t num_replans_ = 0;
  std::int64_t moved_bytes_ = 0;
};

}  // namespace zero
