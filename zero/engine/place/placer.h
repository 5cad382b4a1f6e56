// Placer: chooses the tiers of all states, by the options' fractions or by a linear programme.
//
//   Placer placer(&comms.run, comms.mesh, options, units, *rule);
//   placer.placement()                           // the first one
//   placer.predicted(placer.placement(), profile).total()       // seconds a step
//   placer.try_within(less)                      // later, when the device and the host may hold less (see Rebalancer)
//   placer.learn(profile, depth, spare)          // later, when the profile of the model is known
//
// Given fractions are used unchanged. Otherwise all states stay on the device if they fit. If they do not,
// best_placement() decides what moves to the host, within its budget, and to a named disk; with "min" every movable
// state moves. The class Budgets gives the bytes of each tier. Rates are probed for this choice; for a device that the
// host cannot read, also its copies and updates. Ranks first agree on budgets and rates, so all choose alike. A single
// rank with such a device holds units whole there at any stage, if nothing leaves it. Bytes and seconds are a rank's.
// `comm` is the run's; without it a process plans for an unspecified machine, and a disk that is not here has no rate.
#pragma once

#include <optional>
#include <vector>

#include "zero/comm/communicator.h"
#include "zero/engine/options/engine_host.h"
#include "zero/engine/options/options.h"
#include "zero/engine/place/budgets.h"
#include "zero/plan/placement/best_placement.h"
#include "zero/plan/units/mesh.h"

namespace zero {

class Placer {
 public:
  // Collective. Throws ConfigError for states that cannot be placed as the options ask, and for too small budgets.
  // `options` must outlive the placer.
  Placer(Communicator* comm, const Mesh& mesh, const AttachOptions& options, const std::vector<Unit>& units,
         const UpdateRule& rule, const EngineHost& host = {});

  const Placement& placement() const { return placement_; }
  // Returns the placement with everything that may leave the device on another tier.
  Placement all_away(Tier to = kLastTier) const;
  // Returns whether states may move while the model trains: the placement is automatic, the disk has room for all
  // states, the host has room for tiles, and the device is main memory.
  bool movable() const { return movable_; }
  // Returns the placement for which the disk must have room.
  Placement most_away() const { return movable_ ? all_away() : placement_; }
  // Return the bytes of the states of placement(), and of states that cannot leave the device.
  const TierBudgets& held() const { return held_; }
  std::int64_t fixed_bytes() const { return fixed_bytes_; }

  // Collective, while a model trains. Returns the best placement within the budgets, which are equal on every rank.
  // Rank 0 solves; if it fails, warns and returns nothing.
  std::optional<std::vector<UnitTiers>> try_within(const TierBudgets& budgets);
  // Collective. Returns the best tiers once the profile of the model is known (rank 0's profile counts). They use no
  // more of any tier than the programme could first use, and no more of the device than is used now. Returns nothing if
  // the model predicts no gain, or if no programme chose the placement. adopt(), which is Local, then records the new
  // tiers. `depth`: of the tiles in transfer (ShardedState), beside which the host keeps its budget. `spare`: bytes
  // that this rank may take in addition; other programs may have taken memory since it was measured.
  std::optional<std::vector<UnitTiers>> learn(const StepProfile& profile, int depth, std::int64_t spare);
  void adopt(const std::vector<UnitTiers>& tiers);
  // As measured when states were placed.
  const Budgets& budgets() const { return budgets_; }

  // Return this machine's rates, and a step's seconds at these rates. The profile is zero if not measured.
  const TierRates& rates() const { return model_.rates; }
  PredictedStep predicted(const Placement& placement, const StepProfile& profile) const;

 private:
  void probe_device_rates(const EngineHost& host);
  void choose();
  std::int64_t device_bytes(const Placement& placement) const;
  bool fits_device() const;
  TierBudgets least_of_device() const;
  std::vector<UnitTiers> within(const TierBudgets& budgets);
  std::optional<std::vector<UnitTiers>> take_if_solved(bool solved, std::vector<UnitTiers> tiers);
  void count_held();
  void take_from_first(std::vector<UnitTiers>& tiers);

  Communicator* comm_;
  const AttachOptions& options_;
  StepModel model_;
  Budgets budgets_;
  Placement placement_;
  TierBudgets held_;
  std::optional<TierBudgets> chosen_within_;  // the programme's budgets; empty if it was not used
  std::int64_t fixed_bytes_ = 0;
  bool movable_ = false;
};

// Local. Returns the placement by stage and fractions only.
Placement placement_of(const AttachOptions& options, const std::vector<Unit>& units, const Mesh& mesh);

// Local. Returns whether a single rank, on a device with its own memory, holds units whole there at any stage: its
// shard is the whole unit, and nothing may leave the device later. Nothing is then gathered, and a gradient stays in
// the memory of its sum.
bool holds_all_whole(const AttachOptions& options, const Placement& placement, int world);
void hold_all_whole(Placement& placement);

}  // namespace zero
