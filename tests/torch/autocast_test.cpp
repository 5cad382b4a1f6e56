// A model that computes under autocast: attach() keeps its fp32 parameters, and operators cast what they gather, as they cast a plain
// module's parameters.
#include <gtest/gtest.h>

#include <ATen/autocast_mode.h>

#include "plain_run.h"
#include "subjects.h"

namespace zero {
namespace {

using tests::all_stages;
using tests::RunResult;
using tests::same_bits;
using tests::TiedNet;

// What `with torch.autocast("cpu")` does; the outermost one ends the cache of casts.
class CastsToBFloat16 {
 public:
  CastsToBFloat16() {
    at::autocast::set_autocast_enabled(at::kCPU, true);
    at::autocast::increment_nesting();
  }
  ~CastsToBFloat16() {
    if (at::autocast::decrement_nesting() == 0) at::autocast::clear_cache();
    at::autocast::set_autocast_enabled(at::kCPU, false);
  }
  CastsToBFloat16(const CastsToBFloat16&) = delete;
  CastsToBFloat16& operator=(const CastsToBFloat16&) = delete;
};

// Each block computes twice, so that the second time finds the cast of the first.
tests::Subject cast_net() {
  auto net = std::make_shared<TiedNet>();
  return {net, [net](int step, int micro, int rank) {
            const CastsToBFloat16 casts;
            const torch::Tensor tokens = tests::tokens_of(step, micro, rank);
            torch::Tensor x = net->table(tokens);
            for (int turn = 0; turn < 2; ++turn)
              for (std::size_t i = 0; i < net->blocks->size(); ++i) x = net->block(i).forward(x);
            return tests::next_token_loss(torch::matmul(x * net->scale, net->table->weight.t()), tokens);
          }};
}

TEST(Autocast, AModuleTrainsUnderItWithTheBitsOfPlainLibtorchAtEachStage) {
  const AttachOptions options{.optimizer = AdamW{.lr = 1e-2}, .clip = 0.5, .accumulate = 2};
  const RunResult plain = tests::train_plain(3, options, cast_net);
  EXPECT_NE(plain.loss_bits, tests::train_plain(3, options, tests::tied_net).loss_bits);
  for (const AttachOptions& stage : all_stages(options)) {
    const RunResult run = tests::train(1, 3, stage, cast_net);
    EXPECT_EQ(run.loss_bits, plain.loss_bits) << tests::placement_of(stage);
    EXPECT_EQ(run.grad_norms, plain.grad_norms) << tests::placement_of(stage);
    EXPECT_TRUE(same_bits(run.parameters, plain.parameters)) << tests::placement_of(stage);
  }
}

TEST(Autocast, StagesAgreeOnSeveralRanks) {
  const RunResult whole = tests::train(3, 3, {.stage = 0}, cast_net);
  for (const AttachOptions& stage : all_stages({})) {
    const RunResult run = tests::train(3, 3, stage, cast_net);
    EXPECT_EQ(run.loss_bits, whole.loss_bits) << tests::placement_of(stage);
    EXPECT_TRUE(same_bits(run.parameters, whole.parameters)) << tests::placement_of(stage);
  }
}

}  // namespace
}  // namespace zero
