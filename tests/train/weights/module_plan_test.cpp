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

}  // namespace
}  // namespace zero
