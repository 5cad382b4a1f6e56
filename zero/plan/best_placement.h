// best_placement(): finds the fraction of each state of each unit on each tier with which a step is shortest.
//
// A linear programme (PlacementProgramme) gives the fractions. They are rounded to whole blocks as split_over_tiers()
// does; where that would break a tier's budget, the programme is solved again with a budget that is smaller by the
// excess. Among placements with equal step times the one with the fewest bytes off the device wins, those on disk
// counted twice.
//
//   BestPlacement best = best_placement(model, {.device = 2'000'000'000, .host = 8'000'000'000});
//   placement.tiers = best.tiers;
//   best.predicted.total()                   // seconds
//
// Deterministic: the same problem gives the same placement in every process of one build (other processors may round
// otherwise: ranks of different machines should agree on one). Values only; Local.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "zero/plan/step_model.h"

namespace zero {

// Bytes that states may take on each tier of one rank. Gathered units and staging are taken off before.
struct TierBudgets {
  std::int64_t device = 0;
  std::int64_t host = 0;
  std::int64_t disk = 0;
};

// A disk budget that is a rank's share of the free room there.
struct FreeDisk {
  std::string folders;  // empty: the budget is the user's
  int ranks = 1;        // that share it

  static constexpr int kTenths = 9;  // of the free room that all of them take
  std::int64_t share(std::int64_t free_bytes) const { return free_bytes / 10 * kTenths / ranks; }
};

struct BestPlacement {
  std::vector<UnitTiers> tiers;
  PredictedStep predicted;   // of `tiers`, after rounding
  double least_seconds = 0;  // of the programme: no placement within the budgets is predicted to take less
};

// Throws ConfigError under "zero.placement" when the budgets together cannot hold the states: says by how much, and
// what each budget alone would have to grow to (the cheapest change first: disk, host, device). `free_disk`: where a disk
// budget comes from that the user did not choose.
BestPlacement best_placement(const StepModel& model, const TierBudgets& budgets, const FreeDisk& free_disk = {});

}  // namespace zero
