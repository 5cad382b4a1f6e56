#include "zero/torch/meta/meta_trace.h"

#include <gtest/gtest.h>

#include "zero/plan/schedule/schedule.h"
#include "zero/torch/engine_control.h"

#include "tests/torch/training_run.h"

namespace zero {
namespace {

struct Chain : torch::nn::Module {
  Chain() {
    for (int i = 0; i < 3; ++i) layers->push_back(torch::nn::Linear(4, 4));
    register_module("layers", layers);
    unused = register_parameter("unused", torch::zeros({3}));
  }
  torch::Tensor forward(torch::Tensor x) {
    for (const auto& layer : *layers) x = torch::tanh(layer->as<torch::nn::LinearImpl>()->forward(x));
    return x.sum();
  }
  torch::nn::ModuleList layers;
  torch::Tensor unused;
};

TEST(MetaTrace, MatchesRealStepsTrace) {
  const auto planned_model = deferred([] { return std::make_shared<Chain>(); });
  const auto meta = torch::TensorOptions().device(torch::kMeta);
  const MetaTrace planned = trace_on_meta(*planned_model,
                                          [&](int) {
                                            return planned_model->forward(torch::empty({2, 4}, meta));
                                          },
                                          {.accumulate = 2});
  tests::on_every_rank(1, [&](World& world) {
    const auto model = std::make_shared<Chain>();
    Engine engine = attach(*model, world, {.stage = 3, .accumulate = 2});
    for (int micro = 0; micro < 2; ++micro) model->forward(torch::ones({2, 4})).backward();
    engine.step();
    std::vector<Event> recorded;
    for (const ScheduleEntry& entry : engine.control().schedule().entries) recorded.push_back(entry.event);
    EXPECT_EQ(recorded, planned.trace.events);
  });
}

// A program in another language has only tensors.
TEST(MetaTrace, TensorsNeedNoModule) {
  const auto model = deferred([] { return std::make_shared<Chain>(); });
  const auto loss = [&](int) {
    return model->forward(torch::empty({2, 4}, torch::TensorOptions().device(torch::kMeta)));
  };
  const MetaTrace of_tensors = trace_on_meta(tensors_of(*model), loss);
  EXPECT_EQ(of_tensors.trace.events, trace_on_meta(*model, loss).trace.events);
  EXPECT_FALSE(of_tensors.trace.events.empty());
}

TEST(MetaTrace, LeavesTheModuleDeferred) {
  const auto model = deferred([] { return std::make_shared<Chain>(); }, 3);
  trace_on_meta(*model, [&](int) {
    return model->forward(torch::empty({2, 4}, torch::TensorOptions().device(torch::kMeta)));
  });
  for (const torch::Tensor& parameter : model->parameters()) EXPECT_TRUE(is_deferred(parameter));
  tests::on_every_rank(1, [&](World& world) {
    Engine engine = attach(*model, world, {.stage = 3});
    EXPECT_TRUE(std::isfinite(model->forward(torch::ones({2, 4})).item().toDouble()));
  });
}

}  // namespace
}  // namespace zero
