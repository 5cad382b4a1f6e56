// Law 1 for update rules: bytes of parameters, gradients, master copies and states equal the declaration of each rule.
#include <algorithm>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "zero/optim/elementwise/averaged_rule.h"
#include "zero/optim/rule_registry.h"

#include "tests/torch/training_run.h"

namespace zero {
namespace {

constexpr std::int64_t kLayers = 3, kWidth = 192;
constexpr std::int64_t kWeights = kLayers * kWidth * kWidth, kBiases = kLayers * kWidth;

struct SquareNet : torch::nn::Module {
  SquareNet() {
    register_module("layers", layers);
    for (std::int64_t i = 0; i < kLayers; ++i) layers->push_back(torch::nn::Linear(kWidth, kWidth));
  }
  torch::nn::ModuleList layers;
};

tests::Subject square_net() {
  auto net = std::make_shared<SquareNet>();
  return {net, [net](int step, int micro, int rank) {
            torch::Tensor x = (torch::arange(2 * kWidth) * 0.1 + step + micro + rank)
                                  .sin()
                                  .to(net->parameters()[0].scalar_type())
                                  .reshape({2, kWidth});
            for (const auto& layer : *net->layers) x = torch::tanh(layer->as<torch::nn::LinearImpl>()->forward(x));
            return x.to(torch::kFloat).square().sum();
          }};
}

// Bytes of states from the papers: per element of a weight and of a bias, and per row or column of a weight.
struct StateBytes {
  const char* name;
  OptimizerOptions rule;
  double weight, bias;
  double row_or_column = 0;  // whole on every rank
};

std::vector<StateBytes> rules() {
  const double coded = 2 * (1 + 4.0 / kCodeBlock);  // two codes and their part of a scale
  return {{"adam", Adam{}, 8, 8},
          {"adamw", AdamW{}, 8, 8},
          {"sgd", Sgd{}, 0, 0},
          {"momentum", Sgd{.momentum = 0.9}, 4, 4},
          {"nesterov", Sgd{.momentum = 0.9, .nesterov = true}, 4, 4},
          {"lion", Lion{}, 4, 4},
          {"lamb", Lamb{}, 8, 8},
          {"adafactor", Adafactor{}, 0, 4, 4},
          {"muon", Muon{}, 4, 8},
          {"adamw8bit", AdamW8bit{}, coded, coded}};
}

class RuleMemory : public testing::TestWithParam<StateBytes> {};

TEST_P(RuleMemory, TagsMatchRulesDeclaration) {
  for (const DType dtype : {DType::kFloat32, DType::kBFloat16, DType::kFloat16}) {
    for (const double ema : {0.0, 0.9}) {
      for (const auto& [world, stage] : {std::pair{1, 0}, {2, 1}, {2, 3}}) {
        const tests::RunResult run = tests::train(
            world, 1, {.stage = stage, .optimizer = GetParam().rule, .ema = ema, .dtype = dtype}, square_net);
        const std::string where = fmt::format("{}, ema {}, stage {} on {}", name_of(dtype), ema, stage, world);
        const double type = static_cast<double>(size_of(dtype)), average = ema > 0 ? 4 : 0;
        const double elements = static_cast<double>(kWeights + kBiases);
        const double shards = stage == 0 ? 1 : world;
        const double states =
            (kWeights * (GetParam().weight + average) + kBiases * (GetParam().bias + average)) / shards +
            static_cast<double>(2 * kLayers * kWidth) * GetParam().row_or_column;
        const auto expect = [&](const EngineReport& report, MemoryTag tag, double bytes) {
          EXPECT_NEAR(static_cast<double>(report.memory.device[tag]), bytes, 0.01 * bytes)
              << zero::name_of(tag) << ", " << where;
        };
        for (const EngineReport& report : run.reports) {
          expect(report, MemoryTag::kParameter, elements * type / (stage == 3 ? world : 1));
          expect(report, MemoryTag::kMaster, dtype == DType::kFloat32 ? 0 : elements * 4 / shards);
          expect(report, MemoryTag::kMoment, states);
        }
      }
    }
  }
}

// Plans and estimates use the same bytes per element.
TEST_P(RuleMemory, ElementBytesMatchPlans) {
  const auto rule = make_update_rule(GetParam().rule);
  const bool apart = rule->matrices() != nullptr || rule->factors() != nullptr;
  EXPECT_EQ(spec_of(*rule).element_bytes(/*matrices=*/apart), GetParam().weight);
  EXPECT_EQ(spec_of(*rule).element_bytes(/*matrices=*/false), GetParam().bias);
  EXPECT_EQ(static_cast<double>(spec_of(*rule).factor_bytes(30, 50)), (30 + 50) * GetParam().row_or_column);
  EXPECT_EQ(spec_of(*with_average(make_update_rule(GetParam().rule), 0.9)).element_bytes(apart), GetParam().weight + 4);
}

TEST(RuleMemoryOf, TriesEveryRegisteredRule) {
  const std::vector<StateBytes> tried = rules();
  for (const RuleRow& row : kRuleTable)
    EXPECT_TRUE(std::ranges::any_of(tried, [&](const StateBytes& each) { return name_of(each.rule) == row.name; }))
        << row.name;
}

INSTANTIATE_TEST_SUITE_P(Rules, RuleMemory, testing::ValuesIn(rules()),
                         [](const auto& given) { return std::string(given.param.name); });

}  // namespace
}  // namespace zero
