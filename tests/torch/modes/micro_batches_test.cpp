// Micro-batches of a module in the order of a pipeline.
#include <algorithm>
#include <deque>

#include <gtest/gtest.h>

#include "tests/torch/subjects.h"
#include "tests/torch/training_run.h"

namespace zero::tests {
namespace {

// Weights after two steps on two ranks. A forward pass runs at most `ahead` micro-batches before its backward pass.
std::vector<torch::Tensor> trained(AttachOptions options, int ahead) {
  options.accumulate = 4;
  std::vector<Subject> subjects;
  for (int rank = 0; rank < 2; ++rank) {
    torch::manual_seed(7);
    subjects.push_back(tied_net());
  }
  std::vector<torch::Tensor> weights;
  on_every_rank(2, [&](World& ranks) {
    Subject& subject = subjects[static_cast<std::size_t>(ranks.rank())];
    Engine engine = attach(tensors_of(*subject.module), ranks, options);
    for (int step = 0; step < 2; ++step) {
      std::deque<torch::Tensor> losses;
      int begun = 0;
      for (int micro = 0; micro < options.accumulate; ++micro) {
        for (; begun <= std::min(micro + ahead, options.accumulate - 1); ++begun) {
          if (ahead > 0) engine.begin_micro_batch(begun);
          losses.push_back(subject.loss(step, begun, ranks.rank()));
        }
        if (ahead > 0) engine.begin_micro_batch(micro);
        losses.front().backward();
        losses.pop_front();
      }
      engine.step(1e-2);
    }
    engine.for_each_parameter([&](const std::string&, const torch::Tensor& value) {
      if (ranks.rank() == 0) weights.push_back(value.clone());
    });
    EXPECT_EQ(engine.report().trace_mismatches, 0);
  });
  return weights;
}

TEST(MicroBatchesOfAModule, AnyPipelineOrderKeepsBits) {
  for (const AttachOptions& options : all_stages({}))
    for (const int ahead : {1, 3})
      EXPECT_TRUE(same_bits(trained(options, ahead), trained(options, 0))) << placement_of(options) << ", " << ahead;
}

}  // namespace
}  // namespace zero::tests
