// planned_model(): the model of a plan, with only its shapes, and the machines that would train it.
//
//   const PlannedModel model = planned_model(request, attach);
//   fit_of(model.plan)                              // app/report/plan/memory_fit.h
//
// Local. Whether a plan fits is checked against this machine, and others like it.
#pragma once

#include <memory>

#include "zero/torch/attach.h"

#include "app/cli/command/torch_entry.h"
#include "app/data/sample/dataset.h"
#include "app/report/plan/training_plan.h"
#include "app/train/tasks/task.h"

namespace zero::cli {

struct PlannedModel {
  SampleShape shape;
  std::unique_ptr<Task> task;
  TrainingPlan plan;  // with the memory of one machine, and of a rank's activations
};

// Throws ConfigError if the shapes depend on data that is not on this machine.
PlannedModel planned_model(const PlanRequest& request, const AttachOptions& attach);

}  // namespace zero::cli
