// Pipelines whose ranks keep states on other tiers, within budgets, or in several copies: the bits of no pipeline.
#include <array>

#include <gtest/gtest.h>

#include "zero/torch/pipeline/attach_pipeline.h"

#include "tests/support/temporary_folder.h"
#include "tests/torch/held_bytes.h"
#include "tests/torch/pipeline/pipeline_run.h"
#include "tests/torch/subjects.h"

namespace zero {
namespace {

using tests::expect_same_bits;
using tests::train_pipelined;

constexpr int kSteps = 4;
const PipelineOptions kInterleaved{.pipeline = 2, .sections = 4, .schedule = PassOrder::kInterleaved};

tests::Subject layers() {
  torch::nn::Sequential net;
  for (int i = 0; i < 6; ++i) {
    net->push_back(torch::nn::Linear(16, 16));
    net->push_back(torch::nn::Tanh());
  }
  return {
      net.ptr(), [net](int step, int micro, int rank) mutable {
        const torch::Tensor x =
            (torch::arange(64).remainder(7 + step + 3 * micro + 5 * rank).to(torch::kFloat) / 8 - 0.5).reshape({4, 16});
        return torch::mse_loss(net->forward(x), x.flip(1));
      }};
}

TEST(PipelineMemory, TiersKeepBits) {
  const TemporaryFolder disk;
  const AttachOptions on_device{.stage = 3, .clip = 0.5, .accumulate = 4};
  const auto plain = train_pipelined(2, kSteps, on_device, {.pipeline = 1}, layers);
  AttachOptions below = on_device;
  below.device_memory = MemoryBudget::parse("min");
  below.offload.disk = {disk.path()};
  below.offload.fractions = {
      .parameter = {.host = 0.5}, .gradient = {.disk = 0.5}, .optimizer = {.host = 0.3, .disk = 0.7}};
  expect_same_bits(train_pipelined(4, kSteps, below, {.pipeline = 2}, layers), plain);
  below.stage = 1;
  below.offload.fractions = {.optimizer = {.disk = 1}};
  below.device_memory = {};
  expect_same_bits(train_pipelined(4, kSteps, below, kInterleaved, layers), plain);
}

// Two sections of a rank have one budget together: each takes its part.
TEST(PipelineMemory, SectionsShareBudgets) {
  AttachOptions options{.stage = 3, .accumulate = 4};
  const auto plain = train_pipelined(1, kSteps, options, {.pipeline = 1}, layers);
  options.device_memory = MemoryBudget::parse("14KiB");
  options.offload.host_memory = MemoryBudget::parse("1MiB");
  std::int64_t most = 0;
  std::mutex writing;
  tests::on_every_rank(2, [&](World& world) {
    const tests::Subject subject = layers();
    PipelineEngine engine = attach_pipeline(*subject.module, world, options, kInterleaved);
    for (int step = 0; step < 2; ++step) {
      engine.passes([&](int micro) { return subject.loss(step, micro, 0); });
      engine.step(1e-2);
    }
    const EngineReport report = engine.report();
    const std::lock_guard lock(writing);
    most = std::max(most, report.peak_memory_bytes.device);
    EXPECT_GT(report.memory.host.total(), 0);
  });
  EXPECT_LE(most, 14 << 10);
  expect_same_bits(train_pipelined(2, kSteps, options, kInterleaved, layers), plain);
}

// Four ranks at a position hold one copy, two copies, or cut it by weight.
TEST(PipelineMemory, CopiesAndWeightedShardsKeepBits) {
  const AttachOptions options{.stage = 2, .clip = 0.5, .accumulate = 2};
  const auto plain = train_pipelined(4, kSteps, options, {.pipeline = 1}, layers);
  AttachOptions copies = options;
  copies.group = 2;
  expect_same_bits(train_pipelined(8, kSteps, copies, {.pipeline = 2}, layers), plain);
  AttachOptions weighted = options;
  weighted.shards = Cut::kWeighted;
  weighted.shard_weights = {1, 2, 3, 1};
  expect_same_bits(train_pipelined(8, kSteps, weighted, {.pipeline = 2}, layers), plain);
}

// Units that are gathered at once, by the ledger of each rank: one with the least budget, and without a budget all of
// the section. Four layers of 64 x 64 in two sections, over two ranks each.
TEST(PipelineMemory, GatheredUnitsFollowTheBudget) {
  constexpr double kUnit = (64 * 64 + 64) * sizeof(float);
  for (const auto& [budget, units] : {std::pair("min", 1), std::pair("", 2)}) {
    AttachOptions options{.stage = 3, .accumulate = 3};
    if (*budget != 0) options.device_memory = MemoryBudget::parse(budget);
    std::array<double, 4> gathered{};
    tests::on_every_rank(4, [&](World& world) {
      torch::nn::Sequential net;
      for (int i = 0; i < 4; ++i) net->push_back(torch::nn::Linear(64, 64));
      PipelineEngine engine = attach_pipeline(*net, world, options, {.pipeline = 2});
      for (int step = 0; step < 3; ++step) {
        engine.passes([&](int) { return net->forward(torch::ones({2, 64})).pow(2).mean(); });
        engine.step(1e-3);
      }
      gathered[static_cast<std::size_t>(world.rank())] =
          static_cast<double>(engine.report().peak_memory.device[MemoryTag::kGathered]);
    });
    for (const double bytes : gathered) EXPECT_NEAR(bytes / (units * kUnit), 1, 0.02) << budget;
  }
}

// The most bytes of tensors that the last rank of a line holds in the second step of these micro-batches.
std::int64_t most_bytes_of_last_rank(int micros, PassOrder order) {
  std::int64_t most = 0;
  tests::on_every_rank(2, [&](World& world) {
    torch::nn::Sequential net(torch::nn::Linear(64, 64), torch::nn::Tanh(), torch::nn::Linear(64, 64));
    PipelineEngine engine =
        attach_pipeline(*net, world, {.stage = 0, .accumulate = micros}, {.pipeline = 2, .schedule = order});
    const torch::Tensor x = torch::ones({512, 64});
    const auto step = [&] {
      engine.passes([&](int) { return net->forward(x).mean(); });
      engine.step(1e-2);
    };
    step();
    const auto held = std::make_shared<HeldBytes>();
    const c10::DebugInfoGuard listening(c10::DebugInfoKind::PROFILER_STATE, held);
    step();
    if (world.rank() == 1) most = held->most;
  });
  return most;
}

// The last rank of 1f1b has one micro-batch open. The gradients that it sent leave as soon as they are read.
TEST(PipelineMemory, SentGradientsLeaveWithinTheStep) {
  constexpr std::int64_t kGradient = 512 * 64 * 4;
  const std::int64_t few = most_bytes_of_last_rank(4, PassOrder::kOneForwardOneBackward);
  const std::int64_t many = most_bytes_of_last_rank(12, PassOrder::kOneForwardOneBackward);
  EXPECT_GT(few, 2 * kGradient);
  EXPECT_LT(many, few + kGradient);
}

}  // namespace
}  // namespace zero
