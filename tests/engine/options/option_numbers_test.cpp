#include "zero/engine/options/option_numbers.h"

#include <cmath>
#include <functional>

#include <gtest/gtest.h>

#include "zero/base/error/error.h"

#include "tests/support/message_of.h"

namespace zero {
namespace {

constexpr double kNan = std::numeric_limits<double>::quiet_NaN();

struct BadNumber {
  std::string key;
  std::function<void(AttachOptions&)> set;
};

std::vector<BadNumber> bad_numbers() {
  std::vector<BadNumber> all{
      {"train.clip", [](AttachOptions& o) { o.clip = kNan; }},
      {"train.clip", [](AttachOptions& o) { o.clip = -1; }},
      {"train.ema", [](AttachOptions& o) { o.ema = kNan; }},
      {"train.ema", [](AttachOptions& o) { o.ema = 1; }},
      {"train.accumulate", [](AttachOptions& o) { o.accumulate = 0; }},
      {"train.leaves", [](AttachOptions& o) { o.leaves = -1; }},
      {"run.threads", [](AttachOptions& o) { o.threads = 0; }},
      {"exact_steps", [](AttachOptions& o) { o.exact_steps = -1; }},
      {"max_skipped_steps", [](AttachOptions& o) { o.max_skipped_steps = 0; }},
      {"zero.device_memory",
       [](AttachOptions& o) {
         o.device_memory = {MemoryBudget::Kind::kBytes, -1};
       }},
      {"zero.host_memory",
       [](AttachOptions& o) {
         o.offload.host_memory = {MemoryBudget::Kind::kBytes, -1};
       }},
      {"zero.disk_memory", [](AttachOptions& o) { o.offload.disk_memory = -1; }},
      {"zero.link_bandwidth", [](AttachOptions& o) { o.offload.link_bytes_per_second = kNan; }},
      {"offload.disk_timeout", [](AttachOptions& o) { o.offload.disk_timeout = std::chrono::milliseconds(0); }},
      {"zero.memory_reserve", [](AttachOptions& o) { o.offload.monitor.reserve_bytes = -1; }},
      {"offload.monitor.period", [](AttachOptions& o) { o.offload.monitor.period = std::chrono::milliseconds(-1); }}};
  for (const double bad : {kNan, -1.0, std::numeric_limits<double>::infinity()}) {
    all.push_back({"groups[1].lr_scale", [bad](AttachOptions& o) { o.groups = {{}, {.lr_scale = bad}}; }});
    all.push_back({"groups[0] (*.bias).weight_decay",
                   [bad](AttachOptions& o) { o.groups = {{.weight_decay = bad, .name = "*.bias"}}; }});
  }
  return all;
}

TEST(OptionNumbers, EachIsRefusedByKey) {
  for (const BadNumber& bad : bad_numbers()) {
    AttachOptions options;
    EXPECT_NO_THROW(require_numbers(options));
    bad.set(options);
    EXPECT_TRUE(says(message_of<ConfigError>([&] { require_numbers(options); }), bad.key + " = "));
  }
}

TEST(OptionNumbers, AGroupMayScaleToZero) {
  EXPECT_NO_THROW(require_numbers({.groups = {{.weight_decay = 0.0, .lr_scale = 0}}}));
}

TEST(OptionNumbers, LimitsMayBeInfinite) {
  const StepLimits limits;
  EXPECT_NO_THROW(require_limits(limits.max_loss, limits.max_grad_norm));
  EXPECT_NO_THROW(require_limits(1e39, 1e39)) << "beyond fp32";
  EXPECT_NO_THROW(require_limits(-1, 0)) << "a loss may be below 0";
  for (const double bad : {kNan, -std::numeric_limits<double>::infinity()})
    EXPECT_TRUE(says(message_of<ConfigError>([bad] { require_limits(bad, 1); }),
                     "must be a finite number\n  use infinity for no limit"));
  EXPECT_TRUE(says(message_of<ConfigError>([] { require_limits(kNan, 1); }), "limits.max_loss"));
  for (const double bad : {kNan, -1.0})
    EXPECT_TRUE(says(message_of<ConfigError>([bad] { require_limits(1, bad); }), "limits.max_grad_norm"));
}

TEST(OptionNumbers, ALearningRateFitsFp32) {
  EXPECT_NO_THROW(require_rates({.lr = 0}, 0));
  EXPECT_NO_THROW(require_rates({.lr = 1, .by_group = {0, 2}, .decay_by_group = {0, 0.1}}, 2));
  for (const double bad : {kNan, -1.0, 1e39})
    EXPECT_TRUE(says(message_of<ConfigError>([bad] { require_rates({.lr = bad}, 0); }), "step(lr) = "));
}

}  // namespace
}  // namespace zero
