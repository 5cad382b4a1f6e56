// plan_dict(): bytes, traffic and schedule of a model's training, as a dict for zerocpp.Plan. Computed from shapes.
//
//   plan_dict({.specs = specs, .units = units, .options = options, .world = 64, .schedule = schedule})
//   // {"world": 64, "units": [...], "stages": [...], "bytes": {...}, "schedule": {...}}
//
// Local; call it with the GIL. Bytes are those of a rank.
#pragma once

#include <vector>

#include <pybind11/pybind11.h>

#include "zero/engine/options/options.h"
#include "zero/plan/schedule/schedule.h"

namespace zero::python {

struct ModelPlan {
  std::vector<ParamSpec> specs;
  std::vector<Unit> units;
  AttachOptions options;
  int world = 1;
  Schedule schedule;  // its placement has the tiers of all states
};

pybind11::dict plan_dict(const ModelPlan& plan);

// Adds plan() to the module. It makes a ModelPlan without a world and without memory, as attach() would place it.
// Throws ConfigError for options that attach() would refuse.
void bind_plan(pybind11::module_& module);

}  // namespace zero::python
