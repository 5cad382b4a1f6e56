// Placer: where everything lies, as the options say, or, where they only give budgets, as a linear programme finds
// best.
//
//   Placer placer(&comms.run, comms.mesh, options, units, *rule);
//   placer.placement()                           // to begin with
//   placer.predicted(placer.placement(), profile).total()       // seconds a step
//   placer.try_within(less)                      // later, when the device and the host may hold less (see Rebalancer)
//   placer.learn(profile, depth, spare)          // later, when it is known what the model computes
//
// Fractions, where any are given, are obeyed. Else everything stays on the device while it fits there. Where it does
// not (with "min" nothing does that could leave), best_placement() says what goes to the host, as far as its budget
// allows, and what to a disk that is named. The budgets are those of MachineBudgets. Rates are probed for it, and ranks
// agree on budgets and rates first, so that all choose alike; of a device that the host cannot read, copies there and back and its
// updates are probed, too. A rank that is alone with a device that the host cannot read holds units
// whole there, at any stage, where nothing leaves it.
//
// Bytes and seconds are a rank's, which shares the model with the ranks of its copy. `comm` is the run's: all ranks choose
// alike. Without one a process plans for the ranks of some machine: a disk that is not here has no rate then.
#pragma once

#include <optional>
#include <vector>

#include "zero/comm/communicator.h"
#include "zero/engine/options/engine_seams.h"
#include "zero/engine/options/options.h"
#include "zero/engine/place/machine_budgets.h"
#include "zero/plan/placement/best_placement.h"
#include "zero/plan/units/mesh.h"

namespace zero {

class Placer {
 public:
  // Collective. Throws ConfigError: what cannot be placed so, budgets that are too small. `options` outlive the placer.
  Placer(Communicator* comm, const Mesh& mesh, const EngineOptions& options, const std::vector<Unit>& units,
         const UpdateRule& rule, const EngineSeams& seams = {});

  const Placement& placement() const { return placement_; }
  // Everything that may leave the device on another tier.
  Placement all_away(Tier to = Tier::kDisk) const;
  // States may move while the model trains: the placement is ours to choose, the disk has room for all of them, the
  // host for tiles on their way there, and the device is main memory.
  bool movable() const { return movable_; }
  // Where the disk must have a place for them.
  Placement may_lie() const { return movable_ ? all_away() : placement_; }
  // Bytes of the states of placement(), and those of states that cannot leave the device.
  const TierBudgets& held() const { return held_; }
  std::int64_t fixed_bytes() const { return fixed_bytes_; }

  // Collective, while a model trains. The best placement that holds no more on any tier; equal budgets on every rank.
  // Rank 0 solves, and where it cannot nothing is returned, with a warning.
  std::optional<std::vector<UnitTiers>> try_within(const TierBudgets& budgets);
  // Collective. Where states lie best now that it is known what the model computes (rank 0's profile counts): on no
  // tier more than the programme could use first, and no more on the device than lies there. Nothing where that is no
  // faster by the model, or where no programme placed them. What lies there is then said by adopt(), Locally.
  // `depth`: of the tiles that are under way (ShardedState); beside them the host keeps its budget. `spare`: what this
  // rank may take of the machine's memory beyond what it holds; others may have taken some since it was measured.
  std::optional<std::vector<UnitTiers>> learn(const StepProfile& profile, int depth, std::int64_t spare);
  void adopt(const std::vector<UnitTiers>& tiers);
  // As measured when states were placed.
  const MachineBudgets& budgets() const { return budgets_; }

  // Rates of this machine, and what a step takes at them. The profile is zero where nobody measured one.
  const TierRates& rates() const { return model_.rates; }
  PredictedStep predicted(const Placement& placement, const StepProfile& profile) const;

 private:
  void probe_device_rates(const EngineSeams& seams);
  void choose();
  std::int64_t device_bytes(const Placement& placement) const;
  bool fits_device() const;
  TierBudgets least_of_device() const;
  std::vector<UnitTiers> within(const TierBudgets& budgets);
  std::optional<std::vector<UnitTiers>> take_if_solved(bool solved, std::vector<UnitTiers> tiers);
  void count_held();
  void take_from_first(std::vector<UnitTiers>& tiers);

  Communicator* comm_;
  const EngineOptions& options_;
  StepModel model_;
  MachineBudgets budgets_;
  Placement placement_;
  TierBudgets held_;
  std::optional<TierBudgets> chosen_within_;  // by the programme; nothing where it was not asked
  std::int64_t fixed_bytes_ = 0;
  bool movable_ = false;
};

// Local. The placement of stage and fractions alone.
Placement placement_of(const EngineOptions& options, const std::vector<Unit>& units, const Mesh& mesh);

// Local. Whether a lone rank, on a device with memory of its own, holds units whole there at any stage, if nothing may move
// off the device later: its shard is the whole unit. Nothing is gathered then, and a gradient lies where its sum is made.
bool holds_all_whole(const EngineOptions& options, const Placement& placement, int world);
void hold_all_whole(Placement& placement);

}  // namespace zero
