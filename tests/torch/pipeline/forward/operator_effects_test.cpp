#include "zero/torch/pipeline/forward/operator_effects.h"

#include <gtest/gtest.h>

#include <torch/torch.h>

namespace zero {
namespace {

c10::OperatorHandle operator_of(const char* name, const char* overload = "") {
  return c10::Dispatcher::singleton().findSchemaOrThrow(name, overload);
}

torch::jit::Stack norm_of(const at::Tensor& mean, const at::Tensor& variance, bool trains) {
  const at::Tensor none;
  return {torch::ones({2, 3}), none, none, mean, variance, trains, 0.1, 1e-5};
}

// The schema does not say that it writes them.
TEST(OperatorEffects, TrainingNormsWriteStatistics) {
  const c10::OperatorHandle norm = operator_of("aten::native_batch_norm");
  const at::Tensor mean = torch::zeros({3}), variance = torch::ones({3});
  const std::vector<at::Tensor> written = written_arguments(norm, norm_of(mean, variance, true));
  ASSERT_EQ(written.size(), 2U);
  EXPECT_TRUE(written[0].is_same(mean) && written[1].is_same(variance));
  EXPECT_TRUE(written_arguments(norm, norm_of(mean, variance, false)).empty());
  EXPECT_TRUE(written_arguments(norm, norm_of({}, {}, true)).empty()) << "it has no statistics";
  EXPECT_TRUE(has_statistics(norm));
  EXPECT_FALSE(has_statistics(operator_of("aten::native_layer_norm")));
}

TEST(OperatorEffects, InPlaceOperatorsWriteArguments) {
  const at::Tensor x = torch::zeros({3});
  const std::vector<at::Tensor> written =
      written_arguments(operator_of("aten::add_", "Tensor"), {x, torch::ones({3}), 1});
  ASSERT_EQ(written.size(), 1U);
  EXPECT_TRUE(written[0].is_same(x));
  EXPECT_TRUE(written_arguments(operator_of("aten::add", "Tensor"), {x, x, 1}).empty());
}

TEST(OperatorEffects, EqualMayCompareWithItself) {
  const c10::OperatorHandle equal = operator_of("aten::equal");
  const at::Tensor x = torch::zeros({2, 3});
  EXPECT_TRUE(compares_with_itself(equal, {x, x}));
  EXPECT_TRUE(compares_with_itself(equal, {x, x.detach()}));
  EXPECT_FALSE(compares_with_itself(equal, {x, x.clone()}));
  EXPECT_FALSE(compares_with_itself(equal, {x, x.view({3, 2})}));
  EXPECT_FALSE(compares_with_itself(operator_of("aten::add", "Tensor"), {x, x, 1}));
  torch::jit::Stack stack{x, x};
  answer_true(stack);
  ASSERT_EQ(stack.size(), 1U);
  EXPECT_TRUE(stack.back().toBool());
}

TEST(OperatorEffects, DropoutDrawsOnlyInTraining) {
  const c10::OperatorHandle dropout = operator_of("aten::native_dropout");
  EXPECT_TRUE(draws_numbers(dropout, {torch::ones({3}), 0.5, true}));
  EXPECT_FALSE(draws_numbers(dropout, {torch::ones({3}), 0.5, false}));
  EXPECT_FALSE(draws_numbers(dropout, {torch::ones({3}), 0.0, true}));
}

}  // namespace
}  // namespace zero
