// Random numbers in a pipeline: dropout and noise have the bits of a run without one, also in activation checkpoints.
#include <cstring>

#include <gtest/gtest.h>

#include <c10/core/CPUAllocator.h>

#include "zero/torch/activations/checkpoint.h"
#include "zero/torch/deferred/surroundings.h"

#include "tests/torch/pipeline/own_processes.h"
#include "tests/torch/pipeline/pipeline_run.h"

namespace zero {
namespace {

using tests::expect_same_bits;
using tests::PipelinedRun;
using tests::Subject;
using tests::train_pipelined;

// Fills the memory of new tensors with bytes that are NaN as numbers, so a read of uninitialised memory is noticed.
class NanAllocator final : public c10::Allocator {
 public:
  NanAllocator() : before_(c10::GetCPUAllocator()) { c10::SetCPUAllocator(this, /*priority=*/255); }
  ~NanAllocator() override { c10::SetCPUAllocator(before_, /*priority=*/255); }
  NanAllocator(const NanAllocator&) = delete;
  NanAllocator& operator=(const NanAllocator&) = delete;

  c10::DataPtr allocate(std::size_t bytes) override {
    c10::DataPtr memory = before_->allocate(bytes);
    if (bytes > 0) std::memset(memory.mutable_get(), 0xFF, bytes);
    return memory;
  }
  c10::DeleterFnPtr raw_deleter() const override { return before_->raw_deleter(); }
  void copy_data(void* to, const void* from, std::size_t bytes) const override { std::memcpy(to, from, bytes); }

 private:
  c10::Allocator* before_;
};

// Each block drops activations within an activation checkpoint. The loss adds noise with the result's layout, noise by
// probabilities that the last section computes, and noise that every rank draws.
struct RandomNet : torch::nn::Module {
  RandomNet() {
    register_module("blocks", blocks);
    for (int i = 0; i < 4; ++i) blocks->push_back(torch::nn::Linear(6, 6));
  }
  torch::Tensor forward(torch::Tensor x) {
    for (const auto& block : *blocks) {
      const auto run = [&](const std::vector<at::Tensor>& in) {
        return torch::dropout(torch::tanh(block->as<torch::nn::LinearImpl>()->forward(in[0])), 0.3, is_training());
      };
      x = torch::dropout(zero::checkpoint(std::function<at::Tensor(const std::vector<at::Tensor>&)>(run), {x}), 0.2,
                         is_training());
    }
    const torch::Tensor chance = torch::sigmoid(x).detach();
    const torch::Tensor mask = torch::bernoulli(chance) + torch::zeros_like(chance).bernoulli_(chance);
    return x + 0.1 * torch::rand_like(x) + 0.1 * torch::randn({6}) + 0.1 * mask;
  }
  torch::nn::ModuleList blocks;
};

Subject random_net() {
  auto net = std::make_shared<RandomNet>();
  return {net, [net](int step, int micro, int) {
            const torch::Tensor x = (torch::arange(24) * (step + 2) + micro).remainder(7).to(torch::kFloat) / 4 - 1;
            return torch::mse_loss(net->forward(x.view({4, 6})), torch::ones({4, 6}));
          }};
}

TEST(PipelineRank, DrawsKeepBits) {
  const std::optional<int> rank = tests::rank_of_process();
  if (!rank) GTEST_SKIP() << "is a rank of PipelineDraws.KeepBits";
  torch::set_num_threads(1);
  const AttachOptions options{.stage = 1, .accumulate = 4};
  const PipelinedRun plain = train_pipelined(1, 4, options, {.pipeline = 1}, random_net);
  const at::Tensor ends = generator_state();
  World world = tests::world_of_process(2);
  const NanAllocator allocator;
  for (const PipelineOptions& pipeline :
       {PipelineOptions{.pipeline = 2}, PipelineOptions{.pipeline = 2, .schedule = PassOrder::kGpipe},
        PipelineOptions{.pipeline = 2, .schedule = PassOrder::kZbV}}) {
    SCOPED_TRACE(name_of(pipeline.schedule));
    torch::manual_seed(7 + *rank);  // only rank 0's numbers count
    Subject subject = random_net();
    expect_same_bits(tests::train_rank(world, subject, 4, options, pipeline), plain);
    EXPECT_TRUE(torch::equal(generator_state(), ends)) << "the program's next numbers";
  }
}

TEST(PipelineDraws, KeepBits) {
  tests::expect_processes_pass(2, "PipelineRank.DrawsKeepBits");
}

}  // namespace
}  // namespace zero
