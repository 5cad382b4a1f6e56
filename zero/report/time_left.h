// TimeLeft: the seconds that a run still takes, from the steps and evaluations of this process.
//
//   TimeLeft left(2000, {.every = 250});
//   left.step(0.038);                      // after each step
//   left.evaluation(1.2);                  // after each evaluation
//   left.seconds(500);                     // after step 500: 1500 steps, and evaluations at 750, 1000, ... 1750
//
// A step counts as long as the median of the last 64; an evaluation as long as the last one. Before the first
// evaluation none is counted. The last one, over the whole split, counts where the others are over it, too. Checkpoints
// are not counted. Local.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace zero {

struct EvaluationPace {
  std::int64_t every = 0;   // steps between two; 0: one at the end alone
  bool last_alike = false;  // the last one takes as long as the others
};

class TimeLeft {
 public:
  explicit TimeLeft(std::int64_t steps, EvaluationPace pace = {}) : steps_(steps), pace_(pace) {}

  void step(double seconds);
  void evaluation(double seconds) { evaluation_seconds_ = seconds; }
  // Seconds that are left after step `step` of the run; 0 before any call of step().
  double seconds(std::int64_t step) const;

 private:
  std::int64_t steps_;
  EvaluationPace pace_;
  std::vector<double> recent_;  // in any order
  std::size_t next_ = 0;        // the oldest of them, once they are all there
  double evaluation_seconds_ = 0;
};

}  // namespace zero
