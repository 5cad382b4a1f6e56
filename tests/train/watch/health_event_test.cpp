#include "app/train/watch/health_event.h"

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

namespace zero {
namespace {

using nlohmann::json;

StepReport spike() {
  StepReport report;
  report.skipped = true;
  report.reason = SkipReason::kLossSpike;
  report.loss = 93.125;
  report.grad_norm = 7;
  return report;
}

TEST(HealthEvent, ShowsStepAndItsLimits) {
  const HealthEvent event = event_of(HealthAction::kSkip, 512, spike(), {.max_loss = 3.25, .max_grad_norm = 9});
  const json line = json::parse(to_json_line(event));
  EXPECT_EQ(line["step"], 512);
  EXPECT_EQ(line["event"], "skipped");
  EXPECT_EQ(line["reason"], "loss spike");
  EXPECT_EQ(line["loss"], 93.125);
  EXPECT_EQ(line["grad_norm"], 7);
  EXPECT_EQ(line["limit"], 3.25);
  StepReport norm = spike();
  norm.reason = SkipReason::kNormSpike;
  EXPECT_EQ(event_of(HealthAction::kSkip, 1, norm, {.max_loss = 3.25, .max_grad_norm = 9}).limit, 9);
}

// The line belongs to the step at which the run continues.
TEST(HealthEvent, RewindIsLineOfItsStep) {
  HealthEvent event = event_of(HealthAction::kRewind, 512, spike(), {.max_loss = 3.25});
  event.back_to = 500;
  event.samples = 4104;
  const json line = json::parse(to_json_line(event));
  EXPECT_EQ(line["step"], 500);
  EXPECT_EQ(line["from"], 512);
  EXPECT_EQ(line["samples"], 4104);
  EXPECT_EQ(describe(event), "step 512: loss 93.125, beyond 3.25: continuing after step 500 with sample 4104");
}

TEST(HealthEvent, WhatIsNoNumberIsNull) {
  StepReport report;
  report.reason = SkipReason::kNonFinite;
  report.bad_parameter = "h.2.weight";
  const HealthEvent event = event_of(HealthAction::kStop, 3, report, {});
  const json line = json::parse(to_json_line(event));
  EXPECT_TRUE(line["loss"].is_null());
  EXPECT_TRUE(line["limit"].is_null());
  EXPECT_EQ(line["detail"], "h.2.weight");
  EXPECT_EQ(describe(event), "step 3: the gradient of h.2.weight is not finite: stopped");
}

TEST(HealthEvent, DifferingReplicaHasOwnWords) {
  const HealthEvent event{.action = HealthAction::kStop,
                          .step = 8,
                          .reason = "replicas differ",
                          .detail = "rank 2 differs in unit 3 (blocks.2)"};
  EXPECT_EQ(describe(event), "step 8: rank 2 differs in unit 3 (blocks.2): stopped");
}

}  // namespace
}  // namespace zero
