// place_as_run(): puts the states of a plan where a run would put them, by the code of a run (Placer), and says what a rank
// then holds beside them.
//
//   EngineSeams known{.rates = rates};
//   tell_device(plan, known);                                  // of a GPU that is here: its free memory counts
//   place_as_run(plan, known, trace, {.step = profile});       // plan.tiers, plan.beside, plan.predicted
//
// Local; from shapes, and from free memory where the plan is for a GPU of this machine. Bytes are a rank's.
#pragma once

#include "zero/engine/engine_seams.h"
#include "zero/plan/schedule.h"
#include "zero/plan/step_model.h"
#include "zero/plan/trace.h"
#include "zero/report/training_plan.h"

namespace zero {

// The step that a run would carry out. Where `device_memory` is "auto" it has what is free on the plan's GPU; on a machine
// that is not known nothing is refused. Throws ConfigError under "zero.device_memory", as a run does.
Schedule schedule_of(const TrainingPlan& plan, const Trace& trace);

// States may leave the device: options say so, or the plan is for a GPU whose free memory is known.
bool may_leave_device(const TrainingPlan& plan);

// Tells a Placer of the GPU for which the plan is, if its free memory is known, and whether units cross from GPU to GPU.
void tell_device(const TrainingPlan& plan, EngineSeams& known);

// The room that fractions need, of which it is known before anything is probed whether options give it. Throws ConfigError.
void require_room_for_fractions(const TrainingPlan& plan);

struct PlannedComputation {
  StepProfile step{};
  bool from_run = false;  // a run places its states without knowing what it computes; one that ran here before knows it
};

// Fills in tiers, beside, movable_disk_bytes and predicted. Throws ConfigError: what an engine refuses before it takes
// anything of device, host or disk.
void place_as_run(TrainingPlan& plan, EngineSeams known, const Trace& trace, PlannedComputation computation);

}  // namespace zero
