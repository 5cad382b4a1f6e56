// HealthPolicy: what losses and gradient norms a healthy run has, and what is done with a step that has others.
//
//   HealthPolicy health({.spike = HealthAction::kRewind});
//   health.restore(losses, norms, skipped);                       // of the steps so far
//   StepReport report = engine.step(lr, health.limits(my_loss));
//   switch (health.after(report)) ...                              // what is to be done; an update counts as seen
//
// A spike is a loss more than `spike_sigma` standard deviations above the mean of the last 128 updates, and a tenth
// above that mean; or a norm so far above the mean of the logarithms, and twice as large as that. Fewer than 32 updates
// judge nothing. Steps without an update are no part of it.
//
// Invariant: what it says depends on the steps alone, in the precision in which checkpoints keep them: a run that goes
// on decides as one that was never interrupted. Local.
#pragma once

#include <cstdint>
#include <deque>
#include <span>

#include "zero/engine/options/step_report.h"

namespace zero {

enum class HealthAction : std::uint8_t { kIgnore, kSkip, kRewind, kStop };

struct HealthOptions {
  HealthAction non_finite = HealthAction::kSkip;  // gradients, and losses where anything is judged; not kIgnore
  HealthAction spike = HealthAction::kIgnore;
  double spike_sigma = 6;
  std::int64_t rewind_batches = 0;                   // steps' worth of samples left out behind the bad one
  std::int64_t max_rewinds = 3;                      // to the same checkpoint
  std::int64_t check_replicas = 0;                   // steps between comparisons over ranks; 0: none
  HealthAction on_corruption = HealthAction::kStop;  // or kRewind

  bool judges() const { return spike != HealthAction::kIgnore || non_finite != HealthAction::kSkip; }
  bool rewinds() const {
    return spike == HealthAction::kRewind || non_finite == HealthAction::kRewind ||
           (check_replicas > 0 && on_corruption == HealthAction::kRewind);
  }
};

// Throws ConfigError: something is to be rewound, and there are no checkpoints.
void require_possible(const HealthOptions& options, bool saves_checkpoints);

class HealthPolicy {
 public:
  static constexpr std::size_t kWindow = 128;
  static constexpr std::size_t kFewest = 32;

  explicit HealthPolicy(const HealthOptions& options) : options_(options) {}

  // Of the next step; none where nothing is judged.
  StepLimits limits(double loss) const;
  // kIgnore: the run goes on. An update is taken into the window.
  HealthAction after(const StepReport& report);
  // Forgets what it has seen for these: by step, from the first; `skipped`: numbers of steps without an update, counted
  // from 1, in order.
  void restore(std::span<const float> losses, std::span<const double> norms, std::span<const std::int64_t> skipped);

 private:
  void see(double loss, double norm);

  HealthOptions options_;
  std::deque<double> losses_, log_norms_;
};

}  // namespace zero
