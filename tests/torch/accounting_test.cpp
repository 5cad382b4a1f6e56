// Law 1: held and sent bytes equal the formulas of the ZeRO paper and the plan.
#include <gtest/gtest.h>

#include "zero/plan/units/estimate.h"
#include "zero/plan/units/partition.h"

#include "tests/torch/subjects.h"

namespace zero {
namespace {

using tests::all_stages;
using tests::RunResult;
using tests::Subject;

// Each unit is accessed once in each pass and direction, as the formulas assume. No world size divides the sizes.
struct LayersNet : torch::nn::Module {
  LayersNet() {
    register_module("layers", layers);
    for (int i = 0; i < 4; ++i) layers->push_back(torch::nn::Linear(95, 95));
  }
  torch::nn::ModuleList layers;
};
constexpr std::int64_t kNumel = 4 * (95 * 95 + 95);

Subject layers_net() {
  auto net = std::make_shared<LayersNet>();
  return {net, [net](int step, int micro, int rank) {
            torch::Tensor x = (torch::arange(190) * 0.1 + step + micro + rank)
                                  .sin()
                                  .to(net->parameters()[0].scalar_type())
                                  .reshape({2, 95});
            x.requires_grad_();  // so the backward pass also reads the first layer's weight
            for (const auto& layer : *net->layers) x = torch::tanh(layer->as<torch::nn::LinearImpl>()->forward(x));
            return x.square().sum();
          }};
}

// Bytes per element of parameter, gradient, master and moments, from the paper.
struct BytesAnElement {
  double parameter, gradient, master, moment;
};

BytesAnElement bytes_of(const AttachOptions& options, int world) {
  const bool fp32 = options.dtype == DType::kFloat32;
  const double type = fp32 ? 4 : 2;
  const double gradient = options.accumulate > 1 ? 4 : type;
  const auto share = [&](int from_stage) { return options.stage >= from_stage ? 1.0 / world : 1.0; };
  return {type * share(3), gradient * share(2), (fp32 ? 0 : 4) * share(1), 8 * share(1)};
}

void expect_near(std::int64_t held, double bytes_an_element, std::int64_t padding, const std::string& what) {
  const double formula = bytes_an_element * kNumel;
  EXPECT_NEAR(static_cast<double>(held), formula, 0.01 * formula + bytes_an_element * static_cast<double>(padding))
      << what;
}

TEST(Memory, TagsMatchFormulas) {
  for (int world : {1, 2, 4, 8}) {
    for (DType dtype : {DType::kFloat32, DType::kBFloat16}) {
      for (int accumulate : {1, 2}) {
        for (const AttachOptions& options : all_stages({.accumulate = accumulate, .dtype = dtype})) {
          const RunResult run = tests::train(world, 2, options, layers_net);
          const std::string where = tests::placement_of(options) + ", world " + std::to_string(world) +
                                    ", accumulate " + std::to_string(accumulate);
          const BytesAnElement formula = bytes_of(options, world);
          for (const EngineReport& report : run.reports) {
            const std::int64_t padding = report.padding_bytes / static_cast<std::int64_t>(size_of(dtype));
            EXPECT_LE(padding, kNumel / 50) << "the padding that is stated is small";
            expect_near(report.memory.device[MemoryTag::kParameter], formula.parameter, padding, "parameter, " + where);
            expect_near(report.memory.device[MemoryTag::kGradient], formula.gradient, padding, "gradient, " + where);
            expect_near(report.memory.device[MemoryTag::kMaster], formula.master, padding, "master, " + where);
            expect_near(report.memory.device[MemoryTag::kMoment], formula.moment, padding, "moment, " + where);
            EXPECT_EQ(report.num_parameters, kNumel);
            if (accumulate == 1) {
              EXPECT_NEAR(static_cast<double>(report.memory.device.state()), report.state_formula_bytes,
                          0.01 * report.state_formula_bytes + static_cast<double>(report.padding_bytes) * 8);
            }
          }
        }
      }
    }
  }
}

// The min budget gathers and stages one unit at a time.
TEST(Memory, MinBudgetStagesOneUnit) {
  for (DType dtype : {DType::kFloat32, DType::kBFloat16, DType::kFloat16}) {
    const AttachOptions options = all_stages({.dtype = dtype}).back();
    const EngineReport report = tests::train(2, 3, options, layers_net).reports[0];
    const std::int64_t unit = (kNumel / 4 + 64) * static_cast<std::int64_t>(size_of(dtype));
    // Two blocks serve gathers and reductions in turn.
    const auto blocks = [](const MemoryCount& memory) {
      return memory[MemoryTag::kGathered] + memory[MemoryTag::kStaging];
    };
    EXPECT_LE(blocks(report.memory.device), 2 * unit);
    EXPECT_GE(report.peak_memory.device[MemoryTag::kGathered], unit * 9 / 10);
    EXPECT_LE(report.peak_memory_bytes.device, report.memory.device.state() + 2 * unit);
  }
}

TEST(Memory, ABudgetInBytesIsKept) {
  AttachOptions options{.stage = 3};
  const EngineReport generous = tests::train(2, 3, options, layers_net).reports[0];
  const EngineReport minimum = tests::train(2, 3, all_stages(options).back(), layers_net).reports[0];
  ASSERT_LT(minimum.peak_memory_bytes.device, generous.peak_memory_bytes.device);
  for (int eighth = 0; eighth <= 8; ++eighth) {
    const std::int64_t budget = minimum.peak_memory_bytes.device +
                                (generous.peak_memory_bytes.device - minimum.peak_memory_bytes.device) * eighth / 8;
    options.device_memory = {MemoryBudget::Kind::kBytes, budget};
    EXPECT_LE(tests::train(2, 3, options, layers_net).reports[0].peak_memory_bytes.device, budget) << eighth << "/8";
  }
  // With this budget some states are on the host.
  options.device_memory.bytes = minimum.peak_memory_bytes.device * 3 / 4;
  const EngineReport tight = tests::train(2, 3, options, layers_net).reports[0];
  EXPECT_LE(tight.peak_memory_bytes.device, options.device_memory.bytes);
  EXPECT_GT(tight.memory.host.state(), 0);
  options.offload.automatic = false;
  EXPECT_THROW(tests::train(2, 1, options, layers_net), ConfigError);
  options.offload.automatic = true;
  options.device_memory.bytes = 1000;
  EXPECT_THROW(tests::train(2, 1, options, layers_net), ConfigError);
}

// Bytes that a rank sends, in units of P (N - 1) / N, as semantics.md states them.
int passes(const AttachOptions& options) {
  const int k = options.accumulate;
  const bool each = options.reduce == Reduce::kEach;
  if (options.stage < 3) return each ? k + 1 : 2;
  return each ? 3 * k : 2 * k + 1;
}

// This also holds with several micro-batches.
TEST(Traffic, MatchesFormulasAtEveryStage) {
  for (int world : {1, 2, 3, 4}) {
    for (int accumulate : {1, 3}) {
      for (Reduce reduce : {Reduce::kEach, Reduce::kLast}) {
        for (const AttachOptions& options : all_stages({.reduce = reduce, .accumulate = accumulate})) {
          // Under the min budget stage 3 sends as many bytes as the formula. With more memory it gathers less often.
          const bool minimum = options.device_memory.kind == MemoryBudget::Kind::kMin;
          const RunResult run = tests::train(world, 3, options, layers_net);
          for (const EngineReport& report : run.reports) {
            const std::int64_t padded = kNumel * 4 + report.padding_bytes;
            const std::int64_t formula = passes(options) * padded * (world - 1) / world;
            const std::string where = tests::placement_of(options) + ", world " + std::to_string(world) +
                                      ", accumulate " + std::to_string(accumulate);
            EXPECT_EQ(report.sent_bytes_per_step, report.planned_sent_bytes) << where;
            EXPECT_EQ(report.received_bytes_per_step, report.planned_sent_bytes) << where;
            if (options.stage < 3 || minimum) {
              EXPECT_EQ(report.sent_bytes_per_step, formula) << where;
              EXPECT_NEAR(
                  static_cast<double>(report.sent_bytes_per_step), report.sent_formula_bytes,
                  0.01 * report.sent_formula_bytes + static_cast<double>(passes(options) * report.padding_bytes))
                  << where;
            } else {
              EXPECT_LE(report.sent_bytes_per_step, formula) << where;
            }
          }
        }
      }
    }
  }
}

// A model with tied parameters.
TEST(Traffic, MatchesPlanForEveryBudget) {
  AttachOptions options{.stage = 3};
  const EngineReport generous = tests::train(3, 3, options, tests::tied_net).reports[0];
  const EngineReport minimum = tests::train(3, 3, all_stages(options).back(), tests::tied_net).reports[0];
  std::int64_t last = minimum.sent_bytes_per_step;
  for (int eighth = 0; eighth <= 8; ++eighth) {
    options.device_memory = {MemoryBudget::Kind::kBytes,
                             minimum.peak_memory_bytes.device +
                                 (generous.peak_memory_bytes.device - minimum.peak_memory_bytes.device) * eighth / 8};
    const EngineReport report = tests::train(3, 3, options, tests::tied_net).reports[0];
    EXPECT_EQ(report.sent_bytes_per_step, report.planned_sent_bytes) << eighth << "/8";
    EXPECT_LE(report.sent_bytes_per_step, last) << "more memory never costs traffic: " << eighth << "/8";
    last = report.sent_bytes_per_step;
  }
  EXPECT_LT(last, minimum.sent_bytes_per_step);
}

}  // namespace
}  // namespace zero
