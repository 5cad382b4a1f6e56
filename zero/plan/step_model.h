// StepModel: the seconds of a step, phase by phase, when states lie on several tiers.
//
// Within a phase everything overlaps: the phase takes as long as its busiest resource. Phases follow each other. The
// ends of a pass are the exception: nothing computes before the first unit's parameters are there, or after the last
// unit's gradient is. If the profile says when a pass uses its units, a phase takes at least as long as the transfers
// at its ends and the computation that cannot hide them. Under the min budget a backward pass hides no fetch.
//
//   forward   compute; parameters off the device are fetched for each gather (link up; from disk: disk read, link up)
//   backward  the same, and gradients off the device are offloaded after each reduction (link down; to disk: disk write);
//             the second and later ones bring the sum so far first
//   update    the arithmetic, on the host for moments on host or disk; reading and writing what lies on disk; and over
//             the link the gradients and parameters that do not lie where their update runs
//
// Where parameters are sharded, units are updated in the order of the next forward pass, which begins as soon as its
// first unit is updated. The two phases together take as long as the resource that is busiest in both; the update's
// seconds are those beyond the forward pass alone. Arithmetic on the cores that compute the passes overlaps with no
// pass.
//
//   StepModel model{units, world, placement, spec_of(rule), rates, profile};
//   PredictedStep step = predict(model, tiers);       // seconds by phase, and the resource that bounds each
//
// The two directions of a link share nothing. The two of a disk share it as was probed: the disk is busy reading, busy
// writing, and busy with both together, which counts `disk_share` of their sum: all of it on a disk that does one
// after the other, half of it on one that does each as fast as alone. A rate of 0 means that the resource does not
// exist, and takes no time. best_placement() minimises this model. Values only; Local.
#pragma once

#include <array>
#include <cstdint>
#include <string_view>
#include <vector>

#include "zero/base/state_spec.h"
#include "zero/plan/placement.h"

namespace zero {

// kDisk: reading and writing together. Of resources that are as busy the first one is the bound.
enum class Resource : std::uint8_t { kCompute, kLinkUp, kLinkDown, kDisk, kDiskRead, kDiskWrite, kUpdate };
constexpr int kNumResources = 7;
// "compute", "link up", "link down", "disk", "disk read", "disk write", "update"
std::string_view name_of(Resource resource);

enum class StepPhase : std::uint8_t { kForward, kBackward, kUpdate };
constexpr int kNumStepPhases = 3;
constexpr std::array<StepPhase, kNumStepPhases> kAllStepPhases{StepPhase::kForward, StepPhase::kBackward,
                                                               StepPhase::kUpdate};
std::string_view name_of(StepPhase phase);  // "forward", "backward", "update"

// Bytes per second of one rank, probed while the other ranks of its machine are as busy.
struct TierRates {
  double link_up = 0;    // host to device
  double link_down = 0;  // device to host
  double disk_read = 0;
  double disk_write = 0;
  // Seconds that reading and writing at once take, over those of one after the other: 1 on a half-duplex disk, 0.5
  // where both are as fast as alone. Never more than 1, though a disk may be slower at both: a linear model would then
  // slow down reading or writing alone, too.
  double disk_share = 1;
  double update_numel = 0;  // elements per second that the update rule manages in main memory
  // The same on a device that has memory and cores of its own, beside the host's. 0: there is none, and the host's
  // cores update what lies on the device too.
  double device_update_numel = 0;
};

// Of one step, from the trace and its clock.
struct StepProfile {
  double forward_seconds = 0;  // compute alone
  double backward_seconds = 0;
  // How often each unit's parameters are gathered from their shards in a step, by unit; empty: once each micro-batch, or where
  // secondary parts are kept in the first forward pass alone.
  std::vector<int> forward_gathers, backward_gathers;
  // The schedule's budget is minimum: parameters come for their gather, while nothing is computed.
  bool min_budget = false;
  // By unit: the share of its pass's computation that lies before its first use in a forward pass, and before its
  // gradient is complete in a backward pass. Empty: not known.
  std::vector<double> used_at, gradient_at;
};

struct StepModel {
  std::vector<Unit> units;
  int world = 1;
  Placement placement;  // of the stage; its tiers do not matter here
  OptimizerSpec optimizer;
  TierRates rates;
  StepProfile profile;
};

// Seconds that each resource is busy in each phase.
using BusySeconds = std::array<std::array<double, kNumResources>, kNumStepPhases>;

// What one resource does that overlaps with no more than the rest of the phase's computation. Of the phase kUpdate:
// what it does in an update that goes on into the forward pass, and there, beside that pass's computation.
struct EndTransfers {
  StepPhase phase = StepPhase::kForward;
  Resource resource = Resource::kDisk;
  double apart = 0;    // the share of the phase's computation that is before or after all of it
  double seconds = 0;  // that it takes
};

struct PredictedStep {
  BusySeconds busy{};
  std::vector<EndTransfers> ends;
  // Of the busiest resource, or of an end. The update's: those beyond the forward pass, if it goes on beside that.
  double seconds(StepPhase phase) const;
  // The resource with the larger share of this: of a phase that ends with a transfer the transfer's own seconds, or the
  // computation before or after it.
  Resource bound(StepPhase phase) const;
  double total() const;
  // The resource with the largest share of the total, of the same shares: where all phases are bound by a disk, so is
  // the step. Phases that the disk bounds in different ways (reading, writing, both) are bound by one disk.
  Resource bound() const;
};

struct Schedule;
// How often the schedule gathers each unit from its shards, by pass, and whether anything comes ahead.
void count_gathers(const Schedule& schedule, std::size_t num_units, StepProfile& profile);

// `tiers`: by unit, as in Placement::tiers.
PredictedStep predict(const StepModel& model, const std::vector<UnitTiers>& tiers);

}  // namespace zero
