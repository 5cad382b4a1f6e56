#include "app/models/linear_regression.h"

#include <gtest/gtest.h>

#include "zero/base/error/error.h"

#include "tests/support/message_of.h"

namespace zero {
namespace {

TEST(LinearRegression, StartsAtZero) {
  LinearRegression model(3);
  EXPECT_TRUE(torch::equal(model->forward(torch::randn({4, 3})), torch::zeros({4, 1})));
}

TEST(LinearRegression, IsWeightedSumPlusBias) {
  LinearRegression model(2);
  auto parameters = model->named_parameters();
  const torch::NoGradGuard no_grad;
  parameters["linear.weight"].copy_(torch::tensor({{2.0F, -1.0F}}));
  parameters["linear.bias"].fill_(0.5);
  const auto y = model->forward(torch::tensor({{3.0F, 4.0F}, {0.0F, 0.0F}}));
  EXPECT_TRUE(torch::equal(y, torch::tensor({{2.5F}, {0.5F}})));
}

TEST(LinearRegression, NeedsAColumnToLearnFrom) {
  EXPECT_TRUE(says(message_of<ConfigError>([] { LinearRegression model(0); }), "0 features"));
}

}  // namespace
}  // namespace zero
