// HealthPolicy: which steps are spikes, and the response to them.
#include "app/train/watch/health.h"

#include <cmath>
#include <limits>
#include <random>

#include <gtest/gtest.h>

#include "zero/base/error/error.h"

#include "tests/support/message_of.h"

namespace zero {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();

StepReport update(double loss, double norm) {
  StepReport report;
  report.loss = loss;
  report.grad_norm = norm;
  return report;
}

StepReport refused(SkipReason reason, double loss, double norm) {
  StepReport report = update(loss, norm);
  report.skipped = true;
  report.reason = reason;
  return report;
}

// Judges a step as an engine does.
SkipReason judged(const StepLimits& limits, double norm) {
  if (*limits.loss > limits.max_loss) return SkipReason::kLossSpike;
  return norm > limits.max_grad_norm ? SkipReason::kNormSpike : SkipReason::kNone;
}

struct Curve {
  double first = 4, last = 2, noise = 0.05, log_noise = 0.3;
};

// Losses fall like a model's, and norms scatter by a factor.
struct Samples {
  explicit Samples(const Curve& curve, std::uint64_t seed) : curve(curve), random(seed) {}
  std::pair<double, double> next(int step) {
    const double trend = curve.last + (curve.first - curve.last) * std::exp(-step / 700.0);
    return {trend * (1 + curve.noise * normal(random)), 0.8 * std::exp(curve.log_noise * normal(random))};
  }
  Curve curve;
  std::mt19937_64 random;
  std::normal_distribution<double> normal;
};

HealthPolicy watching(HealthAction spike = HealthAction::kSkip) {
  return HealthPolicy({.spike = spike});
}

// Ten thousand healthy steps raise no alarm.
TEST(HealthPolicy, HealthyStepsRaiseNoAlarm) {
  for (const Curve& curve :
       {Curve{}, Curve{.noise = 0.2}, Curve{.noise = 0.001, .log_noise = 0.01}, Curve{.noise = 0.1, .log_noise = 1.0},
        Curve{.first = 11, .last = 0.01, .noise = 0.1}, Curve{.noise = 0, .log_noise = 0}}) {
    for (std::uint64_t seed = 1; seed <= 3; ++seed) {
      HealthPolicy health = watching();
      Samples samples(curve, seed);
      int alarms = 0;
      for (int step = 0; step < 10000; ++step) {
        const auto [loss, norm] = samples.next(step);
        const SkipReason reason = judged(health.limits(loss), norm);
        alarms += reason != SkipReason::kNone ? 1 : 0;
        health.after(reason == SkipReason::kNone ? update(loss, norm) : refused(reason, loss, norm));
      }
      EXPECT_EQ(alarms, 0) << "noise " << curve.noise << ", " << curve.log_noise << ", seed " << seed;
    }
  }
}

// The loss of an overflowing step counts like any other.
TEST(HealthPolicy, OverflowIsNoAlarm) {
  HealthPolicy health = watching(), restored = watching();
  std::vector<float> losses;
  std::vector<double> norms;
  for (int step = 0; step < 40; ++step) {
    const bool overflows = step % 5 == 0;
    losses.push_back(3.0F + 0.01F * static_cast<float>(step));
    norms.push_back(overflows ? kInfinity : 1.0 + 0.01 * step);
    const StepReport report =
        overflows ? refused(SkipReason::kOverflow, losses.back(), norms.back()) : update(losses.back(), norms.back());
    EXPECT_EQ(health.after(report), HealthAction::kIgnore);
  }
  restored.restore(losses, norms, {});
  EXPECT_EQ(restored.limits(1).max_loss, health.limits(1).max_loss);
  EXPECT_EQ(restored.limits(1).max_grad_norm, health.limits(1).max_grad_norm);
}

// Losses or norms that are ten thousand times too large are spikes.
TEST(HealthPolicy, HugeBatchIsASpike) {
  for (std::uint64_t seed = 1; seed <= 20; ++seed) {
    HealthPolicy health = watching();
    Samples samples({}, seed);
    for (int step = 0; step < 500; ++step) {
      const auto [loss, norm] = samples.next(step);
      health.after(update(loss, norm));
    }
    const auto [loss, norm] = samples.next(500);
    EXPECT_EQ(judged(health.limits(1e4 * loss), norm), SkipReason::kLossSpike);
    EXPECT_EQ(judged(health.limits(loss), 1e4 * norm), SkipReason::kNormSpike);
    EXPECT_EQ(judged(health.limits(loss), norm), SkipReason::kNone);
  }
}

TEST(HealthPolicy, FewStepsJudgeNothing) {
  HealthPolicy health = watching();
  for (std::size_t step = 0; step + 1 < HealthPolicy::kFewest; ++step) health.after(update(2, 1));
  EXPECT_EQ(health.limits(1e9).max_loss, kInfinity);
  EXPECT_EQ(health.limits(1e9).max_grad_norm, kInfinity);
  health.after(update(2, 1));
  EXPECT_LT(health.limits(1e9).max_loss, 1e9);
  EXPECT_LT(health.limits(1e9).max_grad_norm, 1e9);
}

// The limits allow a tenth more loss and twice the norm.
TEST(HealthPolicy, FlatSeriesAllowsSmallRises) {
  HealthPolicy health = watching();
  for (int step = 0; step < 200; ++step) health.after(update(2, 0.5));
  EXPECT_NEAR(health.limits(2).max_loss, 2.2, 1e-9);
  EXPECT_NEAR(health.limits(2).max_grad_norm, 1.0, 1e-9);
  HealthPolicy zeros = watching();
  for (int step = 0; step < 200; ++step) zeros.after(update(0, 0));
  EXPECT_EQ(zeros.limits(0).max_loss, kInfinity) << "values that are always 0 give no measure";
  EXPECT_EQ(zeros.limits(0).max_grad_norm, kInfinity);
}

TEST(HealthPolicy, SigmaMeasuresSpikeDistance) {
  const auto limit = [](double sigma) {
    HealthPolicy health({.spike = HealthAction::kSkip, .spike_sigma = sigma});
    for (int step = 0; step < 128; ++step) health.after(update(step % 2 == 0 ? 1 : 3, 1));  // mean 2, deviation 1
    return health.limits(1).max_loss;
  };
  EXPECT_NEAR(limit(3), 5, 1e-12);
  EXPECT_NEAR(limit(6), 8, 1e-12);
}

TEST(HealthPolicy, LooksAt128Updates) {
  HealthPolicy health = watching(), fresh = watching();
  for (int step = 0; step < 50; ++step) health.after(update(100, 100));
  for (int step = 0; step < 128; ++step) {
    health.after(update(2 + 0.01 * (step % 7), 1));
    fresh.after(update(2 + 0.01 * (step % 7), 1));
  }
  EXPECT_EQ(health.limits(1).max_loss, fresh.limits(1).max_loss);
  EXPECT_EQ(health.limits(1).max_grad_norm, fresh.limits(1).max_grad_norm);
}

TEST(HealthPolicy, WhatWasRefusedMovesNoLimit) {
  HealthPolicy health = watching();
  for (int step = 0; step < 60; ++step) health.after(update(2 + 0.01 * (step % 7), 1));
  const StepLimits before = health.limits(1);
  health.after(refused(SkipReason::kLossSpike, 1e9, 1));
  health.after(refused(SkipReason::kNonFinite, std::nan(""), kInfinity));
  EXPECT_EQ(health.limits(1).max_loss, before.max_loss);
  EXPECT_EQ(health.limits(1).max_grad_norm, before.max_grad_norm);
}

TEST(HealthPolicy, RestoredStepsGiveSameLimits) {
  for (const int steps : {5, 40, 128, 500}) {
    HealthPolicy health = watching(), restored = watching();
    Samples samples({}, 7);
    std::vector<float> losses;
    std::vector<double> norms;
    std::vector<std::int64_t> skipped;
    for (int step = 1; step <= steps; ++step) {
      auto [loss, norm] = samples.next(step);
      if (step % 13 == 0) {
        loss *= 1e6;
        skipped.push_back(step);
        health.after(refused(SkipReason::kLossSpike, loss, norm));
      } else {
        health.after(update(loss, norm));
      }
      losses.push_back(static_cast<float>(loss));
      norms.push_back(norm);
    }
    restored.after(update(77, 77));  // a step that is taken back
    restored.restore(losses, norms, skipped);
    EXPECT_EQ(restored.limits(1).max_loss, health.limits(1).max_loss) << steps;
    EXPECT_EQ(restored.limits(1).max_grad_norm, health.limits(1).max_grad_norm) << steps;
  }
}

TEST(HealthPolicy, EachTroubleHasItsRule) {
  HealthPolicy health({.non_finite = HealthAction::kStop, .spike = HealthAction::kRewind});
  EXPECT_EQ(health.after(update(1, 1)), HealthAction::kIgnore);
  EXPECT_EQ(health.after(refused(SkipReason::kNonFinite, 1, 1)), HealthAction::kStop);
  EXPECT_EQ(health.after(refused(SkipReason::kLossSpike, 1, 1)), HealthAction::kRewind);
  EXPECT_EQ(health.after(refused(SkipReason::kNormSpike, 1, 1)), HealthAction::kRewind);
}

TEST(HealthPolicy, UnjudgedStepsHaveNoLimits) {
  HealthPolicy off({});
  for (int step = 0; step < 200; ++step) off.after(update(2, 1));
  EXPECT_FALSE(off.limits(1e9).loss.has_value());
  EXPECT_EQ(off.limits(1e9).max_loss, kInfinity);
  HealthPolicy finite({.non_finite = HealthAction::kStop});
  for (int step = 0; step < 200; ++step) finite.after(update(2, 1));
  EXPECT_EQ(finite.limits(1e9).loss, 1e9);
  EXPECT_EQ(finite.limits(1e9).max_loss, kInfinity);
}

TEST(HealthPolicy, ARewindNeedsCheckpoints) {
  require_possible({.spike = HealthAction::kRewind}, true);
  require_possible({.on_corruption = HealthAction::kRewind}, false);  // no comparison is configured
  EXPECT_TRUE(says(message_of<ConfigError>([] { require_possible({.spike = HealthAction::kRewind}, false); }),
                   "health.spike = rewind: there are no checkpoints"));
  EXPECT_TRUE(says(message_of<ConfigError>(
                       [] { require_possible({.check_replicas = 5, .on_corruption = HealthAction::kRewind}, false); }),
                   "health.on_corruption"));
}

}  // namespace
}  // namespace zero
