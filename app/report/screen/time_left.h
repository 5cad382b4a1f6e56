// TimeLeft: the remaining seconds of a run, from the steps and evaluations of this process.
//
//   TimeLeft left(2000, {.every = 250});
//   left.step(0.038);                      // after each step
//   left.evaluation(1.2);                  // after each evaluation
//   left.seconds(500);                     // after step 500: 1500 steps, and evaluations at 750, 1000, ... 1750
//
// A step takes the median of the last 64 steps, and an evaluation takes as long as the last one. Before the first
// evaluation, none is counted. The final evaluation uses the whole split; it is counted only if the others do so also.
// If evaluations are compared, the last step has one more, like the others. Checkpoints are not counted. Local.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace zero {

struct EvaluationPace {
  std::int64_t every = 0;   // steps between two evaluations; 0: only one, at the end
  bool last_alike = false;  // true: the final evaluation takes as long as the others
  bool compares = false;    // evaluations are compared (train.patience, checkpoint.keep_best)
};

class TimeLeft {
 public:
  explicit TimeLeft(std::int64_t steps, EvaluationPace pace = {}) : steps_(steps), pace_(pace) {}

  void step(double seconds);
  // `further`: the averages of the weights, evaluated just after the weights.
  void evaluation(double seconds, bool further = false) {
    evaluation_seconds_ = further ? evaluation_seconds_ + seconds : seconds;
  }
  // Returns the seconds that remain after step `step` of the run; 0 before any call of step().
  double seconds(std::int64_t step) const;

 private:
  std::int64_t steps_;
  EvaluationPace pace_;
  std::vector<double> recent_;  // in any order
  std::size_t next_ = 0;        // index of the oldest, after all are there
  double evaluation_seconds_ = 0;
};

}  // namespace zero
