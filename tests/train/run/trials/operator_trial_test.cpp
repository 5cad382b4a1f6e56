#include "app/train/run/trials/operator_trial.h"

#include <gtest/gtest.h>

#include <torch/torch.h>

#include "zero/base/error/error.h"

#include "tests/support/message_of.h"

namespace zero {
namespace {

TEST(OperatorTrial, NamesOperatorMissingForType) {
  const std::string error = message_of<ConfigError>([] {
    with_operators_of(DType::kFloat16, [] { (void)torch::linalg_qr(torch::ones({2, 2}, torch::kHalf)); });
  });
  EXPECT_TRUE(says(error, "train.dtype"));
  EXPECT_TRUE(says(error, "qr"));
  EXPECT_TRUE(says(error, "Half"));
  EXPECT_TRUE(says(error, "use bf16 or fp32"));
}

TEST(OperatorTrial, OtherErrorsStayWhatTheyAre) {
  EXPECT_THROW(with_operators_of(DType::kFloat16,
                                 [] {
                                   (void)torch::ones({2, 3}).matmul(torch::ones({2, 3}));
                                 }),
               c10::Error);
  EXPECT_NO_THROW(with_operators_of(DType::kFloat16, [] {}));
}

}  // namespace
}  // namespace zero
