// checkpoint.keep_best and train.patience: which checkpoint stays, and when a run ends. A resumed run decides alike.
#include <filesystem>
#include <string>
#include <vector>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "zero/base/error/error.h"
#include "zero/base/files/file.h"
#include "zero/checkpoint/image/manifest.h"
#include "zero/checkpoint/whole_checkpoint.h"

#include "app/train/folder/run_folder.h"
#include "tests/support/expect_contains.h"
#include "tests/support/message_of.h"
#include "tests/train/small_run.h"

namespace zero {
namespace {

using nlohmann::json;
namespace fs = std::filesystem;
using Steps = std::vector<std::int64_t>;

class BestCheckpoint : public SmallRunTest {
 protected:
  // After step 6 the learning rate is so high that the loss no longer falls.
  TrainJob job(std::int64_t steps) const {
    TrainJob job = text_job(steps);
    job.train.eval_every = 2;
    job.train.eval_batches = 2;
    job.schedule = {.kind = LrKind::kOneCycle, .lr = 2.0, .min_lr = 1.0, .warmup = 12, .steps = 100};
    job.attach.clip = 0;
    job.checkpoint = {.every_steps = 3, .keep = 1, .keep_best = BestMeasure::kLoss};
    return job;
  }
  Steps on_disk() const {
    Steps steps;
    for (const auto& entry : RunFolder(folder_ / "run").files().checkpoints.list()) steps.push_back(entry.step);
    return steps;
  }
  json report() const { return json::parse(read_file(folder_ / "run/report.json")); }
  // The step with the lowest loss among the compared evaluations. The last evaluation covers the whole split.
  std::int64_t best_step(std::int64_t last) const {
    std::int64_t step = -1;
    double least = 1e30;
    for (const json& line : metrics()) {
      if (!line.contains("val_loss") || line["step"] > last || line["val_loss"] >= least) continue;
      least = line["val_loss"];
      step = line["step"];
    }
    return step;
  }
  // Leaves the folder as a kill after this checkpoint would.
  void forget_after(std::int64_t step) const {
    const RunFolder run(folder_ / "run");
    for (const auto& entry : run.files().checkpoints.list())
      if (entry.step > step) fs::remove_all(entry.path);
    fs::remove(run.files().report);
    fs::remove(run.files().model);
  }
};

TEST_F(BestCheckpoint, StaysBesideTheNewest) {
  run(job(16), 2);
  const std::int64_t best = best_step(15);
  ASSERT_LT(best, 14) << out_;
  EXPECT_EQ(on_disk(), (Steps{16, best})) << out_;
  EXPECT_EQ(report()["best_evaluation"]["step"], best);
  EXPECT_EQ(report()["ended"], "all steps");
  EXPECT_EQ(open_best_checkpoint(folder_ / "run").path(), RunFolder(folder_ / "run").files().checkpoints.path_of(best));
}

// `eval_every` does not divide the steps.
TEST_F(BestCheckpoint, MayBeTheLastStep) {
  TrainJob falling = job(3);
  falling.schedule = {.kind = LrKind::kConstant, .lr = 0.01, .steps = 3};
  run(falling, 2);
  EXPECT_EQ(report()["best_evaluation"]["step"], 3) << out_;
  EXPECT_EQ(on_disk(), Steps{3});
  EXPECT_EQ(open_best_checkpoint(folder_ / "run").manifest().run.at("evaluated_step"), "3");
}

TEST_F(BestCheckpoint, GoesWithoutTheKey) {
  TrainJob plain = job(16);
  plain.checkpoint.keep_best.reset();
  run(plain, 1);
  EXPECT_EQ(on_disk(), Steps{16});
  EXPECT_FALSE(report().contains("best_evaluation"));
  EXPECT_CONTAINS(message_of<ConfigError>([&] { open_best_checkpoint(folder_ / "run"); }), "keeps no best checkpoint");
}

TEST_F(BestCheckpoint, SurvivesResume) {
  run(job(16), 2);
  const std::int64_t best = best_step(15);
  TrainJob more = job(22);
  run(more, 2);
  EXPECT_EQ(on_disk(), (Steps{22, best})) << "the best step of the first part is still the best\n" << out_;
  EXPECT_EQ(open_best_checkpoint(folder_ / "run").manifest().run.at("best_step"), fmt::format("{}", best));
}

TEST_F(BestCheckpoint, PatienceEndsTheRun) {
  TrainJob patient = job(60);
  patient.train.patience = 3;
  const TrainResult result = run(patient, 2);
  const std::int64_t best = report()["best_evaluation"]["step"];
  EXPECT_EQ(result.report.steps.done, best + 6) << "three evaluations, one every two steps\n" << out_;
  EXPECT_LT(result.report.steps.done, 60);
  EXPECT_EQ(report()["ended"], "no improvement");
  EXPECT_EQ(report()["steps"], best + 6);
  EXPECT_EQ(report()["losses"].size(), static_cast<std::size_t>(best + 6));
  EXPECT_CONTAINS(out_, "the run ends here, as the validation loss has not improved in 3 evaluations");
  EXPECT_CONTAINS(out_, fmt::format("ended after {} of 60 steps", best + 6));
  EXPECT_EQ(on_disk(), (Steps{best + 6, best})) << "the end of the run is saved";
}

TEST_F(BestCheckpoint, PatienceNeedsNoCheckpoints) {
  TrainJob patient = job(60);
  patient.train.patience = 3;
  patient.checkpoint = {};
  const TrainResult result = run(patient, 2);
  EXPECT_LT(result.report.steps.done, 60);
  EXPECT_EQ(result.report.steps.losses.size(), static_cast<std::size_t>(result.report.steps.done));
  EXPECT_TRUE(on_disk().empty());
}

// The run resumes from each of its checkpoints.
TEST_F(BestCheckpoint, ResumedRunEndsAtSameStep) {
  TrainJob patient = job(60);
  patient.train.patience = 3;
  patient.checkpoint.keep = 100;
  const TrainResult whole = run(patient, 2);
  const Steps saved = on_disk();
  ASSERT_GT(saved.size(), 3U);
  for (const std::int64_t step : saved) {
    if (step == whole.report.steps.done) continue;
    SCOPED_TRACE(step);
    forget_after(step);
    const TrainResult resumed = run(patient, 2);
    EXPECT_EQ(resumed.report.steps.done, whole.report.steps.done) << out_;
    EXPECT_EQ(resumed.report.parameters_sha256, whole.report.parameters_sha256);
    EXPECT_EQ(resumed.report.validation.best, whole.report.validation.best);
  }
}

// A signal cuts off the evaluation, and the run is saved after its step. The checkpoint then has the state before the
// evaluation.
TEST_F(BestCheckpoint, RepeatsACutOffEvaluation) {
  TrainJob patient = job(60);
  patient.train.eval_every = 3;
  patient.train.patience = 3;
  patient.checkpoint.keep = 100;
  const TrainResult whole = run(patient, 2);
  const CheckpointFolder saved = RunFolder(folder_ / "run").files().checkpoints;
  const Manifest before = read_manifest(saved.path_of(3));
  Manifest cut_off = read_manifest(saved.path_of(6));
  for (const char* const key : {"best_measure", "best_step", "best_value", "evaluations_since_best", "evaluated_step"})
    cut_off.run[key] = before.run.at(key);
  EXPECT_EQ(cut_off.run.at("evaluated_step"), "3");
  write_file(saved.path_of(6) / kManifestName, to_text(cut_off));
  forget_after(6);
  const TrainResult resumed = run(patient, 2);
  EXPECT_EQ(resumed.report.steps.done, whole.report.steps.done) << out_;
  EXPECT_EQ(resumed.report.validation.best, whole.report.validation.best);
}

TEST_F(BestCheckpoint, EndedRunContinuesWithMorePatience) {
  TrainJob patient = job(60);
  patient.train.patience = 3;
  const std::int64_t ended = run(patient, 2).report.steps.done;
  EXPECT_TRUE(run(patient, 2).was_done);
  EXPECT_CONTAINS(out_, fmt::format("it ended after step {} of 60, as 3 evaluations did not improve it", ended));
  patient.train.patience = 5;
  const TrainResult longer = run(patient, 2);
  EXPECT_FALSE(longer.was_done);
  EXPECT_EQ(longer.report.steps.done, ended + 4) << out_;
}

TEST_F(BestCheckpoint, DataAndClassesAreRequired) {
  const auto refusal = [this](const TrainJob& job) { return message_of<ConfigError>([&] { run(job, 1); }); };
  TrainJob accuracy = job(4);
  accuracy.checkpoint.keep_best = BestMeasure::kAccuracy;
  EXPECT_CONTAINS(refusal(accuracy), "checkpoint.keep_best = accuracy: a gpt2 has no classes on this data");
  TrainJob nothing = job(4);
  nothing.data.validation = 0.0;
  EXPECT_CONTAINS(refusal(nothing), "checkpoint.keep_best = loss: it compares evaluations, and no data is held out");
  EXPECT_FALSE(fs::exists(folder_ / "run"));
}

}  // namespace
}  // namespace zero
