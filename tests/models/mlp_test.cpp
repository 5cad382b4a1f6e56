#include "app/models/mlp.h"

#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "zero/base/error/error.h"

#include "tests/support/message_of.h"

namespace zero {
namespace {

TEST(Mlp, LayersAreNamedByTheirNumber) {
  Mlp model(MlpOptions{.sizes = {4, 3, 2}});
  std::vector<std::string> names;
  for (const auto& item : model->named_parameters()) names.push_back(item.key());
  EXPECT_EQ(names, (std::vector<std::string>{"layers.0.weight", "layers.0.bias", "layers.1.weight", "layers.1.bias"}));
  EXPECT_EQ(model->named_parameters()["layers.0.weight"].sizes().vec(), (std::vector<std::int64_t>{3, 4}));
}

TEST(Mlp, IsLinearLayersWithReluBetween) {
  Mlp model(MlpOptions{.sizes = {4, 3, 2}});
  auto p = model->named_parameters();
  const auto x = torch::randn({5, 4});
  const auto hidden = (torch::matmul(x, p["layers.0.weight"].t()) + p["layers.0.bias"]).clamp_min(0);
  const auto expected = torch::matmul(hidden, p["layers.1.weight"].t()) + p["layers.1.bias"];
  EXPECT_TRUE(torch::allclose(model->forward(x), expected, 1e-5, 1e-6));
  EXPECT_TRUE((model->forward(x) < 0).any().item<bool>() || (expected >= 0).all().item<bool>()) << "no relu at the end";
}

TEST(Mlp, FlattensImages) {
  Mlp model(MlpOptions{.sizes = {6, 2}});
  const auto image = torch::randn({3, 2, 3});
  EXPECT_TRUE(torch::equal(model->forward(image), model->forward(image.view({3, 6}))));
}

TEST(Mlp, ConvertsFloatInputsToItsType) {
  Mlp model(MlpOptions{.sizes = {4, 2}});
  model->to(at::kBFloat16);
  EXPECT_EQ(model->forward(torch::randn({1, 4})).scalar_type(), at::kBFloat16);
}

TEST(Mlp, NeedsInputsAndOutputs) {
  const auto message = [](std::vector<std::int64_t> sizes) {
    return message_of<ConfigError>([&] { Mlp model(MlpOptions{.sizes = sizes}); });
  };
  EXPECT_TRUE(says(message({}), "model.sizes = []"));
  EXPECT_TRUE(says(message({7}), "model.sizes = [7]"));
  EXPECT_TRUE(says(message({7, 0, 2}), "model.sizes = [7, 0, 2]"));
}

TEST(Mlp, FlopsAreSixAWeight) {
  EXPECT_EQ(flops_per_row({.sizes = {10, 5, 2}}), 6.0 * (50 + 10));
}

}  // namespace
}  // namespace zero
