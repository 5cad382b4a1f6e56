// Law 2 for activation checkpoints: a gpt2 recomputes its blocks in the backward pass. It has the loss bits, gradient
// norms and parameters of a gpt2 that keeps all activations, at every stage and budget.
#include <gtest/gtest.h>

#include "app/models/gpt2.h"
#include "tests/torch/plain_run.h"
#include "tests/torch/subjects.h"

namespace zero {
namespace {

using tests::RunResult;
using tests::Subject;

constexpr int kSteps = 3;

struct Cell {
  int world = 1;
  DType dtype = DType::kFloat32;
  int accumulate = 1;
  Reduce reduce = Reduce::kEach;
  double dropout = 0;  // only on one rank, because thread ranks share a generator
};

std::string upper_name_of(DType dtype) {
  return dtype == DType::kFloat32 ? "Fp32" : dtype == DType::kBFloat16 ? "Bf16" : "Fp16";
}

std::string describe(const Cell& cell) {
  std::string name = "World" + std::to_string(cell.world) + upper_name_of(cell.dtype);
  if (cell.accumulate > 1)
    name += "Accumulate" + std::to_string(cell.accumulate) + (cell.reduce == Reduce::kEach ? "Each" : "Last");
  return name + (cell.dropout > 0 ? "Dropout" : "");
}

std::vector<Cell> cells() {
  std::vector<Cell> all;
  for (int world : {1, 2, 3}) {
    if (world == 2) all.push_back({world, DType::kFloat16, 3, Reduce::kEach});
    for (DType dtype : {DType::kFloat32, DType::kBFloat16}) {
      all.push_back({world, dtype});
      all.push_back({world, dtype, 3, Reduce::kEach});
      all.push_back({world, dtype, 3, Reduce::kLast});
      if (world == 1) all.push_back({world, dtype, 3, Reduce::kEach, 0.2});
    }
  }
  return all;
}

Subject small_gpt2(double dropout, bool checkpoint) {
  Gpt2 net(Gpt2Options{
      .layers = 3, .width = 12, .heads = 2, .context = 10, .vocab = 11, .dropout = dropout, .checkpoint = checkpoint});
  return {net.ptr(), [net](int step, int micro, int rank) mutable {
            const torch::Tensor tokens = tests::tokens_of(step, micro, rank);
            return tests::next_token_loss(net->forward(tokens).to(torch::kFloat), tokens);
          }};
}

RunResult run(const Cell& cell, const AttachOptions& options, bool checkpoint) {
  return tests::train(cell.world, kSteps, options, [&] { return small_gpt2(cell.dropout, checkpoint); });
}

class CheckpointBits : public ::testing::TestWithParam<Cell> {};

TEST_P(CheckpointBits, MatchRunThatKeepsEverything) {
  const Cell& cell = GetParam();
  std::optional<LossScaleOptions> loss_scale;
  if (cell.dtype == DType::kFloat16) loss_scale = LossScaleOptions{.value = 2048};
  const AttachOptions options{.optimizer = AdamW{.lr = 1e-2, .weight_decay = 0.1},
                              .clip = 0.5,
                              .reduce = cell.reduce,
                              .accumulate = cell.accumulate,
                              .dtype = cell.dtype,
                              .loss_scale = loss_scale};
  for (const AttachOptions& placed : tests::all_stages(options)) {
    const std::string where = tests::placement_of(placed);
    const RunResult without = run(cell, placed, false), with = run(cell, placed, true);
    EXPECT_EQ(without.loss_bits, with.loss_bits) << where;
    EXPECT_EQ(without.grad_norms, with.grad_norms) << where;
    EXPECT_TRUE(tests::same_bits(without.parameters, with.parameters)) << where;
    EXPECT_TRUE(tests::same_bits(without.given_back, with.given_back)) << where;
    EXPECT_EQ(without.reports[0].sent_bytes_per_step, with.reports[0].sent_bytes_per_step) << where;
    EXPECT_GT(with.grad_norms.front(), 0) << where;
    EXPECT_EQ(with.reports[0].trace_mismatches, 0) << where;
  }
}

INSTANTIATE_TEST_SUITE_P(Matrix, CheckpointBits, ::testing::ValuesIn(cells()),
                         [](const auto& info) { return describe(info.param); });

}  // namespace
}  // namespace zero
