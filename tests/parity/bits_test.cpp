// Law 2 in one program: the whole matrix of stages, types, micro-batches, worlds and budgets, over in_process.
//
// For each (world, type, accumulate, reduce), every stage and budget has the loss bits, gradient norms and parameters
// of stage 0. Stage 0 on one rank has those of a loop in plain libtorch.
#include <gtest/gtest.h>

#include "app/models/gpt2.h"
#include "tests/torch/plain_run.h"
#include "tests/torch/subjects.h"

namespace zero {
namespace {

using tests::RunResult;
using tests::Subject;

constexpr int kSteps = 3;

// A small GPT-2 of zero train: 14 tied and untied parameters per block, with sizes that 3 ranks do not divide.
Subject small_gpt2() {
  Gpt2 net(Gpt2Options{.layers = 2, .width = 12, .heads = 2, .context = 10, .vocab = 11});
  return {net.ptr(), [net](int step, int micro, int rank) mutable {
            const torch::Tensor tokens = tests::tokens_of(step, micro, rank);
            return tests::next_token_loss(net->forward(tokens), tokens);
          }};
}

struct Cell {
  int world = 1;
  DType dtype = DType::kFloat32;
  int accumulate = 1;
  Reduce reduce = Reduce::kEach;
};

std::string_view name_of(Reduce reduce) {
  return reduce == Reduce::kAuto ? "" : reduce == Reduce::kEach ? "Each" : "Last";
}

std::string upper_name_of(DType dtype) {
  return dtype == DType::kFloat32 ? "Fp32" : dtype == DType::kBFloat16 ? "Bf16" : "Fp16";
}

std::string describe(const Cell& cell) {
  std::string name = "World" + std::to_string(cell.world) + upper_name_of(cell.dtype);
  if (cell.accumulate > 1) name += "Accumulate" + std::to_string(cell.accumulate) + std::string(name_of(cell.reduce));
  return name;
}

std::vector<Cell> cells() {
  std::vector<Cell> all;
  for (int world : {1, 2, 3, 4}) {
    for (DType dtype : {DType::kFloat32, DType::kBFloat16}) {
      all.push_back({world, dtype});
      all.push_back({world, dtype, 2, Reduce::kAuto});  // the default for users
      all.push_back({world, dtype, 3, Reduce::kEach});
      all.push_back({world, dtype, 3, Reduce::kLast});
    }
    // Each world has one fp16 cell, each with another way to accumulate.
    all.push_back({world, DType::kFloat16, 1 + world % 3, world == 4 ? Reduce::kLast : Reduce::kEach});
  }
  return all;
}

AttachOptions options_of(const Cell& cell, int stage) {
  std::optional<LossScaleOptions> loss_scale;
  if (cell.dtype == DType::kFloat16) loss_scale = LossScaleOptions::fixed(1024);
  return {.stage = stage,
          .optimizer = AdamW{.lr = 1e-2, .weight_decay = 0.1},
          .clip = 0.5,
          .reduce = cell.reduce,
          .accumulate = cell.accumulate,
          .dtype = cell.dtype,
          .loss_scale = loss_scale};
}

void expect_same_bits(const RunResult& expected, const RunResult& seen, const std::string& where) {
  EXPECT_EQ(expected.loss_bits, seen.loss_bits) << where;
  EXPECT_EQ(expected.grad_norms, seen.grad_norms) << where;
  EXPECT_TRUE(tests::same_bits(expected.parameters, seen.parameters)) << where;
  EXPECT_TRUE(tests::same_bits(expected.given_back, seen.given_back)) << where;
}

class Bits : public ::testing::TestWithParam<Cell> {};

// The bits are equal at every stage and budget.
TEST_P(Bits, MatchStageZeroEverywhere) {
  const auto run = [](const AttachOptions& options) {
    return tests::train(GetParam().world, kSteps, options, small_gpt2);
  };
  const RunResult reference = run(options_of(GetParam(), 0));
  EXPECT_EQ(reference.reports[0].skipped_steps, 0);
  for (int stage : {1, 2, 3})
    expect_same_bits(reference, run(options_of(GetParam(), stage)), "stage " + std::to_string(stage) + ", auto");

  AttachOptions options = options_of(GetParam(), 3);
  options.device_memory = MemoryBudget::parse("min");
  const RunResult minimum = run(options);
  expect_same_bits(reference, minimum, "stage 3, min");

  const EngineReport whole = run(options_of(GetParam(), 3)).reports[0];
  const std::int64_t minimum_peak = minimum.reports[0].peak_memory_bytes.device;
  ASSERT_LT(minimum_peak, whole.peak_memory_bytes.device);
  options.device_memory = {MemoryBudget::Kind::kBytes, (minimum_peak + whole.peak_memory_bytes.device) / 2};
  const RunResult half = run(options);
  expect_same_bits(reference, half, "stage 3, half");
  EXPECT_LT(half.reports[0].peak_memory_bytes.device, whole.peak_memory_bytes.device)
      << "half the budget must lower the peak";
}

INSTANTIATE_TEST_SUITE_P(Matrix, Bits, ::testing::ValuesIn(cells()),
                         [](const auto& info) { return describe(info.param); });

TEST(BitsOfOneRank, AreThoseOfPlainLibtorch) {
  for (const Cell& cell :
       {Cell{}, Cell{.accumulate = 3, .reduce = Reduce::kEach}, Cell{.accumulate = 3, .reduce = Reduce::kLast},
        Cell{.dtype = DType::kBFloat16}, Cell{.dtype = DType::kFloat16}}) {
    const AttachOptions options = options_of(cell, 0);
    expect_same_bits(tests::train_plain(kSteps, options, small_gpt2), tests::train(1, kSteps, options, small_gpt2),
                     describe(cell));
  }
}

}  // namespace
}  // namespace zero
