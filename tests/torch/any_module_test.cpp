// Any unmodified module has the same gradients, losses and updates at every stage as in an unsharded run, bit for bit.
#include <deque>

#include <gtest/gtest.h>

#include "tests/torch/foreign_modules.h"
#include "tests/torch/plain_run.h"
#include "tests/torch/subjects.h"

namespace zero {
namespace {

using tests::all_stages;
using tests::ForeignModule;
using tests::RunResult;
using tests::Subject;

constexpr int kSteps = 4;
const AttachOptions kOptions{.optimizer = AdamW{.lr = 1e-2, .weight_decay = 0.1}, .clip = 0.5};

// Gradients that autograd gave each parameter, in order, as recorded by torch's own tensor hooks.
using GradientLog = std::vector<std::vector<torch::Tensor>>;  // by parameter

struct Observed {
  RunResult run;
  std::deque<GradientLog> gradients;  // by rank
};

tests::MakeSubject listening(const tests::MakeSubject& make, std::deque<GradientLog>& logs) {
  return [&make, &logs] {
    Subject subject = make();
    const std::vector<torch::Tensor> parameters = subject.module->parameters();
    GradientLog& log = logs.emplace_back(parameters.size());
    for (std::size_t i = 0; i < parameters.size(); ++i) {
      if (!parameters[i].requires_grad()) continue;
      parameters[i].register_hook([&log, i](const torch::Tensor& gradient) {
        log[i].push_back((gradient.is_sparse() ? gradient.to_dense() : gradient).detach().clone());
      });
    }
    return subject;
  };
}

Observed observe(int world, const AttachOptions& options, const tests::MakeSubject& make) {
  Observed seen;
  seen.run = tests::train(world, kSteps, options, listening(make, seen.gradients));
  return seen;
}

Observed observe_plain(const tests::MakeSubject& make) {
  Observed seen;
  seen.run = tests::train_plain(kSteps, kOptions, listening(make, seen.gradients));
  return seen;
}

void expect_same_bits(const Observed& expected, const Observed& seen, const std::string& where) {
  EXPECT_EQ(expected.run.loss_bits, seen.run.loss_bits) << where;
  EXPECT_EQ(expected.run.grad_norms, seen.run.grad_norms) << where;
  EXPECT_TRUE(tests::same_bits(expected.run.parameters, seen.run.parameters)) << where;
  EXPECT_TRUE(tests::same_bits(expected.run.given_back, seen.run.given_back)) << where;
  ASSERT_EQ(expected.gradients.size(), seen.gradients.size()) << where;
  for (std::size_t rank = 0; rank < expected.gradients.size(); ++rank) {
    for (std::size_t i = 0; i < expected.gradients[rank].size(); ++i) {
      EXPECT_TRUE(tests::same_bits(expected.gradients[rank][i], seen.gradients[rank][i]))
          << where << ", rank " << rank << ", parameter " << i;
    }
  }
}

class AnyModule : public ::testing::TestWithParam<ForeignModule> {};

// At every stage.
TEST_P(AnyModule, OneRankMatchesPlainLibtorch) {
  const Observed plain = observe_plain(GetParam().make);
  EXPECT_GT(plain.run.grad_norms.front(), 0.0) << "a model that does not learn proves nothing";
  for (const AttachOptions& options : all_stages(kOptions))
    expect_same_bits(plain, observe(1, options, GetParam().make), tests::placement_of(options));
}

TEST_P(AnyModule, StagesAreEqualInEveryWorld) {
  for (int world : {2, 3}) {
    std::vector<Observed> seen;
    for (const AttachOptions& options : all_stages(kOptions)) {
      seen.push_back(observe(world, options, GetParam().make));
      expect_same_bits(seen.front(), seen.back(), tests::placement_of(options) + ", world " + std::to_string(world));
    }
  }
}

// The run departs from the schedule only if the module does not repeat its operators.
TEST_P(AnyModule, SendsItsSchedule) {
  for (const AttachOptions& options : all_stages(kOptions)) {
    const EngineReport report = tests::train(2, kSteps, options, GetParam().make).reports[0];
    EXPECT_EQ(report.trace_mismatches == 0, GetParam().same_every_step) << tests::placement_of(options);
    if (report.trace_mismatches > 0) continue;
    EXPECT_EQ(report.sent_bytes_per_step, report.planned_sent_bytes) << tests::placement_of(options);
  }
}

INSTANTIATE_TEST_SUITE_P(Foreign, AnyModule, ::testing::ValuesIn(tests::foreign_modules()),
                         [](const auto& info) { return info.param.name; });

// The plain loop writes SGD with torch's operators.
TEST(PlainLoop, OperatorSgdKeepsBits) {
  constexpr double kLr = 1e-2;
  torch::set_num_threads(1);
  torch::manual_seed(7);
  Subject plain = tests::tied_net();
  for (int step = 0; step < kSteps; ++step) {
    plain.loss(step, 0, 0).backward();
    const torch::NoGradGuard no_gradients;
    for (torch::Tensor& parameter : plain.module->parameters()) {
      parameter.copy_(parameter + parameter.grad() * -kLr);
      parameter.mutable_grad().reset();
    }
  }
  for (const AttachOptions& options : all_stages({.optimizer = Sgd{.lr = kLr}})) {
    const RunResult run = tests::train(1, kSteps, options, tests::tied_net, kLr);
    EXPECT_TRUE(tests::same_bits(run.given_back, plain.module->parameters())) << tests::placement_of(options);
  }
}

TEST(PlainLoop, Bf16WithMasterKeepsBits) {
  AttachOptions options = kOptions;
  options.dtype = DType::kBFloat16;
  const RunResult plain = tests::train_plain(kSteps, options, tests::tied_net);
  for (const AttachOptions& placed : all_stages(options)) {
    const RunResult run = tests::train(1, kSteps, placed, tests::tied_net);
    EXPECT_EQ(plain.loss_bits, run.loss_bits) << tests::placement_of(placed);
    EXPECT_EQ(plain.grad_norms, run.grad_norms) << tests::placement_of(placed);
    EXPECT_TRUE(tests::same_bits(plain.parameters, run.parameters)) << tests::placement_of(placed);
    EXPECT_TRUE(tests::same_bits(plain.given_back, run.given_back)) << tests::placement_of(placed);
  }
}

TEST(PlainLoop, Fp32MicroBatchesKeepBits) {
  AttachOptions options = kOptions;
  options.accumulate = 3;
  const RunResult plain = tests::train_plain(kSteps, options, tests::tied_net);
  for (Reduce reduce : {Reduce::kEach, Reduce::kLast}) {
    options.reduce = reduce;
    for (const AttachOptions& placed : all_stages(options)) {
      const RunResult run = tests::train(1, kSteps, placed, tests::tied_net);
      EXPECT_EQ(plain.loss_bits, run.loss_bits) << tests::placement_of(placed);
      EXPECT_TRUE(tests::same_bits(plain.parameters, run.parameters)) << tests::placement_of(placed);
    }
  }
}

TEST(Buffers, StartFromRankZeroStayLocal) {
  std::vector<torch::Tensor> started(2), ended(2);
  std::vector<std::shared_ptr<tests::BatchNormNet>> nets;
  for (int rank = 0; rank < 2; ++rank) {
    nets.push_back(std::make_shared<tests::BatchNormNet>());
    nets.back()->norm->running_mean.fill_(rank + 1.0);
  }
  tests::on_every_rank(2, [&](World& ranks) {
    const auto rank = static_cast<std::size_t>(ranks.rank());
    Subject subject = tests::subject_of(nets[rank], {3, 3, 6});
    Engine engine = attach(*subject.module, ranks, kOptions);
    started[rank] = nets[rank]->norm->running_mean.clone();
    subject.loss(0, 0, ranks.rank()).backward();
    engine.step();
    ended[rank] = nets[rank]->norm->running_mean.clone();
  });
  EXPECT_TRUE(torch::equal(started[0], torch::ones({4})));
  EXPECT_TRUE(torch::equal(started[1], torch::ones({4})));
  EXPECT_FALSE(torch::equal(ended[0], ended[1])) << "each rank saw other data";
}

}  // namespace
}  // namespace zero
