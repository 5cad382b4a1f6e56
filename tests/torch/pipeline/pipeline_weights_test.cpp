// Weights that a pipeline gives away: moving averages within a scope, and exported files. They have the bits of no
// pipeline.
#include <map>
#include <mutex>
#include <string>

#include <gtest/gtest.h>

#include "zero/base/files/file.h"
#include "zero/torch/pipeline/attach_pipeline.h"

#include "tests/support/message_of.h"
#include "tests/support/temporary_folder.h"
#include "tests/torch/pipeline/pipeline_run.h"
#include "tests/torch/subjects.h"

namespace zero {
namespace {

using Weights = std::map<std::string, torch::Tensor>;

// What a run of three steps shows before, inside and after averaged().
struct Seen {
  Weights before, averages, after;
  double loss = 0;  // evaluated inside the scope
  std::string weights_file, averages_file;
};

Seen train(int world, const AttachOptions& options, const PipelineOptions& pipeline,
           const tests::MakeSubject& make = tests::tied_net) {
  const TemporaryFolder folder;
  std::vector<tests::Subject> subjects;
  for (int rank = 0; rank < world; ++rank) {
    torch::manual_seed(7 + rank);
    subjects.push_back(make());
  }
  Seen seen;
  tests::on_every_rank(world, [&](World& ranks) {
    const tests::Subject& subject = subjects[static_cast<std::size_t>(ranks.rank())];
    const int line = ranks.rank() % (world / pipeline.pipeline);
    PipelineEngine engine = attach_pipeline(*subject.module, ranks, options, pipeline);
    const auto step = [&](int number) {
      engine.passes([&](int micro) { return subject.loss(number, micro, line); }, options.accumulate);
      engine.step(1e-2);
    };
    const auto weights = [&] {
      Weights found;
      engine.for_each_parameter(
          [&](const std::string& name, const torch::Tensor& value) { found[name] = value.clone(); },
          /*full_precision=*/true);
      return found;
    };
    for (int number = 0; number < 3; ++number) step(number);
    Seen mine{.before = weights(), .averages = {}, .after = {}, .weights_file = {}, .averages_file = {}};
    engine.export_weights(folder / "weights");
    {
      const auto scope = engine.averaged();
      mine.averages = weights();
      mine.loss = engine.evaluate([&] { return std::vector{subject.loss(7, 0, 0)}; }).at(0).item<double>();
      engine.export_weights(folder / "averages");
    }
    step(3);
    mine.after = weights();
    if (ranks.rank() == world - 1) seen = std::move(mine);
  });
  seen.weights_file = read_file(folder / "weights");
  seen.averages_file = read_file(folder / "averages");
  return seen;
}

void expect_equal(const Weights& found, const Weights& expected) {
  ASSERT_EQ(found.size(), expected.size());
  for (const auto& [name, value] : expected) EXPECT_TRUE(torch::equal(found.at(name), value)) << name;
}

void expect_equal(const Seen& found, const Seen& plain) {
  expect_equal(found.before, plain.before);
  expect_equal(found.averages, plain.averages);
  expect_equal(found.after, plain.after);
  EXPECT_EQ(found.loss, plain.loss);
  EXPECT_EQ(found.weights_file, plain.weights_file);
  EXPECT_EQ(found.averages_file, plain.averages_file);
}

tests::Subject layers() {
  torch::nn::Sequential net;
  for (int i = 0; i < 6; ++i) net->push_back(torch::nn::Linear(8, 8));
  return {net.ptr(), [net](int step, int micro, int rank) mutable {
            const torch::Tensor x =
                (torch::arange(32) * (step + 3) + 5 * micro + 7 * rank).remainder(11).to(torch::kFloat) / 8 - 0.6;
            return torch::mse_loss(torch::tanh(net->forward(x.reshape({4, 8}))), x.reshape({4, 8}).flip(1));
          }};
}

// bf16 has master copies, which are exported in full.
TEST(PipelineWeights, AveragesAndExportsKeepBits) {
  for (const DType dtype : {DType::kFloat32, DType::kBFloat16}) {
    const AttachOptions options{.stage = 3, .accumulate = 2, .ema = 0.9, .dtype = dtype};
    const Seen plain = train(2, options, {.pipeline = 1});
    EXPECT_FALSE(torch::equal(plain.averages.at("scale"), plain.before.at("scale")));
    EXPECT_NE(plain.averages_file, plain.weights_file);
    for (const int stage : {0, 2, 3}) {
      SCOPED_TRACE(stage);
      AttachOptions staged = options;
      staged.stage = stage;
      expect_equal(train(4, staged, {.pipeline = 2}), plain);
    }
  }
}

TEST(PipelineWeights, ManySectionsOfRankKeepBits) {
  const AttachOptions options{.stage = 1, .accumulate = 4, .ema = 0.5};
  const Seen plain = train(1, options, {.pipeline = 1}, layers);
  expect_equal(train(2, options, {.pipeline = 2, .schedule = PassOrder::kZbV}, layers), plain);
  expect_equal(train(2, options, {.pipeline = 2, .sections = 6, .schedule = PassOrder::kInterleaved}, layers), plain);
}

TEST(PipelineWeights, WithoutAveragesTheScopeIsRefused) {
  tests::on_every_rank(2, [](World& world) {
    torch::nn::Sequential net(torch::nn::Linear(4, 4), torch::nn::Linear(4, 4));
    PipelineEngine engine = attach_pipeline(*net, world, {.stage = 0}, {.pipeline = 2});
    EXPECT_TRUE(says(message_of<ConfigError>([&] { (void)engine.averaged(); }), "before the first passes()"));
    engine.passes([&](int) { return net->forward(torch::ones({2, 4})).sum(); });
    engine.step();
    EXPECT_TRUE(says(message_of<ConfigError>([&] { (void)engine.averaged(); }), "ema"));
  });
}

}  // namespace
}  // namespace zero
