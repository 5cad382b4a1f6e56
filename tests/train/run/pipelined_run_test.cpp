// Whole runs with a pipeline: losses, evaluations, weights and checkpoints have the bits of the run without a pipeline.
#include <algorithm>
#include <map>

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "zero/base/error/error.h"

#include "app/train/folder/run_files.h"
#include "tests/support/expect_contains.h"
#include "tests/support/message_of.h"
#include "tests/train/small_run.h"

namespace zero {
namespace {

namespace fs = std::filesystem;

class PipelinedRun : public SmallRunTest {
 protected:
  TrainJob job(std::int64_t steps, PipelineOptions pipeline, const std::string& name) const {
    TrainJob job = text_job(steps);
    job.model.layers = 3;
    job.train.accumulate = 4;
    job.train.batch = 2;
    job.attach.accumulate = 4;
    job.pipeline = pipeline;
    job.run_dir = folder_ / name;
    return job;
  }
};

struct PipelinedModel {
  ModelOptions model;
  int world;
  PipelineOptions pipeline;
};

class PipelinedModels : public PipelinedRun {
 protected:
  TrainJob job_of(const PipelinedModel& each, PipelineOptions pipeline, const std::string& name) {
    TrainJob made = job(4, pipeline, each.model.name + name);
    made.model = each.model;
    made.overwrite = true;
    made.train.eval_every = 2;
    made.train.eval_batches = 2;
    if (each.model.name == "bert") made.data = word_order_data();
    return made;
  }
};

// Each model has another order of passes, and other numbers of sections and lines.
TEST_F(PipelinedModels, OrdersKeepBits) {
  const std::vector<PipelinedModel> cases{
      {{.name = "gpt2", .layers = 3, .width = 16, .heads = 2, .context = 16}, 2, {.pipeline = 2}},
      {{.name = "llama", .layers = 3, .width = 16, .heads = 4, .kv_heads = 2, .context = 16},
       2,
       {.pipeline = 2, .sections = 4, .schedule = PassOrder::kInterleaved}},
      {{.name = "bert", .layers = 2, .width = 16, .heads = 2, .context = 16}, 4, {.pipeline = 2}},
      {{.name = "lstm", .layers = 2, .hidden = 12, .context = 16}, 2, {.pipeline = 2, .schedule = PassOrder::kGpipe}},
      {{.name = "gpt2", .layers = 3, .width = 16, .heads = 2, .context = 16},
       4,
       {.pipeline = 2, .schedule = PassOrder::kZbH2}},
      {{.name = "llama", .layers = 4, .width = 16, .heads = 4, .kv_heads = 2, .context = 16},
       2,
       {.pipeline = 2, .schedule = PassOrder::kZbV}},
      {{.name = "bert", .layers = 2, .width = 16, .heads = 2, .context = 16},
       2,
       {.pipeline = 2, .schedule = PassOrder::kZbH1}},
  };
  for (const PipelinedModel& each : cases) {
    SCOPED_TRACE(each.model.name + std::string(", ") + std::string(name_of(each.pipeline.schedule)));
    const TrainResult plain = run(job_of(each, {}, "plain"), each.world / each.pipeline.pipeline);
    const std::string printed = out_;
    expect_same_run(run(job_of(each, each.pipeline, "cut"), each.world), plain);
    const auto evaluation = [](const std::string& text) { return text.substr(text.find("val_loss"), 30); };
    EXPECT_EQ(evaluation(out_), evaluation(printed));
    EXPECT_TRUE(says(out_, "section 1 on rank ")) << out_;
    EXPECT_TRUE(says(read_file(folder_ / (each.model.name + "cut") / "plan.txt"), "rank 0 of a line: F0"));
  }
}

// The section of an embedding alone has no matrix that Muon updates.
TEST_F(PipelinedModels, MuonTakesSectionsWithoutMatrices) {
  for (const auto& [model, sections] :
       {std::pair(ModelOptions{.name = "lstm", .layers = 2, .hidden = 12, .context = 16}, 3),
        std::pair(ModelOptions{.name = "gpt2", .layers = 3, .width = 16, .heads = 2, .context = 16}, 2)}) {
    SCOPED_TRACE(model.name);
    const auto with = [&, model = model](int pipeline, const std::string& name) {
      TrainJob made = job_of({.model = model, .world = 1, .pipeline = {}}, {.pipeline = pipeline}, name);
      made.attach.optimizer = MuonOptions{};
      return made;
    };
    const TrainResult plain = run(with(1, "plain"), 1);
    expect_same_run(run(with(sections, "cut"), sections), plain);
  }
}

using PipelinedModelsSlow = PipelinedModels;

TEST_F(PipelinedModelsSlow, EveryCutKeepsBits) {
  const std::vector<ModelOptions> models{
      {.name = "gpt2", .layers = 4, .width = 16, .heads = 2, .context = 16},
      {.name = "llama", .layers = 4, .width = 16, .heads = 4, .kv_heads = 2, .context = 16},
      {.name = "bert", .layers = 4, .width = 16, .heads = 2, .context = 16},
      {.name = "lstm", .layers = 3, .hidden = 12, .context = 16},
  };
  for (const ModelOptions& model : models)
    for (const int micros : {1, 2, 4, 8})
      for (const int stage : {0, 1, 2, 3}) {
        const PipelinedModel each{.model = model, .world = 2, .pipeline = {}};
        const auto with = [&](int pipeline, const std::string& name) {
          TrainJob made = job_of(each, {.pipeline = pipeline}, name);
          made.train.accumulate = made.attach.accumulate = micros;
          made.attach.stage = stage;
          made.overwrite = true;
          return made;
        };
        const TrainResult plain = run(with(1, "plain"), 2);
        for (const int pipeline : {2, 3, 4}) {
          SCOPED_TRACE(fmt::format("{}, {} sections, {} micro-batches, stage {}", model.name, pipeline, micros, stage));
          expect_same_run(run(with(pipeline, "cut"), 2 * pipeline), plain);
        }
      }
}

// Types of 16 bits, clipping, and a stage that shards within a position.
TEST_F(PipelinedRun, ShardsOfSixteenBitsKeepBits) {
  for (const auto& [stage, dtype] : {std::pair(3, DType::kBFloat16), std::pair(2, DType::kFloat16)}) {
    SCOPED_TRACE(name_of(dtype));
    const auto job_of = [&, stage = stage, dtype = dtype](PipelineOptions pipeline, const std::string& name) {
      TrainJob made = job(4, pipeline, name);
      made.attach.stage = stage;
      made.attach.dtype = dtype;
      made.attach.clip = 0.1;
      if (dtype == DType::kFloat16) made.attach.loss_scale = LossScaleOptions{};
      made.overwrite = true;
      return made;
    };
    const TrainResult plain = run(job_of({}, "plain"), 2);
    expect_same_run(run(job_of({.pipeline = 2}, "cut"), 4), plain);
  }
}

// The run is saved with two sections and continued without a pipeline. It is saved again and continued with three
// sections.
TEST_F(PipelinedRun, CheckpointsLoadIntoOtherSections) {
  const auto until = [&](std::int64_t step, PipelineOptions pipeline, const std::string& name) {
    TrainJob made = job(6, pipeline, name);
    made.train.steps = step;
    made.checkpoint = {.every_steps = 2};
    return made;
  };
  const TrainResult plain = run(until(6, {}, "plain"), 1);
  run(until(2, {.pipeline = 2}, "cut"), 2);
  EXPECT_TRUE(says(out_, "checkpoint: step 2,")) << out_;
  EXPECT_FALSE(fs::exists(folder_ / "cut/checkpoints/step-00000002.section-0.tmp"));
  run(until(4, {}, "cut"), 1);
  EXPECT_TRUE(says(out_, "continuing after step 2 of 4")) << out_;
  expect_same_run(run(until(6, {.pipeline = 3}, "cut"), 3), plain);
  EXPECT_TRUE(says(out_, "continuing after step 4 of 6")) << out_;
}

// The order is chosen anew when the run continues, and printed.
TEST_F(PipelinedRun, ContinuedRunsChooseTheirOrder) {
  const auto until = [&](std::int64_t step, PipelineOptions pipeline, const std::string& name) {
    TrainJob made = job(4, pipeline, name);
    made.train.steps = step;
    made.checkpoint = {.every_steps = 2};
    return made;
  };
  const PipelineOptions chosen{.pipeline = 2, .schedule = PassOrder::kAuto};
  const TrainResult plain = run(until(4, {}, "plain"), 1);
  run(until(2, chosen, "cut"), 2);
  EXPECT_TRUE(says(out_, "  chosen\n")) << out_;
  expect_same_run(run(until(4, chosen, "cut"), 2), plain);
  EXPECT_TRUE(says(out_, "continuing after step 2 of 4")) << out_;
  EXPECT_TRUE(says(out_, "  chosen\n")) << out_;
}

// The first rank waits for gradients, the last for values.
TEST_F(PipelinedRun, TimelineHasAllPasses) {
  TrainJob made = job(2, {.pipeline = 2, .schedule = PassOrder::kZbH1}, "cut");
  made.timeline = {.file = "t.json", .steps = 1};
  run(made, 2);
  std::map<int, std::vector<std::string>> names;
  const auto trace = nlohmann::json::parse(read_file(folder_ / "cut/t.json"));
  for (const auto& event : trace.at("traceEvents"))
    if (event.at("ph") == "X" && event.at("cat") == "compute") names[event.at("pid")].push_back(event.at("name"));
  ASSERT_EQ(names.size(), 2U);
  for (const auto& [rank, of_rank] : names) {
    const int section = rank + 1;  // section 0 has the lookups, on the last rank
    for (const char* const kind : {"forward", "backward inputs", "backward weights"})
      for (int micro = 0; micro < 4; ++micro)
        EXPECT_EQ(std::ranges::count(of_rank, fmt::format("{} {}.{}", kind, micro, section)), 1) << rank << kind;
    EXPECT_GT(std::ranges::count(of_rank, "wait section"), 0);
  }
}

TEST_F(PipelinedRun, MoreSectionsThanPartsAreRefused) {
  const std::string text = message_of<ConfigError>(
      [&] { run(job(2, {.pipeline = 2, .sections = 200, .schedule = PassOrder::kInterleaved}, "cut"), 2); });
  EXPECT_TRUE(says(text, "parallel.sections = 200: the model can be cut into at most")) << text;
  EXPECT_FALSE(fs::exists(folder_ / "cut/config.toml")) << "nothing is written";
}

}  // namespace
}  // namespace zero
