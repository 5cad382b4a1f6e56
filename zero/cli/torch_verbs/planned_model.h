// planned_model(): the model of a plan, of which shapes alone are known, and the machines that would train it.
//
//   const PlannedModel model = planned_model(request, attach);
//   fit_of(model.plan)                              // zero/report/memory_fit.h
//
// Local. Whether a plan fits is asked of this machine, and of others like it.
#pragma once

#include <memory>

#include "zero/command/torch_entry.h"
#include "zero/data/dataset.h"
#include "zero/report/training_plan.h"
#include "zero/torch/attach.h"
#include "zero/train/task.h"

namespace zero::cli {

struct PlannedModel {
  SampleShape shape;
  std::unique_ptr<Task> task;
  TrainingPlan plan;  // with what one machine has, and what a rank's activations take there
};

// Throws ConfigError where the data that would tell the shapes is not here.
PlannedModel planned_model(const PlanRequest& request, const AttachOptions& attach);

}  // namespace zero::cli
