// TrainingPlan: a training before it begins, as shapes and options tell it, and what each stage of it costs a rank.
//
//   TrainingPlan plan = plan_of("gpt2", module, world, attach_options);      // zero/train/module_plan.h
//   cost_of(plan, 2).state.total()                                           // bytes that a rank would hold at stage 2
//   plan_table(plan, {0, 1, 2, 3})                                           // plan_table.h; plan_json.h
//
// Sent is for a model whose forward and backward access each unit once, and at stage 3 under the min budget; `zero
// plan --schedule` tells what a given budget sends. Local; computed from shapes, and the prediction by who asks for
// one. Throws ConfigError for what cannot be.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "zero/engine/options.h"
#include "zero/plan/estimate.h"
#include "zero/plan/mesh.h"
#include "zero/plan/param_spec.h"
#include "zero/plan/placement.h"
#include "zero/plan/step_model.h"
#include "zero/plan/unit.h"
#include "zero/report/computation.h"
#include "zero/report/memory_fit.h"

namespace zero {

struct TrainingPlan {
  std::string model;
  std::vector<ParamSpec> specs;
  std::vector<Unit> units;
  int world = 1;                 // ranks that hold the states
  bool linked = false;           // units cross from GPU to GPU (comm.transport nccl)
  int workers = 0;               // ranks beside them, where those are servers
  EngineOptions options;         // stage, rule of reduction, optimizer: as the engine is to be told them
  std::vector<UnitTiers> tiers;  // of the planned stage, by unit; empty: nothing leaves the device
  // Bytes beside states, at most: of gathered units and reductions on the device, of transfers to and from a disk on
  // the host. Nothing where nobody asked.
  struct Beside {
    std::int64_t device = 0;
    std::int64_t host = 0;
  };
  std::optional<Beside> beside;
  // Why an engine would refuse the plan on the machine for which it is: a ConfigError's text; empty: it would not.
  std::string refused;
  // Of a rank's files, where states may move while the model trains: room for all that can lie there. 0: none move.
  std::int64_t movable_disk_bytes = 0;
  // Where it is to run, for whether it fits there (memory_fit.h); nothing where nobody asked.
  std::optional<PlannedMachine> machine;
  // What a step takes with states there; nothing where nobody asked.
  std::optional<PredictedStep> predicted;
  std::string why_not_predicted;  // for people; empty: it is predicted, or nobody asked
  Computation computation;        // that the prediction counts
  std::string without_disk;       // why the prediction does not count the disk on which states lie; empty: it does
};

// Where everything of the planned stage lies.
Placement placement_of(const TrainingPlan& plan);
// A placement of the plan as a run holds it: a rank that is alone on a GPU holds units whole (Placer).
Placement as_held(const TrainingPlan& plan, Placement placement, int world);
// The same of another stage, with everything on the device.
Placement placement_at(const TrainingPlan& plan, int stage);

// How the planned ranks hold the model.
Mesh mesh_of(const TrainingPlan& plan);

// Of the planned optimizer.
OptimizerSpec optimizer_spec(const TrainingPlan& plan);

std::int64_t num_parameters(const std::vector<ParamSpec>& specs);

// Without padding.
std::int64_t num_parameters(const Unit& unit);

// What a stage costs a rank: bytes held, and sent in a step, with the papers' formulas.
struct StageCost {
  int stage = 0;
  StateBytes state;
  double state_formula = 0;
  std::int64_t sent = 0;
  double sent_formula = 0;
  std::int64_t sent_between_copies = 0;  // of that, between copies of the model, in the mean over the copies
  double sent_between_copies_formula = 0;
  // Where copies train apart: in an outer step, and the formula of what crosses between copies.
  OuterBytes outer;
  double outer_formula = 0;
};
// What secondary groups cost a rank at stage 3, in the minimum budget: the parts that it keeps, and of what it sends in a step
// what stays within its group, in gathers of parts, and all that leaves the group.
struct SecondaryCost {
  std::int64_t kept = 0;
  std::int64_t sent_within = 0;
  double sent_within_formula = 0;
  std::int64_t sent_between = 0;
};
// Nothing where the plan has no such groups.
std::optional<SecondaryCost> secondary_cost(const TrainingPlan& plan);

// Passes over states in an update, where a rule makes several: one that needs sums over a whole parameter reads all of it once
// for these, and again to update it.
struct UpdatePasses {
  int num_passes = 1;
  bool factors_first = false;  // before these it reads gradients of matrices for their rows and columns
  // Of a rank's master copies and moments: what each of the passes reads from there.
  std::int64_t host_bytes = 0, disk_bytes = 0;
};
// Nothing where the rule makes one.
std::optional<UpdatePasses> update_passes(const TrainingPlan& plan);

StageCost cost_of(const TrainingPlan& plan, int stage);
std::vector<StageCost> costs_of(const TrainingPlan& plan, std::span<const int> stages);

}  // namespace zero
