// TrainingPlan: a training before it begins, from shapes and options, and what each of its stages costs a rank.
//
//   TrainingPlan plan = plan_of("gpt2", module, world, attach_options);      // app/train/weights/module_plan.h
//   cost_of(plan, 2).state.total()                                           // bytes of a rank at stage 2
//   plan_table(plan, {0, 1, 2, 3})                                           // plan_table.h
//
// Sent bytes assume that forward and backward access each unit once, and at stage 3 the min budget. `zero plan
// --schedule` shows what a given budget sends. Local; computed from shapes. The prediction is set by its caller, if at
// all. Throws ConfigError for an impossible plan.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "zero/engine/options/options.h"
#include "zero/engine/place/stage_cost.h"
#include "zero/plan/model/step_model.h"
#include "zero/plan/units/estimate.h"
#include "zero/plan/units/mesh.h"
#include "zero/plan/units/param_spec.h"
#include "zero/plan/units/placement.h"
#include "zero/plan/units/unit.h"

#include "app/report/plan/computation.h"
#include "app/report/plan/memory_fit.h"

namespace zero {

struct TrainingPlan {
  std::string model;
  std::vector<ParamSpec> specs;
  std::vector<Unit> units;
  int world = 1;                 // ranks that hold the states
  bool linked = false;           // true: units cross from GPU to GPU (comm.transport nccl)
  int workers = 0;               // further ranks, if those above are servers
  AttachOptions options;         // stage, reduction, optimizer: as given to the engine
  std::vector<UnitTiers> tiers;  // of the planned stage, by unit; empty: everything is on the device
  // Most bytes beside states: of gathered units and reductions on the device, of transfers to and from a disk on the
  // host. Absent unless requested.
  std::optional<PerTier<std::int64_t>> beside;
  // Text of the ConfigError with which an engine would refuse the plan on its machine; empty: it would not.
  std::string refused;
  // Space in a rank's files for all states that may move there while the model trains. 0: states do not move.
  std::int64_t movable_disk_bytes = 0;
  // The machine for which to check that the plan fits (memory_fit.h). Absent unless requested.
  std::optional<PlannedMachine> machine;
  // The prediction of a step with this placement. Absent unless requested.
  std::optional<PredictedStep> predicted;
  std::string why_not_predicted;  // for people; empty: predicted, or not requested
  Computation computation;        // computation that the prediction uses
  std::string without_disk;       // why the prediction ignores the disk that holds states; empty: it does not
};

// Returns the placement of the planned stage.
Placement placement_of(const TrainingPlan& plan);
// Returns the placement as a run holds it: a rank that is the only one on a GPU holds units whole (Placer).
Placement as_held(const TrainingPlan& plan, Placement placement, int world);
// Returns the placement of another stage, with everything on the device.
Placement placement_at(const TrainingPlan& plan, int stage);

// Returns the mesh of the planned ranks.
Mesh mesh_of(const TrainingPlan& plan);

// Returns the specification of the planned optimizer.
OptimizerSpec optimizer_spec(const TrainingPlan& plan);

std::int64_t num_parameters(const std::vector<ParamSpec>& specs);

// Counts without padding.
std::int64_t num_parameters(const Unit& unit);

// The cost of secondary groups for a rank at stage 3, in the min budget. It has the parts that the rank keeps. It also
// has the bytes of a step's gathers of parts within the group, and all bytes that leave the group.
struct SecondaryCost {
  std::int64_t kept = 0;
  std::int64_t sent_within = 0;
  double sent_within_formula = 0;
  std::int64_t sent_between = 0;
};
// Returns nothing if the plan has no secondary groups.
std::optional<SecondaryCost> secondary_cost(const TrainingPlan& plan);

// Passes over states in an update, if a rule makes several. A rule that needs sums over a whole parameter reads all of
// it once for these sums, and again to update it.
struct UpdatePasses {
  int num_passes = 1;
  bool factors_first = false;  // before the passes, it reads gradients of matrices for their rows and columns
  // Bytes of a rank's master copies and moments that each pass reads from lower tiers. fp32 parameters are their own
  // master copies. Gradients, 16-bit parameters, frozen units and the states of outer steps are not included.
  PerLowerTier<std::int64_t> bytes;
};
// Returns nothing if the rule makes one pass.
std::optional<UpdatePasses> update_passes(const TrainingPlan& plan);

StageCost cost_of(const TrainingPlan& plan, int stage);

}  // namespace zero
