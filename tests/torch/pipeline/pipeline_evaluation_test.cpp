#include "zero/torch/pipeline/pipeline_evaluation.h"

#include <mutex>

#include <gtest/gtest.h>

#include "zero/torch/pipeline/pipelined_module.h"

#include "tests/support/temporary_folder.h"
#include "tests/torch/pipeline/pipeline_run.h"
#include "tests/torch/subjects.h"

namespace zero {
namespace {

struct Evaluated {
  std::vector<double> losses;  // of one rank, before and after a step
  double after_load = 0;       // of the checkpoint after one step
  double continued = 0;        // and after one more step
};

Evaluated evaluate_around_a_step(World& world, int pipeline, const std::string& path, bool saves,
                                 const AttachOptions& options) {
  static std::mutex generator;  // ranks are threads that share libtorch's generator
  const tests::Subject subject = [] {
    const std::lock_guard lock(generator);
    torch::manual_seed(7);
    return tests::tied_net();
  }();
  PipelineEngine engine = attach_pipeline(*subject.module, world, options, {.pipeline = pipeline});
  const auto loss_of = [&](int micro) { return subject.loss(0, micro, 0); };
  engine.prepare(loss_of);
  const auto evaluate = [&] {
    const std::vector<torch::Tensor> found = engine.evaluate({1}, [&] {
      const torch::Tensor loss = subject.loss(3, 0, 0);
      return std::vector{loss, loss * 2, torch::ones({2}), torch::Tensor()};
    });
    EXPECT_EQ(found.at(1).item<double>(), 2 * found.at(0).item<double>());
    EXPECT_TRUE(torch::equal(found.at(2), torch::ones({2})));
    EXPECT_FALSE(found.at(3).defined());
    return found.at(0).item<double>();
  };
  Evaluated result;
  result.losses.push_back(evaluate());
  const auto step_once = [&] {
    engine.passes(loss_of, 2);
    engine.step(1e-2);
    return evaluate();
  };
  for (int step = 0; step < 2; ++step) {
    result.losses.push_back(step_once());
    if (step == 0 && saves) engine.save(path);
  }
  engine.load(path);
  result.after_load = evaluate();
  result.continued = step_once();
  return result;
}

void expect_equal_loads(const AttachOptions& options) {
  const TemporaryFolder folder;
  Evaluated plain;
  tests::on_every_rank(
      1, [&](World& world) { plain = evaluate_around_a_step(world, 1, folder / "plain", true, options); });
  EXPECT_EQ(plain.after_load, plain.losses.at(1));
  EXPECT_EQ(plain.continued, plain.losses.at(2));
  for (const int pipeline : {2, 3}) {
    SCOPED_TRACE(pipeline);
    const std::string path = folder / ("cut" + std::to_string(pipeline));
    tests::on_every_rank(pipeline, [&](World& world) {
      const Evaluated cut = evaluate_around_a_step(world, pipeline, path, true, options);
      EXPECT_EQ(cut.losses, plain.losses);
      EXPECT_EQ(cut.after_load, plain.losses.at(1));
      EXPECT_EQ(cut.continued, plain.losses.at(2));
    });
    // Without a pipeline, and in another number of sections.
    for (const int other : {1, 5 - pipeline})
      tests::on_every_rank(other, [&](World& world) {
        const Evaluated loaded = evaluate_around_a_step(world, other, path, false, options);
        EXPECT_EQ(loaded.after_load, plain.losses.at(1)) << other;
        EXPECT_EQ(loaded.continued, plain.losses.at(2)) << other;
      });
  }
}

TEST(PipelineEvaluation, LossesAndLoadsKeepBits) {
  expect_equal_loads({.stage = 2, .accumulate = 2});
}

// A file of such a checkpoint has the states of rows and columns of one section.
TEST(PipelineEvaluation, AdafactorLoadsKeepBits) {
  expect_equal_loads({.stage = 2, .optimizer = Adafactor{.lr = 1e-2}, .accumulate = 2});
}

// Rank 3, at the second position, loads a checkpoint of other weights.
TEST(PipelineReplicas, DifferingRankIsNamed) {
  const TemporaryFolder folder;
  const std::vector<std::string> paths{folder / "one", folder / "two"};
  std::vector<ReplicaCheck> found(4);
  tests::on_every_rank(4, [&](World& world) {
    torch::nn::Sequential net(torch::nn::Linear(4, 4), torch::nn::Linear(4, 4));
    PipelineEngine engine = attach_pipeline(*net, world, {.stage = 1}, {.pipeline = 2});
    const auto compare = [&] { return engine.module().compare_replicas(); };
    for (const std::string& path : paths) {
      engine.passes([&](int) { return net->forward(torch::ones({2, 4})).pow(2).mean(); });
      engine.step(1e-2);
      engine.save(path);
      const ReplicaCheck check = compare();
      EXPECT_TRUE(check.compared && check.same()) << check.describe();
    }
    engine.load(paths[world.rank() == 3 ? 0 : 1]);
    found[static_cast<std::size_t>(world.rank())] = compare();
  });
  for (const ReplicaCheck& check : found) {
    EXPECT_EQ(check.ranks, (std::vector{2, 3})) << "two ranks hold it, and either may be right";
    EXPECT_EQ(check.unit_name, "1");
  }
}

}  // namespace
}  // namespace zero
