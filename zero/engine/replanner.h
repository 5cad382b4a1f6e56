// Replanner: places states anew while a model trains, and moves them there: when memory is short or free again (what
// Rebalancer wants), and once when it is known what the model computes (what Placer learns from that).
//
//   mine.wanted_bytes = replanner.wanted(/*updates=*/steps);              // Local, once a step
//   replanner.rebalance(agreed.wanted_bytes, steps);                      // Collective: all ranks alike
//   if (taken == kProfileStep) replanner.learn(statistics.profile(), steps);
//
// Between the step sync and the update nothing is gathered, every rank has read what it wanted of the others, and
// what an update accesses for the first time is not in memory yet: states move then. Bits do not depend on it.
// Collective, where nothing else is said. Throws IoError.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "zero/engine/engine_parts.h"
#include "zero/engine/options/step_report.h"
#include "zero/engine/place/rebalancer.h"

namespace zero {

class Replanner {
 public:
  explicit Replanner(EngineParts& parts);

  // Before the first step, when parameters have their values: where memory is short by now, states make room.
  void settle(std::int64_t updates);

  // Local. See Rebalancer::look(), and wanted(); 0 where memory is not watched. `updates`: how many were made.
  void look();
  std::int64_t wanted(std::int64_t updates);
  void rebalance(std::int64_t wanted_bytes, std::int64_t updates);
  void learn(const StepProfile& profile, std::int64_t updates);

  // Local.
  void add_to(EngineReport& report) const;

 private:
  std::int64_t untouched_bytes(std::int64_t updates) const;
  std::int64_t move(const std::vector<UnitTiers>& tiers, GatherBudget budget);
  std::string where_states_lie() const;

  EngineParts& parts_;
  std::optional<Rebalancer> rebalancer_;  // where memory is watched
  std::int64_t num_replans_ = 0;
  std::int64_t moved_bytes_ = 0;
};

}  // namespace zero
