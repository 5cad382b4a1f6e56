// best_placement(): finds the fraction of each state of each unit on each tier that makes a step shortest.
//
//   BestPlacement best = best_placement(model, {.device = 2'000'000'000, .host = 8'000'000'000});
//   placement.tiers = best.tiers;
//   best.predicted.total()                   // seconds
//
// A linear programme (PlacementProgramme) computes the fractions. They are rounded to whole blocks as in
// split_over_tiers(). If rounding exceeds a tier's budget, the programme is solved again with a budget that is smaller
// by the excess. Among placements with equal step times, the one with the fewest bytes off the device wins; bytes on
// disk count twice.
//
// Deterministic: the same problem gives the same placement in every process of one build. Other processors may round
// differently, so ranks of different machines should agree on one placement. Values only; Local.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "zero/plan/model/step_model.h"

namespace zero {

// Bytes that states may take on each tier of one rank, after gathered units and staging are subtracted.
using TierBudgets = PerTier<std::int64_t>;

// A disk budget that was derived from free space: this rank's share of it.
struct FreeDisk {
  std::string folders;  // folders of the disk tier; empty: the user chose the budget
  int ranks = 1;        // number of ranks that share the free space

  static constexpr int kTenths = 9;  // tenths of the free space that all ranks together may take
  std::int64_t share(std::int64_t free_bytes) const { return free_bytes / 10 * kTenths / ranks; }
};

struct BestPlacement {
  std::vector<UnitTiers> tiers;
  PredictedStep predicted;  // the step with `tiers`, after rounding
  // the programme's optimum, before rounding: a lower bound for all placements within the budgets
  double least_seconds = 0;
};

// Finds the best placement. Throws ConfigError under "zero.placement" if the budgets together cannot hold the states.
// The message names the missing bytes, and the size that each budget would need by itself (cheapest change first: disk,
// host, device). `free_disk`: the source of a disk budget that the user did not choose.
BestPlacement best_placement(const StepModel& model, const TierBudgets& budgets, const FreeDisk& free_disk = {});

}  // namespace zero
