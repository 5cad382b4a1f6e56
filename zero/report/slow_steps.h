// SlowSteps: says once that steps take far longer than was predicted, and why that may be.
//
//   SlowSteps slow;
//   slow.expect(0.036);                            // seconds: the prediction, when there is one
//   if (slow.count(seconds)) say(slow.note(step, machine_load(), threads));      // after each step; true but once
//
// Far above: eight steps in a row of more than three times the prediction each. Local.
#pragma once

#include <cstdint>
#include <string>

namespace zero {

// What else the machine does: how many processes wanted to run in the last minute, and cores for them. 0: not known.
struct MachineLoad {
  double running = 0;
  int cores = 0;
};
MachineLoad machine_load();

class SlowSteps {
 public:
  static constexpr int kInARow = 8;
  static constexpr double kFarAbove = 3;

  void expect(double seconds) { expected_ = seconds; }
  // Is this step the one after which it is to be said?
  bool count(double seconds);
  // Of the steps that were counted last.
  std::string note(std::int64_t step, const MachineLoad& load, int threads) const;

 private:
  double expected_ = 0;  // 0: nothing is
  int in_a_row_ = 0;
  double sum_ = 0;  // of their seconds
  bool said_ = false;
};

}  // namespace zero
