// StepModel: predicts the seconds of a step, phase by phase, if states are on several tiers.
//
//   StepModel model{units, world, placement, spec_of(rule), rates, profile};
//   PredictedStep step = predict(model, tiers);       // seconds by phase, and the resource that bounds each
//
//   forward   computes; fetches parameters off the device for each gather (link up; from disk: disk read, link up)
//   backward  the same; offloads gradients off the device after each reduction (link down; to disk: disk write);
//             the second and later reductions first fetch the sum so far
//   update    computes, on the host for moments on host or disk; reads and writes states on disk; moves over
//             the link the gradients and parameters that are on another tier than their update
//
// Phases follow each other. Within a phase everything overlaps, so it takes as long as its busiest resource.
// Exceptions: the ends of a pass (EndTransfers), and updates of sharded parameters (PredictedStep). best_placement()
// minimises this model. Values only; Local.
#pragma once

#include <array>
#include <cstdint>
#include <string_view>
#include <vector>

#include "zero/base/numbers/state_spec.h"
#include "zero/base/numbers/tier.h"
#include "zero/plan/units/placement.h"

namespace zero {

// If several resources are equally busy, the first one is the bound.
enum class Resource : std::uint8_t {
  kCompute,
  kLinkUp,
  kLinkDown,
  // Three resources of each tier of requests, from the fastest tier: see requests_of(), reads_of(), writes_of().
  kRequests,
  kUpdate = kRequests + 3 * kNumRequestTiers
};
constexpr int kNumResources = static_cast<int>(Resource::kUpdate) + 1;
// Return a resource of a tier of requests: reading and writing together, only reading, only writing.
constexpr Resource requests_of(Tier tier) {
  int first = static_cast<int>(Resource::kRequests);
  for (const Tier faster : kRequestTiers) {
    if (faster == tier) break;
    first += 3;
  }
  return static_cast<Resource>(first);
}
constexpr Resource reads_of(Tier tier) {
  return static_cast<Resource>(static_cast<int>(requests_of(tier)) + 1);
}
constexpr Resource writes_of(Tier tier) {
  return static_cast<Resource>(static_cast<int>(requests_of(tier)) + 2);
}
// "compute", "link up", "link down", "disk", "disk read", "disk write", "update"
std::string_view name_of(Resource resource);

enum class StepPhase : std::uint8_t { kForward, kBackward, kUpdate };
constexpr int kNumStepPhases = 3;
constexpr std::array<StepPhase, kNumStepPhases> kAllStepPhases{StepPhase::kForward, StepPhase::kBackward,
                                                               StepPhase::kUpdate};
std::string_view name_of(StepPhase phase);  // "forward", "backward", "update"

// Rates of a tier of requests, such as a disk. It is busy reading, busy writing, and busy with both for
// share * (read + write).
struct RequestRates {
  double read = 0;
  double write = 0;
  // Seconds of reading and writing at once, over the seconds of one after the other: 1 if the disk serialises them, 0.5
  // if it is full duplex. Never more than 1, even if a disk is slower at both: in a linear model, more would also slow
  // down only reading or only writing.
  double share = 1;
};

// Rates of one rank in bytes per second, probed while the other ranks of its machine are equally busy. A rate of 0
// means that the resource does not exist and takes no time. The two directions of a link are independent.
struct TierRates {
  double link_up = 0;                   // host to device
  double link_down = 0;                 // device to host
  PerLowerTier<RequestRates> requests;  // not used for a tier that is memory
  double update_numel = 0;              // elements per second of the update rule in main memory
  // The same on a device with its own memory and cores. 0: there is none, and the host's cores also update states on
  // the device.
  double device_update_numel = 0;
};

// Profile of one step, from the trace and its clock.
struct StepProfile {
  double forward_seconds = 0;  // computation only
  double backward_seconds = 0;
  // By unit: how often a step gathers its parameters from their shards. Empty: once each micro-batch, or with secondary
  // parts once, in the first forward pass.
  std::vector<int> forward_gathers, backward_gathers;
  // The schedule's budget is min: parameters are fetched right before their gather, while nothing computes.
  bool min_budget = false;
  // By unit: the share of the pass's computation before the unit's first use (forward) or before its gradient is
  // complete (backward). Empty: unknown.
  std::vector<double> used_at, gradient_at;
};

struct StepModel {
  std::vector<Unit> units;
  int world = 1;
  Placement placement;  // placement of the stage; its tiers are ignored
  OptimizerSpec optimizer;
  TierRates rates;
  StepProfile profile;
};

// Seconds that each resource is busy in each phase.
using BusySeconds = std::array<std::array<double, kNumResources>, kNumStepPhases>;

// Transfers at an end of a phase. The ends overlap less: nothing computes before the first unit's parameters have
// arrived, or after the last unit's gradient is complete. If the profile says when a pass uses its units, a phase also
// takes at least as long as the transfers at its ends plus the computation that cannot hide them. Under the min budget
// a backward pass hides no fetch.
//
// An EndTransfers is the work of one resource that overlaps only with the rest of the phase's computation. For kUpdate:
// its work in an update that continues into the forward pass plus its work in that pass, which overlap with that pass's
// computation.
struct EndTransfers {
  StepPhase phase = StepPhase::kForward;
  Resource resource = Resource::kRequests;
  double apart = 0;    // share of the phase's computation before or after all of it
  double seconds = 0;  // seconds of the transfers
};

// The prediction. If parameters are sharded, units are updated in the order of the next forward pass, which begins as
// soon as its first unit is updated. The two phases together take as long as the resource that is busiest in both, and
// the update's seconds are those beyond the forward pass. Updates on the cores that compute the passes overlap with no
// pass.
struct PredictedStep {
  BusySeconds busy{};
  std::vector<EndTransfers> ends;
  // Returns the seconds of the busiest resource, or of an end. For an update beside the forward pass: the seconds
  // beyond that pass.
  double seconds(StepPhase phase) const;
  // Returns the resource with the larger share of the phase's seconds: the transfer at its end, or the computation
  // before or after that transfer.
  Resource bound(StepPhase phase) const;
  double total() const;
  // Returns the resource with the largest share of the total: if a disk bounds all phases, it bounds the step. Reading,
  // writing and both together count as one disk.
  Resource bound() const;
};

struct Schedule;
// Counts how often the schedule gathers each unit from its shards, by pass, and sets min_budget.
void count_gathers(const Schedule& schedule, std::size_t num_units, StepProfile& profile);

// Predicts a step. `tiers`: by unit, as in Placement::tiers.
PredictedStep predict(const StepModel& model, const std::vector<UnitTiers>& tiers);

}  // namespace zero
