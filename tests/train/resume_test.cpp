// An interrupted run that continues has the losses, weights and metrics of an uninterrupted run.
#include <algorithm>
#include <fstream>
#include <functional>
#include <set>
#include <sstream>

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>
#include <signal.h>

#include "zero/base/error/error.h"
#include "zero/base/files/file.h"
#include "zero/checkpoint/read/checkpoint_reader.h"

#include "app/train/folder/run_files.h"
#include "app/train/folder/run_folder.h"
#include "app/train/run/trainer.h"
#include "tests/report/event_reader.h"
#include "tests/support/expect_contains.h"
#include "tests/support/message_of.h"
#include "tests/train/small_run.h"

namespace zero {
namespace {

using nlohmann::json;
namespace fs = std::filesystem;

class ResumeTest : public SmallRunTest {
 protected:
  TrainJob job(std::int64_t steps, std::int64_t every) const {
    TrainJob job = text_job(steps);
    job.train.eval_every = 2;
    job.train.eval_batches = 1;
    job.schedule = {.kind = LrKind::kCosine, .lr = 1e-2, .min_lr = 1e-3, .warmup = 2, .steps = steps};
    job.checkpoint = {.every_steps = every, .keep = 100};
    job.config_text = "[train]\nlr = 0.01\n";
    return job;
  }

  // Leaves the folder as a kill after this checkpoint would.
  void forget_after(std::int64_t step) {
    const RunFolder run(folder_ / "run");
    for (const auto& entry : run.files().checkpoints.list())
      if (entry.step > step) fs::remove_all(entry.path);
    fs::remove(run.files().report);
    fs::remove(run.files().model);
    std::ofstream(run.files().metrics, std::ios::app) << "{\"step\":" << step + 1 << ",\"lo";  // half of a line
  }

  // Edits a manifest and its checksum, as another program could.
  void edit_manifest(std::int64_t step, const std::function<void(Manifest&)>& edit) {
    const fs::path path = RunFiles(folder_ / "run").checkpoints.path_of(step);
    Manifest manifest = read_manifest(path);
    edit(manifest);
    std::ofstream(path / kManifestName, std::ios::binary) << to_text(manifest);
  }
  void forget_extra(std::int64_t step, std::string_view name) {
    edit_manifest(step, [&](Manifest& manifest) {
      auto& extras = manifest.files.front().extras;
      EXPECT_EQ(std::erase_if(extras, [&](const SavedExtra& extra) { return extra.name == name; }), 1U) << name;
    });
  }

  // The metrics of each step, without times. They are sorted, because the places of evaluations between steps depend on
  // times.
  std::vector<std::string> metrics() const {
    std::vector<std::string> found;
    for (const json& of : SmallRunTest::metrics()) {
      if (of.value("event", "") == "saved") continue;
      found.push_back(fmt::format("{} {} {}", of["step"].dump(), of.value("loss", json()).dump(),
                                  of.value("val_loss", json()).dump()));
    }
    std::ranges::sort(found);
    return found;
  }
};

// The steps with values of a tag that a reader of events shows. A new start removes earlier values from its first step
// on.
std::vector<std::int64_t> drawn_steps(const fs::path& folder, const std::string& tag) {
  std::vector<std::int64_t> steps;
  for (const fs::path& file : event_files_in(folder)) {
    for (const ReadEvent& event : read_events(file)) {
      if (event.starts) std::erase_if(steps, [&](std::int64_t step) { return step >= event.step; });
      if (event.scalars.contains(tag)) steps.push_back(event.step);
    }
  }
  return steps;
}
using ResumeTestSlow = ResumeTest;

TEST_F(ResumeTestSlow, EventFilesHaveEachStepOnce) {
  auto resumed = job(8, 5);
  resumed.tensorboard = true;
  run(resumed, 2);
  forget_after(5);
  run(resumed, 2);
  const RunFolder folder(resumed.run_dir);
  EXPECT_EQ(event_files_in(folder.files().tensorboard).size(), 2U);
  EXPECT_EQ(drawn_steps(folder.files().tensorboard, "train/loss"), (std::vector<std::int64_t>{1, 2, 3, 4, 5, 6, 7, 8}));
  EXPECT_EQ(drawn_steps(folder.files().tensorboard, "validation/val_loss"), (std::vector<std::int64_t>{2, 4, 6, 8}));
  resumed.overwrite = true;
  resumed.tensorboard = false;
  run(resumed, 2);
  EXPECT_FALSE(fs::exists(folder.files().tensorboard)) << "the old run's files are gone, and this run writes none";
}

// Fewer steps are left than a timeline's usual place.
TEST_F(ResumeTestSlow, FewLastStepsHaveATimeline) {
  auto resumed = job(8, 6);
  resumed.timeline = {.file = "timeline.json", .asked = false};
  run(resumed, 1);
  forget_after(6);
  run(resumed, 1);
  EXPECT_TRUE(fs::exists(folder_ / "run/timeline.json"));
}

// The run reports beforehand if training will wait for saves.
TEST_F(ResumeTestSlow, SlowSavesAreReportedBeforehand) {
  TrainJob large = job(1, 0);
  large.model = {.name = "gpt2", .layers = 1, .width = 512, .heads = 2, .context = 16};
  large.overwrite = true;
  large.checkpoint = {.every_seconds = 1e-6};
  const std::string note = "training may wait for saves";
  run(large, 2);
  ASSERT_NE(out_.find("step 1/1"), std::string::npos) << out_;
  EXPECT_LT(out_.find(note), out_.find("step 1/1")) << out_;
  large.checkpoint = {.every_seconds = 3600};
  run(large, 2);
  EXPECT_EQ(out_.find(note), std::string::npos) << out_;
}

// The run ends as if it had not been killed.
TEST_F(ResumeTestSlow, KilledRunEndsUninterrupted) {
  for (int stage = 0; stage <= 3; ++stage) {
    TrainJob whole = job(8, 2);
    whole.overwrite = true;
    whole.attach.stage = stage;
    const RunReport expected = run(whole, 2).report;
    const auto lines = metrics();
    for (const std::int64_t killed_after : {6, 2}) {
      forget_after(killed_after);
      whole.overwrite = false;
      const TrainResult resumed = run(whole, 2);
      EXPECT_EQ(resumed.report.parameters_sha256, expected.parameters_sha256) << "stage " << stage;
      EXPECT_EQ(resumed.report.steps.losses, expected.steps.losses);
      EXPECT_EQ(resumed.report.steps.grad_norms, expected.steps.grad_norms);
      EXPECT_EQ(resumed.report.validation.loss, expected.validation.loss);
      EXPECT_EQ(metrics(), lines);
      EXPECT_NE(out_.find(fmt::format("continuing after step {} of 8", killed_after)), std::string::npos) << out_;
    }
  }
}

// Both continue where they were.
TEST_F(ResumeTestSlow, DropoutAndMicroBatchesContinue) {
  TrainJob whole = job(6, 2);
  whole.model.dropout = 0.2;
  whole.train.accumulate = 3;
  whole.attach.accumulate = 3;
  whole.attach.dtype = DType::kBFloat16;
  const RunReport expected = run(whole, 1).report;
  forget_after(4);
  const RunReport resumed = run(whole, 1).report;
  EXPECT_EQ(resumed.parameters_sha256, expected.parameters_sha256);
  EXPECT_EQ(resumed.steps.losses, expected.steps.losses);
}

// The scale begins so high that steps overflow before the checkpoint. It grows after the checkpoint.
TEST_F(ResumeTestSlow, Fp16RunKeepsItsScale) {
  TrainJob whole = job(8, 2);
  whole.attach.dtype = DType::kFloat16;
  whole.attach.loss_scale = LossScaleOptions{.value = 0x1p18, .growth_interval = 2};
  const RunReport expected = run(whole, 2).report;
  ASSERT_GT(expected.engine.skipped_steps, 0);
  ASSERT_LT(expected.engine.skipped_steps, 7);
  const auto lines = metrics();
  for (const std::int64_t killed_after : {6, 2}) {
    forget_after(killed_after);
    const RunReport resumed = run(whole, 2).report;
    EXPECT_EQ(resumed.parameters_sha256, expected.parameters_sha256);
    EXPECT_EQ(resumed.steps.losses, expected.steps.losses);
    EXPECT_EQ(resumed.engine.loss_scale, expected.engine.loss_scale);
    EXPECT_EQ(metrics(), lines);
  }
}

// The other world trains at another stage.
TEST_F(ResumeTestSlow, OtherWorldDrawsTheNextSamples) {
  TrainJob two = job(8, 4);
  const RunReport expected = run(two, 2).report;
  forget_after(4);
  TrainJob four = two;
  four.train.batch = 2;  // keeps the global batch
  four.attach.stage = 1;
  const RunReport resumed = run(four, 4).report;
  ASSERT_EQ(resumed.steps.losses.size(), expected.steps.losses.size());
  for (std::size_t i = 0; i < 4; ++i) EXPECT_EQ(resumed.steps.losses[i], expected.steps.losses[i]);
  for (std::size_t i = 4; i < 8; ++i) EXPECT_NEAR(resumed.steps.losses[i], expected.steps.losses[i], 1e-4);
  EXPECT_EQ(CheckpointReader(RunFiles(folder_ / "run").checkpoints.path_of(8)).manifest().run.at("samples"), "64");
}

// The damaged checkpoint is named.
TEST_F(ResumeTestSlow, DamagedCheckpointFallsBackToEarlier) {
  TrainJob whole = job(8, 2);
  const RunReport expected = run(whole, 2).report;
  forget_after(6);
  const fs::path file = RunFiles(folder_ / "run").checkpoints.path_of(6) / "rank-00001.safetensors";
  fs::resize_file(file, fs::file_size(file) - 1);
  EXPECT_EQ(run(whole, 2).report.parameters_sha256, expected.parameters_sha256);
  EXPECT_NE(out_.find("continuing after step 4 of 8"), std::string::npos) << out_;
}

TEST_F(ResumeTestSlow, MissingPartCountsAsDamage) {
  const TrainJob whole = job(6, 2);
  const RunReport expected = run(whole, 1).report;
  const auto expect_passed_over = [&](std::string_view what) {
    EXPECT_EQ(run(whole, 1).report.parameters_sha256, expected.parameters_sha256) << what;
    EXPECT_NE(out_.find("continuing after step 2 of 6"), std::string::npos) << what << ": " << out_;
  };
  for (const auto* extra : {"rng/cpu", "run/losses", "run/grad_norms", "run/seconds", "run/skipped"}) {
    forget_after(4);
    forget_extra(4, extra);
    expect_passed_over(extra);  // and saved again
  }
  for (const auto* key : {"samples", "rewinds", "spikes"}) {
    forget_after(4);
    edit_manifest(4, [&](Manifest& manifest) { EXPECT_EQ(manifest.run.erase(key), 1U) << key; });
    expect_passed_over(key);
    forget_after(4);
    edit_manifest(4, [&](Manifest& manifest) { manifest.run.at(key) = "1?"; });
    expect_passed_over(key);
  }
}

// Another world takes no generator state from the checkpoint, so it does not miss one.
TEST_F(ResumeTestSlow, OtherWorldNeedsNoGenerator) {
  run(job(6, 2), 1);
  forget_after(4);
  forget_extra(4, "rng/cpu");
  TrainJob two = job(6, 2);
  two.train.batch = 2;
  run(two, 2);
  EXPECT_NE(out_.find("continuing after step 4 of 6"), std::string::npos) << out_;
}

// The refused run keeps all its files.
TEST_F(ResumeTestSlow, OnlyDamagedCheckpointsRefuseRun) {
  TrainJob whole = job(4, 2);
  run(whole, 1);
  forget_after(4);
  for (const std::int64_t step : {2, 4})
    fs::remove(RunFiles(folder_ / "run").checkpoints.path_of(step) / "manifest.json");
  EXPECT_NE(message_of<IoError>([&] { run(whole, 1); }).find("no checkpoint can be read"), std::string::npos);
  EXPECT_TRUE(fs::exists(RunFiles(folder_ / "run").checkpoints.path_of(4) / "rank-00000.safetensors"));
}

// The report says which values come from the checkpoint and which from the configuration.
TEST_F(ResumeTestSlow, ReportsCheckpointAndConfigurationParts) {
  run(job(4, 2), 1);
  forget_after(2);
  run(job(4, 2), 1);
  EXPECT_NE(out_.find("  from the checkpoint: parameter, exp_avg, exp_avg_sq; 2 updates, 8 samples drawn\n"
                      "  from the configuration: everything else, as it was then\n"),
            std::string::npos)
      << out_;
  forget_after(2);
  TrainJob changed = job(4, 2);
  changed.config_text = "[data]\na = 1\nb = 2\nc = 3\nd = 4\n\n[train]\nlr = 0.005\n";
  run(changed, 1);
  EXPECT_NE(out_.find("  from the configuration: everything else, of which changed:\n"
                      "    data.a = (none) -> 1\n    data.b = (none) -> 2\n    data.c = (none) -> 3\n"
                      "    data.d = (none) -> 4\n    train.lr = 0.01 -> 0.005\n"),
            std::string::npos)
      << out_;
  EXPECT_EQ(read_file(folder_ / "run/config.toml"), changed.config_text);
  forget_after(2);
  changed.config_text = "[train]\nlr = 0.005\n";
  run(changed, 1);
  EXPECT_NE(out_.find("of which changed: train.lr = 0.01 -> 0.005\n"), std::string::npos) << out_;
}

// The data changed after the checkpoint under the same name, so no key shows the change.
TEST_F(ResumeTestSlow, ReportsChangedData) {
  const TrainJob unchanged = job(4, 2);
  run(unchanged, 1);
  forget_after(2);
  run(unchanged, 2);
  EXPECT_EQ(out_.find("the samples are different"), std::string::npos) << out_;
  const std::string text = read_file(folder_ / "text.txt");
  folder_.write("text.txt", "#" + text.substr(1));
  forget_after(2);
  run(unchanged, 1);
  EXPECT_CONTAINS(out_,
                  "  from the configuration: everything else, as it was then\n  the samples are different: as much as "
                  "then, 5,400 tokens, 600 held out, with other contents\n");
  folder_.write("text.txt", text + text);
  forget_after(2);
  run(unchanged, 1);
  EXPECT_CONTAINS(out_,
                  "  the samples are different: 5,400 tokens, 600 held out then, 10,800 tokens, 1,200 held out now\n");
}

TEST_F(ResumeTestSlow, CheckpointWithoutDataNameContinues) {
  run(job(4, 2), 1);
  forget_after(2);
  edit_manifest(2, [](Manifest& manifest) { EXPECT_EQ(manifest.run.erase("data"), 1U); });
  run(job(4, 2), 1);
  EXPECT_CONTAINS(out_, "continuing after step 2 of 4");
  EXPECT_EQ(out_.find("the samples are different"), std::string::npos) << out_;
}

// Without more steps, the run is done.
TEST_F(ResumeTestSlow, FinishedRunTakesMoreSteps) {
  const RunReport first = run(job(4, 2), 1).report;
  const TrainResult again = run(job(4, 2), 1);
  EXPECT_TRUE(again.was_done);
  EXPECT_NE(out_.find("done already"), std::string::npos);
  EXPECT_EQ(out_.find("no effect"), std::string::npos);
  TrainJob changed = job(4, 2);
  changed.config_text = "[train]\nlr = 0.5\n";
  EXPECT_TRUE(run(changed, 1).was_done);
  EXPECT_NE(out_.find("these changes have no effect: train.lr = 0.01 -> 0.5"), std::string::npos) << out_;
  EXPECT_TRUE(fs::exists(folder_ / "run/report.json"));
  const RunReport more = run(job(6, 2), 1).report;
  EXPECT_EQ(more.steps.losses.size(), 6U);
  EXPECT_EQ(more.steps.losses[3], first.steps.losses[3]);
}

// The end of a short run is also saved.
TEST_F(ResumeTestSlow, TimedSavesTakeMoreSteps) {
  TrainJob brief = job(2, 0), longer = job(4, 0);
  brief.checkpoint.every_seconds = longer.checkpoint.every_seconds = 3600;
  const RunReport first = run(brief, 1).report;
  const RunReport more = run(longer, 2).report;
  EXPECT_TRUE(says(out_, "continuing after step 2 of 4"));
  ASSERT_EQ(more.steps.losses.size(), 4U);
  EXPECT_EQ(more.steps.losses[1], first.steps.losses[1]);
}

// The error uses the configuration's keys. The tensors' shapes would also differ, but mean less to a user.
TEST_F(ResumeTestSlow, OtherModelIsRefusedByKeys) {
  TrainJob first = job(2, 2), wider = job(4, 2);
  first.config_text = "[model]\nname = \"gpt2\"\nwidth = 16\n";
  run(first, 2);
  wider.model.width = 32;
  wider.config_text = "[model]\nname = \"gpt2\"\nwidth = 32\n";
  for (const std::int64_t steps : {4, 2}) {  // to continue, and when the run is done
    wider.train.steps = steps;
    const std::string text = message_of<ConfigError>([&] { run(wider, 2); });
    EXPECT_TRUE(says(text, "holds a run of another model: model.width = 16, not 32"));
    EXPECT_TRUE(says(text, "another folder with --run.dir, or begin again with --overwrite"));
  }
  wider.overwrite = true;
  EXPECT_EQ(run(wider, 2).report.steps.losses.size(), 2U);
}

// If a run fails after training, the error names the place of the weights.
TEST_F(ResumeTestSlow, LateFailureNamesTheWeights) {
  fs::create_directories(folder_ / "run/config.json");  // blocks the file for transformers
  const std::string text = message_of<IoError>([&] { run(job(2, 0), 1); });
  EXPECT_TRUE(says(text, "training is over, all 2 steps; its weights are in "));
  EXPECT_TRUE(fs::exists(RunFiles(folder_ / "run").model));
}

TEST_F(ResumeTestSlow, RefusesFewerStepsThanDone) {
  run(job(4, 2), 1);
  forget_after(4);
  const std::string text = message_of<ConfigError>([&] { run(job(2, 2), 1); });
  EXPECT_NE(text.find("train.steps = 2: this run has reached step 4 already"), std::string::npos) << text;
}

// A run without checkpoints is not overwritten.
TEST_F(ResumeTestSlow, KeepsRunWithoutCheckpoints) {
  run(job(2, 0), 1);
  const auto refused = [&] { return message_of<ConfigError>([&] { run(job(2, 0), 1); }); };
  EXPECT_TRUE(says(refused(), "holds a run already, which is finished and has no checkpoint to continue from"));
  EXPECT_TRUE(says(refused(), "run/model.safetensors starts from its weights"));
  forget_after(0);  // as if killed: only metrics are left, and the run has no checkpoints by choice
  EXPECT_TRUE(says(refused(), "holds a run already"));
  EXPECT_TRUE(fs::exists(folder_ / "run/metrics.jsonl"));
}

// The same command begins again if the run was killed before its first checkpoint.
TEST_F(ResumeTestSlow, EarlyKillBeginsAgain) {
  const std::string said = "a run of this configuration ended here before its first checkpoint: it begins again\n";
  const TrainJob whole = job(6, 100);
  const RunReport expected = run(whole, 2).report;
  EXPECT_EQ(out_.find(said), std::string::npos) << out_;
  const auto lines = metrics();
  forget_after(0);
  const RunReport again = run(whole, 2).report;
  EXPECT_TRUE(says(out_, said));
  EXPECT_EQ(again.parameters_sha256, expected.parameters_sha256);
  EXPECT_EQ(again.steps.losses, expected.steps.losses);
  EXPECT_EQ(metrics(), lines) << "the killed run's lines are gone";
}

// The run was killed before its first checkpoint.
TEST_F(ResumeTestSlow, EarlyKillRefusesOtherConfiguration) {
  run(job(6, 100), 1);
  forget_after(0);
  TrainJob changed = job(6, 100);
  changed.config_text = "[train]\nlr = 0.005\n";
  EXPECT_TRUE(says(message_of<ConfigError>([&] { run(changed, 1); }), "which ended before its first checkpoint"));
  EXPECT_EQ(read_file(folder_ / "run/config.toml"), job(6, 100).config_text);
}

// The run begins again.
TEST_F(ResumeTestSlow, OverwriteDropsOldCheckpoints) {
  run(job(4, 2), 1);
  TrainJob again = job(3, 3);
  again.overwrite = true;
  EXPECT_EQ(run(again, 1).report.steps.losses.size(), 3U);
  EXPECT_EQ(RunFiles(folder_ / "run").checkpoints.list().size(), 1U);
}

TEST_F(ResumeTestSlow, LaterAttemptContinuesOnlyItsLaunch) {
  const RunReport other = run(job(4, 2), 1).report;  // another launch's run, with checkpoints
  TrainJob mine = job(6, 2);
  mine.launch = {.name = "mine", .is_restart = true};  // the first attempt died before it created the folder
  mine.overwrite = true;
  EXPECT_EQ(run(mine, 1).report.steps.losses.size(), 6U);
  EXPECT_EQ(out_.find("continuing"), std::string::npos) << "the other launch's run had to be overwritten: " << out_;
  forget_after(4);
  run(mine, 1);
  EXPECT_NE(out_.find("continuing after step 4"), std::string::npos) << "this run is its own: " << out_;
  // The run has ended, although no checkpoint is left. Nothing is repeated.
  fs::remove_all(folder_ / "run/checkpoints");
  EXPECT_TRUE(run(mine, 1).was_done);
  // Without checkpoints, its own run begins again, and another launch's run is refused.
  mine.overwrite = false;
  fs::remove(folder_ / "run/report.json");
  EXPECT_EQ(run(mine, 1).report.steps.losses.size(), 6U);
  fs::remove_all(folder_ / "run/checkpoints");
  mine.launch.name = "another";
  EXPECT_NE(message_of<ConfigError>([&] { run(mine, 1); }).find("holds a run already"), std::string::npos);
}

TEST_F(ResumeTestSlow, DoneRunNeedsNoLastCheckpoint) {
  TrainJob whole = job(5, 0);
  whole.checkpoint.every_seconds = 1e-9;
  run(whole, 1);
  const RunFolder folder(folder_ / "run");
  for (const auto& entry : folder.files().checkpoints.list())
    if (entry.step > 2) fs::remove_all(entry.path);
  EXPECT_TRUE(run(whole, 1).was_done);
}

// The run was killed after its last checkpoint.
TEST_F(ResumeTestSlow, LateKillStillWritesReport) {
  const RunReport expected = run(job(4, 2), 2).report;
  const auto lines = metrics();
  forget_after(4);
  const RunReport resumed = run(job(4, 2), 2).report;
  EXPECT_EQ(resumed.parameters_sha256, expected.parameters_sha256);
  EXPECT_EQ(resumed.engine.num_parameters, expected.engine.num_parameters);
  EXPECT_EQ(metrics(), lines);
}

// The same command continues the run.
TEST_F(ResumeTestSlow, SignalSavesAndCommandContinues) {
  const RunReport expected = run(job(6, 100), 1).report;
  for (const int signal : {SIGTERM, SIGUSR1, SIGINT}) {
    TrainJob again = job(6, 100);
    again.overwrite = true;
    {
      const StopSignal stop;
      ::raise(signal);  // to this thread, because libtorch may have started others before
      ASSERT_EQ(stop.pending(), signal);
      const TrainResult stopped = run(again, 1, &stop);
      EXPECT_EQ(stopped.stop_signal, signal);
      EXPECT_TRUE(stopped.saved);
      EXPECT_NE(out_.find("the same command continues"), std::string::npos) << out_;
    }
    again.overwrite = false;
    EXPECT_EQ(run(again, 1).report.parameters_sha256, expected.parameters_sha256);
  }
}

// The sums of a fragment are in exchange when the run stops. The save completes them, and their bytes are in the line
// of the last step and in the totals.
TEST_F(ResumeTestSlow, StopCountsOuterSumsInFlight) {
  TrainJob local = job(4, 100);
  local.attach.local = LocalSteps{.steps = 1, .overlap = 1};
  {
    const StopSignal stop;
    ::raise(SIGTERM);
    ASSERT_EQ(stop.pending(), SIGTERM);
    EXPECT_TRUE(run(local, 2, &stop).saved);
  }
  const RunReport report = run(local, 2).report;
  ASSERT_EQ(report.ranks.size(), 2U);
  std::int64_t sent = 0, between_copies = 0;
  std::set<std::int64_t> steps;
  for (const json& line : SmallRunTest::metrics()) {
    if (!line.contains("loss")) continue;
    steps.insert(line.at("step").get<std::int64_t>());
    sent += line.at("sent_bytes").get<std::int64_t>();
    between_copies += line.at("sent_between_copies").get<std::int64_t>();
  }
  EXPECT_EQ(steps, (std::set<std::int64_t>{1, 2, 3, 4}));
  EXPECT_GT(between_copies, 0);
  EXPECT_EQ(report.ranks[0].sent_bytes_total, sent);
  EXPECT_EQ(report.ranks[0].sent_between_copies_total, between_copies);
}

TEST_F(ResumeTestSlow, TheNewestAreKept) {
  TrainJob whole = job(7, 1);
  whole.checkpoint.keep = 2;
  run(whole, 2);
  std::vector<std::int64_t> steps;
  for (const auto& entry : RunFiles(folder_ / "run").checkpoints.list()) steps.push_back(entry.step);
  EXPECT_EQ(steps, (std::vector<std::int64_t>{7, 6}));
}

TEST_F(ResumeTestSlow, ATimeBetweenCheckpointsCounts) {
  TrainJob whole = job(5, 0);
  whole.checkpoint.every_seconds = 1e-9;
  run(whole, 2);
  EXPECT_FALSE(RunFiles(folder_ / "run").checkpoints.list().empty());
}

// A failed save is reported, and training continues or stops.
TEST_F(ResumeTestSlow, FailedSaveObeysItsOption) {
  TrainJob whole = job(4, 2);
  const RunReport expected = run(whole, 1).report;
  // A file has the name of the checkpoints' folder.
  fs::remove_all(folder_ / "run");
  fs::create_directory(folder_ / "run");
  std::ofstream(folder_ / "run/checkpoints") << "in the way";
  const TrainResult gone_on = run(whole, 1);
  EXPECT_TRUE(gone_on.save_failed);
  EXPECT_EQ(gone_on.report.parameters_sha256, expected.parameters_sha256);
  whole.checkpoint.stop_on_error = true;
  whole.overwrite = true;
  EXPECT_NE(message_of<IoError>([&] { run(whole, 1); }).find("checkpoints"), std::string::npos);
}

TEST_F(ResumeTestSlow, RefusesTooSmallDiskBeforehand) {
  std::vector<std::string> said;
  const auto say = [&](const std::string& line) { said.push_back(line); };
  const CheckpointPolicy options{.every_steps = 5, .keep = 3};
  const auto room = static_cast<std::int64_t>(fs::space(folder_.path()).available);
  const std::string text =
      message_of<ConfigError>([&] { RunCheckpoints::require_room(options, folder_ / "not/there/yet", room * 2, say); });
  EXPECT_NE(text.find("checkpoint.every"), std::string::npos) << text;
  RunCheckpoints::require_room(options, folder_.path(), room / 2, say);
  EXPECT_EQ(said.size(), 1U);
  RunCheckpoints::require_room(options, folder_.path(), room / 8, say);
  EXPECT_EQ(said.size(), 1U);
}

}  // namespace
}  // namespace zero
