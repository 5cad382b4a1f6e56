// StepHistory: the metrics of each step, and the times at which ranks exchange them.
//
//   StepHistory history(log_every, steps);
//   history.add(metrics);                                  // after each step, Local
//   if (history.exchange_due()) { Exchanged news = history.exchange(comm, stop.pending()); ... }
//
// Each rank measures by itself. Losses and times of many steps are exchanged at once, so bookkeeping does not slow down
// fast steps. exchange_due() is the same on every rank. It is true at every logged step, and at least about four times
// a second, by the step times of the last exchange. So a request to stop arrives soon, and at the same step on all
// ranks.
#pragma once

#include <cstdint>
#include <vector>

#include "zero/comm/communicator.h"

#include "app/report/files/metrics_log.h"

namespace zero {

struct Exchanged {
  // The steps since the last exchange. Losses are means over ranks, seconds those of the slowest rank. If there are
  // several ranks, the newest step has `ranks`.
  std::vector<StepMetrics> steps;
  int stop_signal = 0;  // the largest number that a rank has
};

class StepHistory {
 public:
  // `log_every` 0: only the first and the last step are logged.
  // `num_averaged`: the first ranks, whose losses are averaged; 0: all. Other ranks repeat the losses of these.
  StepHistory(std::int64_t log_every, std::int64_t steps, int num_averaged = 0)
      : log_every_(log_every), steps_(steps), num_averaged_(num_averaged) {}

  void add(const StepMetrics& mine) { pending_.push_back(mine); }
  bool exchange_due() const;
  // Returns true if this step should be printed: the first, the last and every log_every-th.
  bool is_logged(std::int64_t step) const;

  // Collective.
  Exchanged exchange(Communicator& comm, int stop_signal);

  // Local. Sets the steps before those of this process.
  void restore(std::vector<float> losses, std::vector<double> grad_norms, std::vector<double> seconds) {
    losses_ = std::move(losses);
    grad_norms_ = std::move(grad_norms);
    seconds_ = std::move(seconds);
  }

  // These have all steps exchanged so far.
  const std::vector<float>& losses() const { return losses_; }
  const std::vector<double>& grad_norms() const { return grad_norms_; }
  const std::vector<double>& seconds() const { return seconds_; }

 private:
  std::int64_t log_every_;
  std::int64_t steps_;
  int num_averaged_;
  std::int64_t interval_ = 1;  // steps between exchanges, the same on every rank
  std::vector<StepMetrics> pending_;
  std::vector<float> losses_;
  std::vector<double> grad_norms_;
  std::vector<double> seconds_;
};

}  // namespace zero
