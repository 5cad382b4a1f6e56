// RunMeter: what a rank measures of its run: it completes the metrics of each step, says what was learned from them, and
// has the figures that the report is made of.
//
//   RunMeter meter(task.activations(), threads);
//   meter.begin(engine.report(), /*steps_to_come=*/100);
//   meter.complete(metrics, engine.report());            // after each step: memory, traffic
//   meter.count(step, say);                              // then: it is one step more
//   meter.fill(report, comm);                            // at the end; Collective
//
// A prediction is made after kProfileStep steps, and compared with the steps that come later. Local, but for fill().
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "zero/comm/communicator.h"
#include "zero/torch/seam/tensor_type.h"

#include "app/report/files/metrics_log.h"
#include "app/report/measured_steps.h"
#include "app/report/report.h"
#include "app/report/slow_steps.h"
#include "app/train/machine/activation_offload_meter.h"

namespace zero {

class RunMeter {
 public:
  using Say = std::function<void(const std::string&)>;
  // `activations` null: none are offloaded; else it outlives this.
  // `place`: where operators compute; a GPU's products are probed in `dtype`, a CPU's in fp32.
  RunMeter(const ActivationStore* activations, int threads, c10::Device place = c10::Device(c10::DeviceType::CPU),
           DType dtype = DType::kFloat32)
      : activation_offload_(activations),
        place_(place),
        probed_(place.is_cuda() ? to_scalar_type(dtype) : c10::ScalarType::Float),
        threads_(threads) {}

  // Before the first step of this process.
  // `predicts`: the engine's ranks compute what a step takes time for. Servers do not.
  void begin(const EngineReport& engine, std::int64_t steps_to_come, bool predicts = true);
  // After a step, with what the engine says then: what it held and moved becomes part of the step's metrics.
  void complete(StepMetrics& metrics, const EngineReport& engine);
  // Copies that train apart have sent bytes since the last step was completed: for the outer step at the run's end, or for sums
  // that had to arrive before a save. Returns these bytes, for the last step's line.
  SentBytes merged(const OuterReport& outer);
  // The run is at that step again: what later ones sent counts no more.
  void take_back(std::int64_t step);
  // The step that was completed last is `step` of the run. Says what steps are expected to take from here on, and once
  // where they take far longer.
  void count(std::int64_t step, const Say& say);
  // Steps of this process, those that were taken back too.
  std::int64_t num_steps() const { return num_steps_; }

  // Collective. All ranks' figures, the engine's, and what was predicted.
  void fill(RunReport& report, Communicator& comm) const;

 private:
  RankReport rank_report() const;
  SentBytes sent_by_outer_steps(const OuterReport& outer);

  // Bytes that this process has sent in its steps up to this one.
  struct SentUntil {
    std::int64_t step = 0;
    std::int64_t total = 0, between_copies = 0;
  };
  ActivationOffloadMeter activation_offload_;
  c10::Device place_;
  c10::ScalarType probed_;
  int threads_;
  std::int64_t steps_to_come_ = 0;
  std::int64_t num_steps_ = 0;
  double last_seconds_ = 0;  // of the last step
  std::vector<SentUntil> sent_;
  SentBytes by_outer_steps_;  // that lines have
  RankReport process_;        // of it what is the process's own: memory, start
  MeasuredSteps steps_;
  EngineReport engine_;  // after the last step
  bool predicts_ = true;
  PredictedStep predicted_;  // after kProfileStep steps
  std::int64_t replans_then_ = 0;
  SlowSteps slow_;
};

}  // namespace zero
