// place_as_run(): places the states of a plan as a run would, with the run's code (Placer).
//
//   EngineHost known{.rates = rates};
//   describe_device(plan, known);                              // for a GPU that is here: its free memory counts
//   place_as_run(plan, known, trace, {.step = profile});       // plan.tiers, plan.beside, plan.predicted
//
// It also computes the bytes that a rank holds beside its states. Local; from shapes, and from free memory if the plan
// is for a GPU of this machine. Bytes are those of a rank.
#pragma once

#include "zero/engine/options/engine_host.h"
#include "zero/plan/model/step_model.h"
#include "zero/plan/schedule/schedule.h"
#include "zero/plan/schedule/trace.h"

#include "app/report/plan/training_plan.h"

namespace zero {

// Returns the step that a run would carry out. If `device_memory` is "auto", the budget is the free memory of the
// plan's GPU. On an unknown machine nothing is refused. Throws ConfigError under "zero.device_memory", as a run does.
Schedule schedule_of(const TrainingPlan& plan, const Trace& trace);

// Returns true if states may leave the device: options ask for it, or the plan is for a GPU whose free memory is known.
bool may_leave_device(const TrainingPlan& plan);

// Describes the plan's GPU to a Placer, if its free memory is known, and whether units cross from GPU to GPU.
void describe_device(const TrainingPlan& plan, EngineHost& known);

// Requires room for the plan's fractions. Whether options give it is known before any probe. Throws ConfigError.
void require_room_for_fractions(const TrainingPlan& plan);

struct PlannedComputation {
  StepProfile step{};
  // True: known from a run that was here before. Otherwise a run places its states without knowing its computation.
  bool from_run = false;
};

// Sets tiers, beside, movable_disk_bytes and predicted. Throws ConfigError for whatever an engine refuses before it
// allocates anything on device, host or disk.
void place_as_run(TrainingPlan& plan, EngineHost known, const Trace& trace, PlannedComputation computation);

}  // namespace zero
