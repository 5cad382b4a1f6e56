#include "zero/torch/attach.h"

#include <gtest/gtest.h>

#include "tests/torch/subjects.h"

namespace zero {
namespace {

using tests::all_stages;
using tests::RunResult;
using tests::tied_net;
using tests::train;

// All stages have the same bits.
TEST(Attach, StagesMatchInEveryWorld) {
  for (int world : {1, 2, 3}) {
    AttachOptions options{.optimizer = AdamW{.lr = 1e-2}, .clip = 0.5};
    std::vector<RunResult> results;
    for (const AttachOptions& stage : all_stages(options)) results.push_back(train(world, 4, stage, tied_net));
    for (std::size_t i = 1; i < results.size(); ++i) {
      EXPECT_EQ(results[0].loss_bits, results[i].loss_bits) << "world " << world << " placement " << i;
      EXPECT_EQ(results[0].grad_norms, results[i].grad_norms);
      EXPECT_TRUE(tests::same_bits(results[0].parameters, results[i].parameters));
      EXPECT_TRUE(tests::same_bits(results[0].given_back, results[i].given_back));
    }
  }
}

TEST(Attach, BudgetsDoNotChangeABit) {
  AttachOptions options{.stage = 3, .optimizer = AdamW{.lr = 1e-2}, .clip = 0.5};
  const RunResult reference = train(2, 4, options, tied_net);
  for (const char* memory : {"min", "16KiB"}) {
    options.device_memory = MemoryBudget::parse(memory);
    const RunResult result = train(2, 4, options, tied_net);
    EXPECT_EQ(reference.loss_bits, result.loss_bits) << memory;
    EXPECT_TRUE(tests::same_bits(reference.parameters, result.parameters)) << memory;
  }
}

TEST(Attach, Bf16StagesMatchWithMicroBatches) {
  for (Reduce reduce : {Reduce::kEach, Reduce::kLast}) {
    AttachOptions options{
        .optimizer = AdamW{.lr = 1e-2}, .clip = 0.5, .reduce = reduce, .accumulate = 3, .dtype = DType::kBFloat16};
    std::vector<RunResult> results;
    for (const AttachOptions& stage : all_stages(options)) results.push_back(train(2, 3, stage, tied_net));
    for (std::size_t stage = 1; stage < results.size(); ++stage) {
      EXPECT_EQ(results[0].loss_bits, results[stage].loss_bits) << "stage " << stage;
      EXPECT_TRUE(tests::same_bits(results[0].parameters, results[stage].parameters)) << "stage " << stage;
    }
  }
}

TEST(Attach, SendsWhatTheScheduleSays) {
  for (const AttachOptions& options : all_stages({.optimizer = AdamW{.lr = 1e-2}})) {
    const RunResult result = train(2, 4, options, tied_net);
    EXPECT_GT(result.reports[0].planned_sent_bytes, 0);
    EXPECT_EQ(result.reports[0].sent_bytes_per_step, result.reports[0].planned_sent_bytes) << "stage " << options.stage;
    EXPECT_EQ(result.reports[1].received_bytes_per_step, result.reports[0].planned_sent_bytes)
        << "stage " << options.stage;
  }
}

}  // namespace
}  // namespace zero
