#include "zero/torch/pipeline/pipeline_save.h"

#include <algorithm>
#include <atomic>
#include <filesystem>
#include <fstream>

#include <gtest/gtest.h>

#include "zero/base/error/error.h"
#include "zero/checkpoint/join_sections.h"
#include "zero/torch/deferred/surroundings.h"
#include "zero/torch/pipeline/pipelined_module.h"

#include "tests/support/temporary_folder.h"
#include "tests/torch/pipeline/pipeline_run.h"
#include "tests/torch/subjects.h"

namespace zero {
namespace {

using Values = std::map<std::string, torch::Tensor>;

Values values_of(PipelineEngine& engine) {
  Values values;
  engine.for_each_parameter(
      [&](const std::string& name, const torch::Tensor& tensor) { values[name] = tensor.clone(); });
  return values;
}

bool equal(const Values& a, const Values& b) {
  return std::ranges::all_of(a, [&](const auto& entry) { return torch::equal(entry.second, b.at(entry.first)); });
}

// Calls body(engine, step) on each of four ranks: two lines of two positions. step() trains one step.
using Step = std::function<void()>;
void on_two_lines(const std::function<void(PipelineEngine& engine, const Step& step)>& body) {
  std::vector<tests::Subject> subjects;
  for (int rank = 0; rank < 4; ++rank) {
    torch::manual_seed(7);
    subjects.push_back(tests::tied_net());
  }
  tests::on_every_rank(4, [&](World& world) {
    const tests::Subject& subject = subjects[static_cast<std::size_t>(world.rank())];
    PipelineEngine engine = attach_pipeline(*subject.module, world, {.stage = 1, .accumulate = 4}, {.pipeline = 2});
    int steps = 0;
    body(engine, [&] {
      engine.passes([&](int micro) { return subject.loss(steps, micro, world.rank() % 2); });
      engine.step(1e-2);
      ++steps;
    });
  });
}

TEST(PipelineSave, TrainingContinuesMeanwhile) {
  const TemporaryFolder folder;
  on_two_lines([&](PipelineEngine& engine, const Step& step) {
    step();
    const Values saved = values_of(engine);
    const auto save = engine.module().begin_save(folder / "saved", {}, SaveMode::kAsync);
    EXPECT_TRUE(save->copied());
    EXPECT_GT(save->size_bytes(), 0);
    step();
    save->poll();
    step();
    EXPECT_FALSE(equal(values_of(engine), saved));
    save->wait();
    EXPECT_TRUE(save->poll());
    EXPECT_GE(save->seconds(), save->stalled_seconds());
    EXPECT_EQ(engine.load(folder / "saved").manifest.steps, 1);
    EXPECT_TRUE(equal(values_of(engine), saved));
  });
  EXPECT_EQ(folder.num_files(), 1U) << "no folder of a section is left";
}

// The two ranks are threads, so they draw from one generator.
TEST(PipelineSave, LoadRestoresTheGenerator) {
  const TemporaryFolder folder;
  std::vector<tests::Subject> subjects;
  for (int rank = 0; rank < 2; ++rank) subjects.push_back(tests::tied_net());
  tests::on_every_rank(2, [&](World& world) {
    const tests::Subject& subject = subjects[static_cast<std::size_t>(world.rank())];
    PipelineEngine engine = attach_pipeline(*subject.module, world, {.stage = 1}, {.pipeline = 2});
    engine.passes([&](int micro) { return subject.loss(0, micro, 0); });
    engine.step(1e-2);
    engine.save(folder / "saved");
    const at::Tensor saved = generator_state();
    world.communicator().barrier({}).wait();
    torch::rand({3});
    EXPECT_FALSE(torch::equal(generator_state(), saved));
    engine.load(folder / "saved");
    EXPECT_TRUE(torch::equal(generator_state(), saved));
  });
}

// Only the ranks of section 1 meet the error.
TEST(PipelineSave, EveryRankReportsAFailedSection) {
  const TemporaryFolder folder;
  const std::filesystem::path path = folder / "saved", taken = path_of_section(path, 1);
  std::ofstream(taken) << "no checkpoint";
  std::atomic<int> failed = 0;
  for (const SaveMode mode : {SaveMode::kAsync, SaveMode::kSync})
    on_two_lines([&](PipelineEngine& engine, const Step& step) {
      step();
      try {
        engine.module().begin_save(path, {}, mode)->wait();
      } catch (const IoError& error) {
        EXPECT_NE(std::string(error.what()).find("section-1"), std::string::npos) << error.what();
        ++failed;
      }
      step();
    });
  EXPECT_EQ(failed, 8);
  EXPECT_FALSE(std::filesystem::exists(path));
  std::filesystem::remove(taken);
  on_two_lines([&](PipelineEngine& engine, const Step& step) {
    step();
    engine.save(path);
  });
  EXPECT_TRUE(std::filesystem::exists(path));
}

}  // namespace
}  // namespace zero
