// SlowSteps: notes once that steps take far longer than predicted, and possible reasons.
//
//   SlowSteps slow;
//   slow.expect(0.036);                            // seconds: the prediction, if there is one
//   if (slow.count(seconds)) say(slow.note(step, machine_load(), threads));      // after each step; true only once
//
// Far longer means: eight steps in a row that each take more than three times the prediction. Local.
#pragma once

#include <cstdint>
#include <string>

namespace zero {

// The machine's load: processes that wanted to run in the last minute, and cores for them. 0: unknown.
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
  // Counts a step. Returns true if the note is due after it.
  bool count(double seconds);
  // Returns the note about the last counted steps.
  std::string note(std::int64_t step, const MachineLoad& load, int threads) const;

 private:
  double expected_ = 0;  // 0: no prediction
  int in_a_row_ = 0;
  double sum_ = 0;  // of the seconds of these steps
  bool said_ = false;
};

}  // namespace zero
