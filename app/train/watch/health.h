// HealthPolicy: the range of healthy losses and gradient norms, and the action for a step outside it.
//
//   HealthPolicy health({.spike = HealthAction::kRewind});
//   health.restore(losses, norms, skipped);                       // of the steps so far
//   StepReport report = engine.step(lr, health.limits(my_loss));
//   switch (health.after(report)) ...                              // the action; an update is added to the recent ones
//
// Mean and standard deviation are those of the last 128 updates. With fewer than 32 updates nothing is judged.
//   - A loss is a spike above mean + max(spike_sigma * deviation, |mean| / 10).
//   - A norm is a spike if log(norm) is above mean + max(spike_sigma * deviation, log 2), of the logarithms of norms.
// Steps that the rules refuse are not counted; an overflow counts with its loss.
//
// Invariant: decisions depend only on the steps, in the precision in which checkpoints keep them. So a resumed run
// decides like a run that was never interrupted. Local.
#pragma once

#include <array>
#include <cstdint>
#include <deque>
#include <span>

#include "zero/base/numbers/choice.h"
#include "zero/engine/options/step_report.h"

namespace zero {

enum class HealthAction : std::uint8_t { kIgnore, kSkip, kRewind, kStop };

struct HealthOptions {
  HealthAction non_finite = HealthAction::kSkip;  // for gradients, and for losses if judges(); not kIgnore
  HealthAction spike = HealthAction::kIgnore;
  double spike_sigma = 6;
  std::int64_t rewind_batches = 0;                   // steps whose samples are left out after the bad step
  std::int64_t max_rewinds = 3;                      // most rewinds to the same checkpoint
  std::int64_t check_replicas = 0;                   // steps between comparisons over ranks; 0: none
  HealthAction on_corruption = HealthAction::kStop;  // or kRewind

  bool judges() const { return spike != HealthAction::kIgnore || non_finite != HealthAction::kSkip; }
  bool rewinds() const {
    return spike == HealthAction::kRewind || non_finite == HealthAction::kRewind ||
           (check_replicas > 0 && on_corruption == HealthAction::kRewind);
  }
};

// Words of health.non_finite, health.spike and health.on_corruption.
inline constexpr std::array<Choice<HealthAction>, 3> kNonFinites{
    {{"skip", HealthAction::kSkip}, {"rewind", HealthAction::kRewind}, {"stop", HealthAction::kStop}}};
inline constexpr std::array<Choice<HealthAction>, 4> kSpikes{{{"ignore", HealthAction::kIgnore},
                                                              {"skip", HealthAction::kSkip},
                                                              {"rewind", HealthAction::kRewind},
                                                              {"stop", HealthAction::kStop}}};
inline constexpr std::array<Choice<HealthAction>, 2> kCorruptions{
    {{"stop", HealthAction::kStop}, {"rewind", HealthAction::kRewind}}};

// Throws ConfigError if an action is to rewind, and there are no checkpoints.
void require_possible(const HealthOptions& options, bool saves_checkpoints);

class HealthPolicy {
 public:
  static constexpr std::size_t kRecent = 128;
  static constexpr std::size_t kFewest = 32;

  explicit HealthPolicy(const HealthOptions& options) : options_(options) {}

  // Returns the limits of the next step; empty limits if nothing is judged.
  StepLimits limits(double loss) const;
  // Returns the action for a step; kIgnore: the run continues. Adds an update to the recent ones.
  HealthAction after(const StepReport& report);
  // Replaces the recent updates by these steps. `losses` and `norms`: by step, from the first. `skipped`: numbers of
  // refused steps, counted from 1, in order.
  void restore(std::span<const float> losses, std::span<const double> norms, std::span<const std::int64_t> skipped);

 private:
  void see(double loss, double norm);

  HealthOptions options_;
  std::deque<double> losses_, log_norms_;
};

}  // namespace zero
