#include "app/train/weights/module_plan.h"

#include <gtest/gtest.h>

#include <torch/nn/modules/embedding.h>

#include "zero/base/error/error.h"

#include "tests/support/message_of.h"

namespace zero {
namespace {

struct TiedHead : torch::nn::Module {
  TiedHead() : table(5, 3) {
    register_module("table", table);
    register_module("head", head);
    head->register_parameter("weight", table->weight);
  }
  torch::nn::Embedding table;
  std::shared_ptr<torch::nn::Module> head = std::make_shared<torch::nn::Module>();
};

std::string refusal(const std::string& name) {
  AttachOptions options;
  options.groups = {{.matches = [name](const ParamSpec& spec) { return spec.name == name; }, .name = name},
                    {.matches = [](const ParamSpec&) { return true; }}};
  TiedHead module;
  return message_of<ConfigError>([&] { plan_of("tied", module, 1, options); });
}

TEST(ModulePlan, ATiedGroupNamesItsParameter) {
  EXPECT_TRUE(says(refusal("head.weight"), "optimizer.group = head.weight: head.weight is tied to table.weight"));
  EXPECT_TRUE(says(refusal("tail.weight"), "no parameter of the model has such a name"));
}

// Three ranks are no power of two, so each sums its four leaves before they are reduced.
TEST(ModulePlan, LeavesDecideTheReduction) {
  AttachOptions options{.stage = 2, .accumulate = 4, .leaves = 12};
  TiedHead module;
  const TrainingPlan plan = plan_of("tied", module, 3, options);
  EXPECT_FALSE(placement_of(plan).gradient_sharded);
  AttachOptions last = options;
  last.reduce = Reduce::kLast;
  const TrainingPlan summed = plan_of("tied", module, 3, last);
  EXPECT_EQ(cost_of(plan, 2).state, cost_of(summed, 2).state);
  EXPECT_EQ(cost_of(plan, 2).sent, cost_of(summed, 2).sent);
  options.offload = {.fractions = {.gradient = {.disk = 1}}, .disk = {"."}};
  EXPECT_TRUE(says(message_of<ConfigError>([&] { plan_of("tied", module, 3, options); }),
                   "whole gradients cannot leave the device"));
}

}  // namespace
}  // namespace zero
