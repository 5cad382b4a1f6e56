// Models of `zero train` in leaves: any number of ranks and lines has the losses, norms and weights of one rank.
#include <array>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "zero/plan/units/leaves.h"

#include "tests/support/tier.h"
#include "tests/train/small_run.h"

namespace zero {
namespace {

constexpr int kLeaves = 8;

struct LeafRanks {
  int lines;  // without a pipeline: ranks
  int stage;
  Reduce reduce = Reduce::kAuto;
  PipelineOptions pipeline{};
};

class LeafModelsSlow : public SmallRunTest {
 protected:
  TrainResult train_on(const LeafRanks& ranks, const ModelOptions& model, DType dtype) {
    const Leaves leaves(kLeaves, ranks.lines, ranks.reduce);
    TrainJob job = text_job(4);
    job.model = model;
    if (model.name == "bert") job.data = word_order_data();
    job.train.leaves = kLeaves;
    job.train.batch = 2;
    job.train.accumulate = leaves.passes();
    job.train.eval_every = 2;
    job.train.eval_batches = 3;
    job.attach.leaves = kLeaves;
    job.attach.accumulate = leaves.passes();
    job.attach.stage = ranks.stage;
    job.attach.reduce = ranks.reduce;
    job.attach.dtype = dtype;
    job.pipeline = ranks.pipeline;
    job.overwrite = true;
    return run(job, ranks.lines * ranks.pipeline.pipeline);
  }
};

TEST_F(LeafModelsSlow, WorldsKeepBits) {
  const std::array models{
      ModelOptions{.name = "gpt2", .layers = 2, .width = 16, .heads = 2, .context = 16},
      ModelOptions{.name = "llama", .layers = 2, .width = 16, .heads = 4, .kv_heads = 2, .context = 16},
      ModelOptions{.name = "bert", .layers = 2, .width = 16, .heads = 2, .context = 16},
      ModelOptions{.name = "lstm", .layers = 2, .hidden = 12, .context = 16}};
  // On 3 and 6 ranks and on 3 lines some micro-batches are idle.
  const std::array worlds{LeafRanks{2, 3, Reduce::kEach},
                          LeafRanks{3, 2},
                          LeafRanks{4, 1, Reduce::kLast},
                          LeafRanks{6, 3},
                          LeafRanks{8, 0},
                          LeafRanks{3, 2, Reduce::kAuto, {.pipeline = 2, .schedule = PassOrder::kZbH1}}};
  Sweep sweep(5);
  for (const ModelOptions& model : models) {
    for (const DType dtype : {DType::kFloat32, DType::kBFloat16}) {
      const TrainResult one = train_on({.lines = 1, .stage = 0}, model, dtype);
      EXPECT_NE(one.report.steps.losses.front(), one.report.steps.losses.back()) << "nothing was trained";
      for (const LeafRanks& ranks : worlds) {
        if (!sweep.takes_next()) continue;
        SCOPED_TRACE(fmt::format("{} in {}, {} lines of {}, stage {}", model.name, name_of(dtype), ranks.lines,
                                 ranks.pipeline.pipeline, ranks.stage));
        expect_same_run(train_on(ranks, model, dtype), one);
      }
    }
  }
}

}  // namespace
}  // namespace zero
