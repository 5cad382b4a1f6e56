// ScriptedRun: the results of a scripted model that trained on ranks that are threads.
//
//   const ScriptedRun resident = scripted_run(4, specs, {.stage = 3}, {.steps = 3});
//   EXPECT_EQ(resident, scripted_run(4, specs, {.stage = 3, .offload = everything_on_disk}, {.steps = 3}));
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "tests/engine/scripted_model.h"
#include "tests/engine/thread_ranks.h"

namespace zero {

struct ScriptedRun {
  std::vector<std::uint32_t> weights;
  std::vector<double> norms;
  std::vector<double> checksums;      // of the values that each rank's model read
  std::vector<EngineReport> reports;  // of each rank, at the end
  bool operator==(const ScriptedRun& other) const {
    return weights == other.weights && norms == other.norms && checksums == other.checksums;
  }
};

struct ScriptedSteps {
  int steps = 3;
  std::function<void(ScriptedModel&, int step)> before = [](ScriptedModel&, int) {};
  EngineHost host{};
  std::function<Device*(int rank)> device = [](int) -> Device* { return nullptr; };
};

inline ScriptedRun scripted_run(int world, const std::vector<ParamSpec>& specs, const AttachOptions& options,
                                const ScriptedSteps& steps) {
  ScriptedRun run;
  run.checksums.resize(static_cast<std::size_t>(world));
  run.reports.resize(static_cast<std::size_t>(world));
  on_ranks(world, [&](Communicator& comm) {
    const auto rank = static_cast<std::size_t>(comm.rank());
    EngineHost host = steps.host;
    host.device = steps.device(comm.rank());
    ScriptedModel model(comm, specs, options, host);
    for (int step = 0; step < steps.steps; ++step) {
      steps.before(model, step);
      const StepReport report = model.train(step, options.accumulate);
      if (rank == 0) run.norms.push_back(report.grad_norm);
    }
    run.reports[rank] = model.engine().report();  // before the weights are read, which takes memory
    const auto bits = model.weight_bits();
    if (rank == 0) run.weights = bits;
    run.checksums[rank] = model.checksum();
  });
  return run;
}

// The same options at each stage, and at stage 3 also with the smallest budget.
inline std::vector<AttachOptions> at_all_stages(AttachOptions options) {
  std::vector<AttachOptions> all;
  for (options.stage = 0; options.stage < 4; ++options.stage) all.push_back(options);
  options.stage = 3;
  options.device_memory = MemoryBudget::parse("min");
  all.push_back(options);
  return all;
}

}  // namespace zero
