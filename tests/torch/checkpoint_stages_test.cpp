// Activation checkpoints with sharded parameters. The second run gathers them again, at every stage and budget.
#include <gtest/gtest.h>

#include "zero/torch/activations/checkpoint.h"
#include "zero/torch/engine_control.h"
#include "zero/torch/meta/meta_trace.h"

#include "tests/torch/plain_run.h"
#include "tests/torch/subjects.h"

namespace zero {
namespace {

using tests::all_stages;
using tests::placement_of;
using tests::RunResult;
using tests::same_bits;
using tests::Subject;
using tests::TiedNet;
using Tensors = std::vector<torch::Tensor>;

constexpr int kSteps = 3;

enum class Kept : std::uint8_t { kAll, kInputsOfBlocks, kInputsOfAllBlocks, kInputsOfTheNet };

torch::Tensor block_by_block(TiedNet& net, torch::Tensor x, bool again) {
  for (std::size_t i = 0; i < net.blocks->size(); ++i) {
    const auto run = [&net, i](const Tensors& in) { return net.block(i).forward(in[0]); };
    x = again ? checkpoint(run, {x}) : run({x});
  }
  return x;
}

torch::Tensor loss_of(TiedNet& net, Kept kept, const torch::Tensor& tokens) {
  const auto blocks = [&net, kept](const Tensors& in) {
    return block_by_block(net, in[0], kept == Kept::kInputsOfBlocks || kept == Kept::kInputsOfAllBlocks);
  };
  if (kept == Kept::kInputsOfTheNet) {
    // The first operator of a step is inside the checkpoint, and no input needs a gradient.
    return checkpoint([&net](const Tensors& in) { return tests::next_token_loss(net.forward(in[0]), in[0]); },
                      {tokens});
  }
  torch::Tensor x = net.table(tokens);
  x = kept == Kept::kInputsOfAllBlocks ? checkpoint(blocks, {x}) : blocks({x});
  return tests::next_token_loss(torch::matmul(x * net.scale, net.table->weight.t()), tokens);
}

tests::MakeSubject subject(Kept kept) {
  return [kept] {
    auto net = std::make_shared<TiedNet>();
    return Subject{net, [net, kept](int step, int micro, int rank) {
                     return loss_of(*net, kept, tests::tokens_of(step, micro, rank));
                   }};
  };
}

void expect_same_bits(const RunResult& expected, const RunResult& seen, const std::string& where) {
  EXPECT_EQ(expected.loss_bits, seen.loss_bits) << where;
  EXPECT_EQ(expected.grad_norms, seen.grad_norms) << where;
  EXPECT_TRUE(same_bits(expected.parameters, seen.parameters)) << where;
  EXPECT_TRUE(same_bits(expected.given_back, seen.given_back)) << where;
}

class CheckpointStages : public ::testing::TestWithParam<Kept> {
 protected:
  static AttachOptions options() { return {.optimizer = AdamW{.lr = 1e-2, .weight_decay = 0.1}, .clip = 0.5}; }
};

TEST_P(CheckpointStages, MatchPlainLibtorchOnOneRank) {
  const RunResult plain = tests::train_plain(kSteps, options(), subject(Kept::kAll));
  for (const AttachOptions& placed : all_stages(options()))
    expect_same_bits(plain, tests::train(1, kSteps, placed, subject(GetParam())), placement_of(placed));
}

// The expected run has no activation checkpoints.
TEST_P(CheckpointStages, MatchKeptRunOnTwoRanks) {
  const RunResult without = tests::train(2, kSteps, options(), subject(Kept::kAll));
  for (const AttachOptions& placed : all_stages(options()))
    expect_same_bits(without, tests::train(2, kSteps, placed, subject(GetParam())), placement_of(placed));
}

TEST_P(CheckpointStages, ReplayTheirScheduleToTheByte) {
  for (const AttachOptions& placed : all_stages(options())) {
    const EngineReport report = tests::train(2, kSteps, placed, subject(GetParam())).reports[0];
    EXPECT_EQ(report.trace_mismatches, 0) << placement_of(placed);
    EXPECT_EQ(report.sent_bytes_per_step, report.planned_sent_bytes) << placement_of(placed);
    EXPECT_GT(report.sent_bytes_per_step, 0) << placement_of(placed);
  }
}

INSTANTIATE_TEST_SUITE_P(Kept, CheckpointStages,
                         ::testing::Values(Kept::kInputsOfBlocks, Kept::kInputsOfAllBlocks, Kept::kInputsOfTheNet),
                         [](const auto& info) {
                           return info.param == Kept::kInputsOfBlocks      ? "Blocks"
                                  : info.param == Kept::kInputsOfAllBlocks ? "BlocksInsideEachOther"
                                                                           : "TheWholeNet";
                         });

// The second run of a block is followed by its own backward pass. So the backward pass accesses the block once, as
// without a checkpoint.
TEST(CheckpointOfEachUnit, SendsNoByteMore) {
  AttachOptions options{.stage = 3, .device_memory = MemoryBudget::parse("min")};
  const auto sent = [&](Kept kept) {
    return tests::train(2, kSteps, options, subject(kept)).reports[0].sent_bytes_per_step;
  };
  EXPECT_EQ(sent(Kept::kInputsOfBlocks), sent(Kept::kAll));
  EXPECT_GT(sent(Kept::kInputsOfTheNet), sent(Kept::kAll)) << "all blocks run again before the last one's backward";
}

// `zero plan` shows the second run: it is in the trace, as a part of the backward pass.
TEST(CheckpointTrace, IsKnownBeforeMemoryIsTaken) {
  const auto traced = [](Kept kept) {
    const auto net = deferred([] { return std::make_shared<TiedNet>(); });
    const torch::Tensor tokens = torch::empty({2, 10}, torch::TensorOptions(torch::kLong).device(torch::kMeta));
    return trace_on_meta(*net, [&](int) { return loss_of(*net, kept, tokens); }).trace.events;
  };
  EXPECT_EQ(traced(Kept::kInputsOfBlocks), traced(Kept::kAll));
  const std::vector<Event> whole = traced(Kept::kInputsOfTheNet);
  EXPECT_GT(whole.size(), traced(Kept::kAll).size());
  tests::on_every_rank(1, [&](World& world) {
    const Subject real = subject(Kept::kInputsOfTheNet)();
    Engine engine = attach(*real.module, world, {.stage = 3});
    real.loss(0, 0, 0).backward();
    engine.step();
    std::vector<Event> recorded;
    for (const ScheduleEntry& entry : engine.control().schedule().entries) recorded.push_back(entry.event);
    EXPECT_EQ(recorded, whole);
  });
}

// With micro-batches, the next forward pass begins inside a checkpoint while the engine is still in the backward pass.
TEST(CheckpointOfTheWholeNet, IsForwardPassAfterBackward) {
  for (Reduce reduce : {Reduce::kEach, Reduce::kLast}) {
    AttachOptions options{.reduce = reduce, .accumulate = 3};
    const RunResult without = tests::train(2, kSteps, options, subject(Kept::kAll));
    for (const AttachOptions& placed : all_stages(options)) {
      const RunResult with = tests::train(2, kSteps, placed, subject(Kept::kInputsOfTheNet));
      expect_same_bits(without, with, placement_of(placed));
      EXPECT_EQ(with.reports[0].sent_bytes_per_step, with.reports[0].planned_sent_bytes) << placement_of(placed);
    }
  }
}

}  // namespace
}  // namespace zero
