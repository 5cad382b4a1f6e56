// Events outside a step's schedule: evaluation, another order of modules, operators that fail.
#include <set>

#include <gtest/gtest.h>

#include "tests/torch/subjects.h"

namespace zero {
namespace {

using tests::all_stages;
using tests::RunResult;
using tests::Subject;
using tests::TiedNet;

constexpr int kSteps = 5;

enum class Evaluation { kNone, kNoGrad, kInference };

torch::Tensor evaluate(TiedNet& net, Evaluation how) {
  const torch::Tensor tokens = tests::tokens_of(99, 0, 0);
  if (how == Evaluation::kInference) {
    const c10::InferenceMode mode;
    return net.forward(tokens).sum();
  }
  const torch::NoGradGuard mode;
  return net.forward(tokens).sum();
}

// Evaluates before the micro-batches for which `when` is true. Rank 0 adds the results to `values`.
tests::MakeSubject evaluating(Evaluation how, std::vector<float>& values,
                              const std::function<bool(int step, int micro)>& when) {
  return [how, &values, when] {
    auto net = std::make_shared<TiedNet>();
    return Subject{net, [net, how, &values, when](int step, int micro, int rank) {
                     if (how != Evaluation::kNone && when(step, micro)) {
                       const float value = evaluate(*net, how).item().toFloat();
                       if (rank == 0) values.push_back(value);
                     }
                     return loss_of(*net, step, micro, rank);
                   }};
  };
}

// An evaluation is no trace mismatch.
TEST(EvaluationBetweenSteps, ChangesNeitherBitsNorTraffic) {
  const auto between_steps = [](int step, int micro) { return step != 1 && micro == 0; };
  std::vector<float> none, first;
  for (const AttachOptions& options : all_stages({.clip = 0.5, .reduce = Reduce::kEach, .accumulate = 2})) {
    const RunResult without = tests::train(2, kSteps, options, evaluating(Evaluation::kNone, none, between_steps));
    for (Evaluation how : {Evaluation::kNoGrad, Evaluation::kInference}) {
      std::vector<float> values;
      const RunResult with = tests::train(2, kSteps, options, evaluating(how, values, between_steps));
      EXPECT_EQ(without.loss_bits, with.loss_bits) << tests::placement_of(options);
      EXPECT_TRUE(tests::same_bits(without.parameters, with.parameters)) << tests::placement_of(options);
      EXPECT_EQ(with.reports[0].trace_mismatches, 0) << tests::placement_of(options);
      EXPECT_EQ(with.reports[0].sent_bytes_per_step, without.reports[0].sent_bytes_per_step)
          << tests::placement_of(options);
      if (first.empty()) first = values;
      EXPECT_EQ(first, values) << "evaluation itself: " << tests::placement_of(options);
    }
  }
}

TEST(EvaluationBetweenMicroBatches, ChangesNoBit) {
  const auto inside = [](int, int micro) { return micro == 1; };
  std::vector<float> values;
  for (const AttachOptions& options : all_stages({.clip = 0.5, .reduce = Reduce::kEach, .accumulate = 3})) {
    const RunResult without = tests::train(2, kSteps, options, evaluating(Evaluation::kNone, values, inside));
    const RunResult with = tests::train(2, kSteps, options, evaluating(Evaluation::kNoGrad, values, inside));
    EXPECT_EQ(without.loss_bits, with.loss_bits) << tests::placement_of(options);
    EXPECT_TRUE(tests::same_bits(without.parameters, with.parameters)) << tests::placement_of(options);
  }
}

// In the given steps the blocks run in another order.
tests::MakeSubject reordered(const std::set<int>& steps) {
  return [steps] {
    auto net = std::make_shared<TiedNet>();
    return Subject{net, [net, steps](int step, int micro, int rank) {
                     if (!steps.contains(step)) return loss_of(*net, step, micro, rank);
                     const torch::Tensor tokens = tests::tokens_of(step, micro, rank);
                     torch::Tensor x = net->table(tokens);
                     for (std::size_t i : {2, 0, 1, 0}) x = net->block(i).forward(x);
                     return tests::next_token_loss(torch::matmul(x, net->table->weight.t()), tokens);
                   }};
  };
}

// Bit for bit.
TEST(TraceMismatch, MatchesStageZeroAndIsCounted) {
  for (int world : {2, 3}) {
    std::vector<RunResult> runs;
    for (const AttachOptions& options : all_stages({.clip = 0.5})) {
      runs.push_back(tests::train(world, kSteps, options, reordered({2, 3})));
      EXPECT_EQ(runs.front().loss_bits, runs.back().loss_bits) << tests::placement_of(options);
      EXPECT_EQ(runs.front().grad_norms, runs.back().grad_norms) << tests::placement_of(options);
      EXPECT_TRUE(tests::same_bits(runs.front().parameters, runs.back().parameters)) << tests::placement_of(options);
      // Step 2 departs from the recorded order and is recorded. Step 4 departs from the order of step 2.
      EXPECT_EQ(runs.back().reports[0].trace_mismatches, 2) << tests::placement_of(options);
    }
  }
}

// An operator fails inside the forward pass.
TEST(TraceMismatch, FailedForwardKeepsEngineUsable) {
  const auto make = [](bool failing) {
    return [failing] {
      auto net = std::make_shared<TiedNet>();
      return Subject{net, [net, failing](int step, int micro, int rank) {
                       if (failing && step == 1) {
                         const torch::Tensor x = net->block(0).forward(net->table(tests::tokens_of(0, 0, 0)));
                         EXPECT_THROW(net->block(1).up(x.narrow(-1, 0, 3)), c10::Error);
                         EXPECT_THROW(torch::cat({net->block(2).up->weight, net->scale.expand({3})}, 1), c10::Error);
                       }
                       return loss_of(*net, step, micro, rank);
                     }};
    };
  };
  for (const AttachOptions& options : all_stages({.clip = 0.5})) {
    const RunResult expected = tests::train(2, kSteps, options, make(false));
    const RunResult seen = tests::train(2, kSteps, options, make(true));
    EXPECT_EQ(expected.loss_bits, seen.loss_bits) << tests::placement_of(options);
    EXPECT_TRUE(tests::same_bits(expected.parameters, seen.parameters)) << tests::placement_of(options);
  }
}

TEST(TraceMismatch, FailedBackwardKeepsEngineUsable) {
  // A user's hook throws in the middle of the first backward pass. The step then continues without that pass.
  const auto make = [] {
    auto net = std::make_shared<TiedNet>();
    return Subject{
        net, [net](int step, int micro, int rank) {
          if (step == 1) {
            const torch::Tensor x = net->block(0).forward(net->table(tests::tokens_of(0, 0, 0)));
            x.register_hook([](const torch::Tensor&) -> torch::Tensor { throw std::runtime_error("the user's own"); });
            EXPECT_THROW(net->block(2).forward(x).sum().backward(), std::runtime_error);
          }
          return loss_of(*net, step, micro, rank);
        }};
  };
  std::vector<RunResult> runs;
  for (const AttachOptions& options : all_stages({.clip = 0.5})) {
    runs.push_back(tests::train(2, kSteps, options, make));
    EXPECT_EQ(runs.front().loss_bits, runs.back().loss_bits) << tests::placement_of(options);
    EXPECT_TRUE(tests::same_bits(runs.front().parameters, runs.back().parameters)) << tests::placement_of(options);
  }
}

}  // namespace
}  // namespace zero
