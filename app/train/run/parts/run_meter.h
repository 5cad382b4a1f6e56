// RunMeter: a rank's measurements of its run: it completes each step's metrics and fills in the report.
//
//   RunMeter meter(task.activations(), threads);
//   meter.begin(engine.report(), /*steps_to_come=*/100);
//   meter.complete(metrics, engine.report());            // after each step: memory, traffic
//   meter.count(step, say);                              // then: one more step is done
//   meter.fill(report, comm);                            // at the end; Collective
//
// After kProfileStep steps it predicts the time of a step, prints the prediction, and compares it with later steps.
// Local, except fill().
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
#include "app/train/folder/run_checkpoints.h"
#include "app/train/machine/activation_offload_meter.h"

namespace zero {

class RunMeter {
 public:
  using Say = std::function<void(const std::string&)>;
  // `activations`: null if none are offloaded; otherwise it must outlive the object. `place`: the device of the
  // operators. A GPU's products are probed in `dtype`, a CPU's in fp32.
  RunMeter(const ActivationStore* activations, int threads, c10::Device place = c10::Device(c10::DeviceType::CPU),
           DType dtype = DType::kFloat32)
      : activation_offload_(activations),
        place_(place),
        probed_(place.is_cuda() ? to_scalar_type(dtype) : c10::ScalarType::Float),
        threads_(threads) {}

  // Call it before the first step of this process. `predicts`: true if the engine's ranks do the computation that takes
  // a step's time. Servers do not.
  void begin(const EngineReport& engine, std::int64_t steps_to_come, bool predicts = true);
  // Call it after a step with the engine's report. Adds the engine's memory and traffic to the step's metrics.
  void complete(StepMetrics& metrics, const EngineReport& engine);
  // Returns the bytes that copies that train apart have sent since the last step was completed, for the last step's
  // line. They come from the outer step at the run's end, or from sums that had to be complete before a save.
  SentBytes merged(const OuterReport& outer);
  // A checkpoint of `step` was loaded: earlier processes have sent these bytes in the steps until then.
  void start_at(std::int64_t step, const SentInSteps& so_far) { sent_.assign(1, {step, so_far}); }
  // The run is at `step` again: bytes sent by later steps no longer count. `saved`: the bytes in the last loaded or
  // saved checkpoint, which count if that was before the first step of this process.
  void take_back(std::int64_t step, const SentInSteps& saved);
  // Returns the bytes that this rank has sent in all steps of the run so far.
  SentInSteps sent() const { return sent_.empty() ? SentInSteps{} : sent_.back().sent; }
  // Counts the last completed step as `step` of the run. Prints the expected time of steps, and once a note if steps
  // take far longer.
  void count(std::int64_t step, const Say& say);
  // Returns the steps of this process, including steps that were taken back.
  std::int64_t num_steps() const { return num_steps_; }

  // Collective. Fills in all ranks' figures, the engine's figures, and the prediction.
  void fill(RunReport& report, Communicator& comm) const;

 private:
  RankReport rank_report() const;
  SentBytes sent_by_outer_steps(const OuterReport& outer);

  // Bytes that this rank has sent in the steps of the run up to this one.
  struct SentUntil {
    std::int64_t step = 0;
    SentInSteps sent;
  };
  ActivationOffloadMeter activation_offload_;
  c10::Device place_;
  c10::ScalarType probed_;
  int threads_;
  std::int64_t steps_to_come_ = 0;
  std::int64_t num_steps_ = 0;
  double last_seconds_ = 0;  // seconds of the last step
  std::vector<SentUntil> sent_;
  SentBytes by_outer_steps_;  // bytes that are already in lines
  RankReport process_;        // only the members about the process: memory, start
  MeasuredSteps steps_;
  EngineReport engine_;  // report after the last step
  bool predicts_ = true;
  PredictedStep predicted_;  // prediction made after kProfileStep steps
  std::int64_t replans_then_ = 0;
  SlowSteps slow_;
};

}  // namespace zero
