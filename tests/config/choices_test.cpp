#include "app/config/choices.h"

#include <gtest/gtest.h>

#include "zero/optim/whole/muon_rule.h"

#include "app/config/option.h"
#include "tests/support/message_of.h"

namespace zero {
namespace {

TEST(Choices, AWordHasItsValue) {
  EXPECT_EQ(value_of(kDTypes, "train.dtype", "bf16"), DType::kBFloat16);
  EXPECT_EQ(value_of(kActivationTiers, "train.offload_activations", "none"), std::nullopt);
  EXPECT_EQ(value_of(kActivationTiers, "train.offload_activations", "disk"), Tier::kDisk);
}

TEST(Choices, RefusesOtherWordsWithTheList) {
  EXPECT_EQ(message_of<ConfigError>([] { value_of(kDTypes, "train.dtype", "fp8"); }),
            "train.dtype = fp8: not an allowed value\n  use one of: fp32, bf16, fp16");
}

template <typename Table>
void expect_allowed(const Table& table, std::string_view key) {
  const Option* option = find_option(key);
  ASSERT_NE(option, nullptr) << key;
  ASSERT_EQ(option->choices.size(), table.size()) << key;
  for (const std::string_view word : option->choices) EXPECT_NO_THROW(value_of(table, key, word)) << key;
}

TEST(Choices, EveryAllowedWordHasAValue) {
  expect_allowed(kDataKinds, "data.kind");
  expect_allowed(kAugments, "data.augment");
  expect_allowed(kOrders, "data.order");
  expect_allowed(kReduces, "train.reduce");
  expect_allowed(kRankSums, "zero.reduce");
  expect_allowed(kActivationTiers, "train.offload_activations");
  expect_allowed(kDTypes, "train.dtype");
  expect_allowed(kReduceDTypes, "train.reduce_dtype");
  expect_allowed(kMuonScales, "optimizer.muon_scale");
  expect_allowed(kLrKinds, "schedule.name");
  expect_allowed(kNonFinites, "health.non_finite");
  expect_allowed(kSpikes, "health.spike");
  expect_allowed(kCorruptions, "health.on_corruption");
}

}  // namespace
}  // namespace zero
