// The adaptation to libtorch for a model on any device: on the CPU, or with ZERO_TEST_DEVICE=cuda on a GPU.
#include <bit>
#include <optional>

#include <gtest/gtest.h>

#include <ATen/autocast_mode.h>

#include "zero/torch/deferred/deferred.h"

#include "tests/support/temporary_folder.h"
#include "tests/torch/plain_run.h"
#include "tests/torch/subjects.h"
#include "tests/torch/test_place.h"

namespace zero {
namespace {

using tests::all_stages;
using tests::place;
using tests::RunResult;
using tests::same_bits;
using tests::Subject;
using tests::TiedNet;

std::string device_name() {
  return place().is_cpu() ? "cpu" : "cuda:0";
}

torch::Tensor tokens_of(int step, int micro, int rank) {
  return tests::tokens_of(step, micro, rank).to(place());
}

// The effect of `with torch.autocast(device)`. The outermost scope clears the cache of casts.
class CastsToBFloat16 {
 public:
  CastsToBFloat16() {
    at::autocast::set_autocast_dtype(place().type(), at::kBFloat16);
    at::autocast::set_autocast_enabled(place().type(), true);
    at::autocast::increment_nesting();
  }
  ~CastsToBFloat16() {
    if (at::autocast::decrement_nesting() == 0) at::autocast::clear_cache();
    at::autocast::set_autocast_enabled(place().type(), false);
  }
  CastsToBFloat16(const CastsToBFloat16&) = delete;
  CastsToBFloat16& operator=(const CastsToBFloat16&) = delete;
};

// Each block runs twice, so its second run finds the casts of the first run in the cache.
Subject cast_net(bool casts) {
  const auto net = std::make_shared<TiedNet>();
  net->to(place());
  return {net, [net, casts](int step, int micro, int rank) {
            thread_local const BackwardOnCaller one_thread(place());
            std::optional<CastsToBFloat16> scope;
            if (casts) scope.emplace();
            const torch::Tensor tokens = tokens_of(step, micro, rank);
            torch::Tensor x = net->table(tokens);
            for (int turn = 0; turn < 2; ++turn)
              for (std::size_t i = 0; i < net->blocks->size(); ++i) x = net->block(i).forward(x);
            return tests::next_token_loss(torch::matmul(x * net->scale, net->table->weight.t()), tokens);
          }};
}

Subject under_autocast() {
  return cast_net(/*casts=*/true);
}

TEST(Autocast, MatchesPlainLibtorchAtEachStage) {
  if (!place().is_cpu()) GTEST_SKIP() << "the plain run updates on the CPU";
  const AttachOptions options{.optimizer = AdamW{.lr = 1e-2}, .clip = 0.5, .accumulate = 2};
  const RunResult plain = tests::train_plain(3, options, under_autocast);
  EXPECT_NE(plain.loss_bits, tests::train_plain(3, options, [] { return cast_net(false); }).loss_bits);
  for (const AttachOptions& stage : all_stages(options)) {
    const RunResult run = tests::train(1, 3, stage, under_autocast);
    EXPECT_EQ(run.loss_bits, plain.loss_bits) << tests::placement_of(stage);
    EXPECT_EQ(run.grad_norms, plain.grad_norms) << tests::placement_of(stage);
    EXPECT_TRUE(same_bits(run.parameters, plain.parameters)) << tests::placement_of(stage);
  }
}

TEST(Autocast, StagesKeepBits) {
  const RunResult whole = tests::train(3, 3, {.stage = 0}, under_autocast);
  EXPECT_NE(whole.loss_bits, tests::train(3, 3, {.stage = 0}, [] { return cast_net(false); }).loss_bits);
  for (const AttachOptions& stage : all_stages({})) {
    const RunResult run = tests::train(3, 3, stage, under_autocast);
    EXPECT_EQ(run.loss_bits, whole.loss_bits) << tests::placement_of(stage);
    EXPECT_TRUE(same_bits(run.parameters, whole.parameters)) << tests::placement_of(stage);
  }
}

TEST(DeferredModule, IsBuiltWhereTheOptionsSay) {
  static_cast<void>(place());
  const auto deferred_net = [] {
    const auto net = deferred([] { return std::make_shared<TiedNet>(); }, /*seed=*/3);
    return Subject{net, [net](int step, int micro, int rank) {
                     thread_local const BackwardOnCaller one_thread(place());
                     const torch::Tensor tokens = tokens_of(step, micro, rank);
                     const torch::Tensor logits = net->forward(tokens);
                     EXPECT_EQ(logits.device(), place());
                     return tests::next_token_loss(logits, tokens);
                   }};
  };
  const RunResult whole = tests::train(2, 2, {.stage = 0, .device = device_name()}, deferred_net);
  for (AttachOptions stage : all_stages({})) {
    stage.device = device_name();
    const RunResult run = tests::train(2, 2, stage, deferred_net);
    EXPECT_EQ(run.loss_bits, whole.loss_bits) << tests::placement_of(stage);
    EXPECT_TRUE(same_bits(run.parameters, whole.parameters)) << tests::placement_of(stage);
  }
}

// libtorch's attention, and dropout with masks from libtorch's generator.
struct AttendingImpl : torch::nn::Module {
  AttendingImpl() : table(11, 16), qkv(16, 48), mixed(16, 16), drop(0.2) {
    register_module("table", table);
    register_module("qkv", qkv);
    register_module("mixed", mixed);
    register_module("drop", drop);
  }
  torch::Tensor forward(const torch::Tensor& tokens) {
    const torch::Tensor x = drop(table(tokens));
    const auto parts = qkv(x).reshape({x.size(0), x.size(1), 3, 2, 8}).permute({2, 0, 3, 1, 4}).unbind();
    const torch::Tensor seen = at::scaled_dot_product_attention(parts[0], parts[1], parts[2], {}, 0.0, true);
    return torch::matmul(x + drop(mixed(seen.transpose(1, 2).reshape(x.sizes()))), table->weight.t());
  }
  torch::nn::Embedding table;
  torch::nn::Linear qkv, mixed;
  torch::nn::Dropout drop;
};

// Trains steps `first` to `last`. Loads `from` first and saves `to` last, unless empty. Returns the bits of the losses
// and the last weights.
RunResult attend(int stage, int first, int last, const std::filesystem::path& from, const std::filesystem::path& to) {
  RunResult result;
  tests::on_every_rank(1, [&](World& world) {
    const BackwardOnCaller one_thread(place());
    torch::manual_seed(5);
    const auto net = std::make_shared<AttendingImpl>();
    net->to(place());
    Engine engine = attach(*net, world, {.stage = stage, .awaits_load = !from.empty()});
    if (!from.empty()) engine.load(from);
    for (int step = first; step < last; ++step) {
      const torch::Tensor tokens = tokens_of(step, 0, 0);
      const torch::Tensor loss = tests::next_token_loss(net->forward(tokens), tokens);
      loss.backward();
      engine.step(1e-2);
      result.loss_bits.push_back(std::bit_cast<std::uint32_t>(loss.item().toFloat()));
    }
    if (!to.empty()) engine.save(to);
    result.parameters = tests::weights_of(engine);
  });
  return result;
}

// Training continues from a checkpoint.
TEST(Dropout, ResumesAndMatchesAtEachStage) {
  const TemporaryFolder folder;
  const RunResult whole = attend(/*stage=*/0, 0, 4, {}, {});
  for (const int stage : {0, 1, 2, 3}) {
    const std::filesystem::path saved = folder.path() / std::to_string(stage);
    RunResult parts = attend(stage, 0, 2, {}, saved);
    const RunResult rest = attend(stage, 2, 4, saved, {});
    parts.loss_bits.insert(parts.loss_bits.end(), rest.loss_bits.begin(), rest.loss_bits.end());
    EXPECT_EQ(parts.loss_bits, whole.loss_bits) << stage;
    EXPECT_TRUE(same_bits(rest.parameters, whole.parameters)) << stage;
  }
}

}  // namespace
}  // namespace zero
