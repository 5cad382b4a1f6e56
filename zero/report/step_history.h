// StepHistory: what each step gave, and when the ranks tell each other.
//
// A rank measures alone; losses and times are exchanged for many steps at once, so that bookkeeping never makes a fast
// step wait.
//
//   StepHistory history(log_every, steps);
//   history.add(metrics);                                  // after each step, Local
//   if (history.exchange_due()) { Exchanged news = history.exchange(comm, stop.pending()); ... }
//
// exchange_due() is the same on every rank: at every logged step, and at least some four times a second, as the step
// times of the last exchange tell, so that a request to stop is heard soon. It is heard by all ranks at the same step.
#pragma once

#include <cstdint>
#include <vector>

#include "zero/comm/communicator.h"
#include "zero/report/metrics_log.h"

namespace zero {

struct Exchanged {
  // Since the last exchange; losses are means over ranks, seconds the slowest rank's. The newest has `ranks`, should there
  // be several.
  std::vector<StepMetrics> steps;
  int stop_signal = 0;  // of any rank: the largest number
};

class StepHistory {
 public:
  // `log_every` 0: only the last step is logged.
  StepHistory(std::int64_t log_every, std::int64_t steps) : log_every_(log_every), steps_(steps) {}

  void add(const StepMetrics& mine) { pending_.push_back(mine); }
  bool exchange_due() const;
  // Is this step one to print? The first, the last and every log_every-th.
  bool is_logged(std::int64_t step) const;

  // Collective.
  Exchanged exchange(Communicator& comm, int stop_signal);

  // Local. The steps before those of this process.
  void restore(std::vector<float> losses, std::vector<double> grad_norms, std::vector<double> seconds) {
    losses_ = std::move(losses);
    grad_norms_ = std::move(grad_norms);
    seconds_ = std::move(seconds);
  }

  // Of all steps exchanged so far.
  const std::vector<float>& losses() const { return losses_; }
  const std::vector<double>& grad_norms() const { return grad_norms_; }
  const std::vector<double>& seconds() const { return seconds_; }

 private:
  std::int64_t log_every_;
  std::int64_t steps_;
  std::int64_t interval_ = 1;  // steps between exchanges, the same on every rank
  std::vector<StepMetrics> pending_;
  std::vector<float> losses_;
  std::vector<double> grad_norms_;
  std::vector<double> seconds_;
};

}  // namespace zero
