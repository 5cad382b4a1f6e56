#include "zero/torch/deferred/surroundings.h"

#include <gtest/gtest.h>

#include <ATen/autocast_mode.h>
#include <torch/torch.h>

namespace zero {
namespace {

TEST(GeneratorScope, DrawsAgainAndLeavesNoTrace) {
  torch::manual_seed(3);
  const torch::Tensor then = generator_state();
  const torch::Tensor first = torch::rand({7});
  const torch::Tensor before = generator_state();
  {
    const GeneratorScope scope(then);
    EXPECT_TRUE(torch::equal(torch::rand({7}), first));
  }
  EXPECT_TRUE(torch::equal(generator_state(), before));
}

// The generator draws normals in pairs and keeps the second one. Its saved state includes that number.
TEST(GeneratorScope, KeepsHalfDrawnNormals) {
  torch::manual_seed(4);
  torch::normal(0, 1, {1});  // draws a pair, so one number stays in the generator
  const torch::Tensor then = generator_state();
  const torch::Tensor first = torch::normal(0, 1, {1});
  torch::normal(0, 1, {3});
  const GeneratorScope scope(then);
  EXPECT_TRUE(torch::equal(torch::normal(0, 1, {1}), first));
}

TEST(GeneratorScope, OfNoStateDoesNothing) {
  torch::manual_seed(5);
  const torch::Tensor first = generator_state();
  {
    const GeneratorScope scope{torch::Tensor()};
    torch::rand({1});
  }
  EXPECT_FALSE(torch::equal(generator_state(), first)) << "the number drawn inside counts";
}

TEST(GeneratorScope, EndsWithAnException) {
  const torch::Tensor before = generator_state();
  try {
    const GeneratorScope scope(before);
    torch::rand({1});
    throw 1;
  } catch (int) {
  }
  EXPECT_TRUE(torch::equal(generator_state(), before));
}

// AutocastScope sets type and cache, and restores both at its end.
TEST(AutocastScope, RestoresTypeAndCache) {
  const Autocast outer = Autocast::now();
  ASSERT_FALSE(outer.enabled);
  ASSERT_TRUE(at::autocast::is_autocast_cache_enabled());
  {
    const AutocastScope scope({.enabled = true, .dtype = at::kHalf});
    EXPECT_TRUE(Autocast::now().enabled);
    EXPECT_EQ(Autocast::now().dtype, at::kHalf);
    EXPECT_FALSE(at::autocast::is_autocast_cache_enabled());
  }
  EXPECT_FALSE(Autocast::now().enabled);
  EXPECT_EQ(Autocast::now().dtype, outer.dtype);
  EXPECT_TRUE(at::autocast::is_autocast_cache_enabled());
}

}  // namespace
}  // namespace zero
