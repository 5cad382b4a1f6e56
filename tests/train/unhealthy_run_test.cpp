// Unhealthy runs: spikes in the data, values that are not finite, and ranks that no longer agree.
#include <random>
#include <set>
#include <sstream>
#include <thread>

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>
#include <signal.h>
#include <stdlib.h>

#include "zero/base/error/error.h"
#include "zero/base/files/file.h"
#include "zero/comm/board/in_process.h"

#include "app/train/folder/run_files.h"
#include "app/train/folder/run_folder.h"
#include "app/train/run/trainer.h"
#include "tests/checkpoint/launcher.h"
#include "tests/comm/transport/worlds.h"
#include "tests/engine/corrupting_communicator.h"
#include "tests/support/environment_variable.h"
#include "tests/support/json_lines.h"
#include "tests/support/message_of.h"
#include "tests/support/temporary_folder.h"

namespace zero {
namespace {

using nlohmann::json;
namespace fs = std::filesystem;

constexpr std::int64_t kSamples = 8;  // per step
constexpr std::int64_t kSteps = 80;

class UnhealthyRun : public testing::Test {
 protected:
  // y = 2 a - 3 b + 0.5 with noise. The rows of the steps in `bad`, counted from 1, are `scale` times too large.
  fs::path rows(std::string_view name, const std::set<std::int64_t>& bad, double scale) {
    std::mt19937_64 random(5);
    std::normal_distribution<double> normal;
    std::string text;
    for (std::int64_t row = 0; row < (kSteps + 20) * kSamples; ++row) {
      const double factor = bad.contains(row / kSamples + 1) ? scale : 1;
      const double a = normal(random), b = normal(random), y = 2 * a - 3 * b + 0.5 + 0.2 * normal(random);
      text += fmt::format("{},{},{}\n", factor * a, factor * b, factor * y);
    }
    return folder_.write(name, text);
  }

  TrainJob job(const std::set<std::int64_t>& bad, const HealthOptions& health, double scale = 1e4) {
    TrainJob job;
    job.model = {.name = "linear"};
    job.data = {.kind = DataKind::kCsv, .path = rows("train.csv", bad, scale), .order = Order::kSequential};
    job.data.validation = rows("validation.csv", {}, 1);
    job.train = {.steps = kSteps, .batch = kSamples / 2, .eval_every = 0, .log_every = 20};
    job.schedule = {.kind = LrKind::kConstant, .lr = 0.1, .warmup = 0, .steps = kSteps};
    job.checkpoint = {.every_steps = 20, .keep = 100};
    job.health = health;
    job.attach = {.stage = 2, .optimizer = AdamW{.lr = 0.1, .weight_decay = 0}};
    job.run_dir = folder_ / "run";
    job.config_text = "[train]\n";
    return job;
  }

  RunReport run(TrainJob job, bool overwrite = true) {
    job.overwrite = overwrite;
    RunReport report;
    std::ostringstream out;
    run_ranks(2, [&](World& ranks) {
      std::ostringstream nothing;
      auto mine = train(job, ranks, {.out = ranks.rank() == 0 ? out : nothing, .style = {}});
      if (ranks.rank() == 0) report = std::move(mine.report);
    });
    out_ = out.str();
    return report;
  }

  // Runs on one rank, whose launcher holds in-memory checkpoints.
  RunReport run_alone(TrainJob job, Launcher& launcher) {
    job.overwrite = true;
    job.train.batch = kSamples;
    const FileDescriptor memory = launcher.descriptor();
    const EnvironmentVariable number("ZERO_LAUNCHER_MEMORY", std::to_string(memory.get()));
    std::ostringstream out;
    RunReport report;
    run_ranks(1, [&](World& ranks) { report = train(job, ranks, {.out = out, .style = {}}).report; });
    out_ = out.str();
    return report;
  }

  // Runs three ranks at stage 0. At `step`, a bit flips in the data that rank 2 receives.
  TrainResult run_with_flip(TrainJob job, int step, const StopSignal* stop = nullptr) {
    job.overwrite = true;
    job.attach.stage = 0;
    TrainResult result;
    std::ostringstream out;
    std::vector<std::exception_ptr> errors(3);
    std::vector<std::thread> threads;
    auto real = make_in_process(3, std::chrono::seconds(20));
    for (std::size_t rank = 0; rank < 3; ++rank) {
      threads.emplace_back([&, rank] {
        std::optional<BitFlip> flip;
        if (rank == 2) flip = BitFlip{.number = step - 1, .random = 12345, .high_half = true};
        World world(std::make_unique<CorruptingCommunicator>(std::move(real[rank]), flip), 3);
        try {
          std::ostringstream nothing;
          auto mine = train(job, world, {.out = rank == 0 ? out : nothing, .style = {}, .stop = stop});
          if (rank == 0) result = std::move(mine);
        } catch (...) {
          errors[rank] = std::current_exception();
        }
      });
    }
    for (auto& thread : threads) thread.join();
    out_ = out.str();
    for (const auto& error : errors)
      if (error) std::rethrow_exception(error);
    return result;
  }

  // Returns only events, or all lines except events; lines of checkpoints are left out.
  std::vector<json> metrics(bool events) {
    std::vector<json> lines = json_lines(read_file(folder_ / "run/metrics.jsonl"));
    std::erase_if(lines, [events](const json& line) {
      return line.contains("event") != events || line.value("event", "") == "saved";
    });
    return lines;
  }
  std::vector<std::int64_t> logged_steps() {
    std::vector<std::int64_t> steps;
    for (const json& line : metrics(false))
      if (line.contains("loss")) steps.push_back(line["step"]);
    return steps;
  }
  static std::vector<std::int64_t> steps_to(std::int64_t last) {
    std::vector<std::int64_t> steps;
    for (std::int64_t step = 1; step <= last; ++step) steps.push_back(step);
    return steps;
  }
  static std::vector<std::int64_t> all_steps() { return steps_to(kSteps); }
  void forget_after(std::int64_t step) {
    const RunFolder run(folder_ / "run");
    for (const auto& entry : run.files().checkpoints.list())
      if (entry.step > step) fs::remove_all(entry.path);
    fs::remove(run.files().report);
    fs::remove(run.files().model);
  }
  double clean_loss() { return run(job({}, {})).validation.loss; }

  TemporaryFolder folder_;
  std::string out_;
};
using UnhealthyRunSlow = UnhealthyRun;

TEST_F(UnhealthyRunSlow, IgnoredSpikeSpoilsModel) {
  const double clean = clean_loss();
  EXPECT_GT(run(job({51}, {})).validation.loss, 2 * clean) << "otherwise the other tests show nothing";
}

TEST_F(UnhealthyRunSlow, SkippedSpikeEndsLikeCleanRun) {
  const double clean = clean_loss();
  const RunReport report = run(job({51, 60}, {.spike = HealthAction::kSkip}));
  EXPECT_EQ(report.engine.skipped_steps, 2);
  EXPECT_EQ(report.steps.spikes, 2);
  EXPECT_EQ(report.steps.rewinds, 0);
  EXPECT_LT(report.validation.loss, 1.1 * clean);
  EXPECT_EQ(logged_steps(), all_steps());
  const auto events = metrics(true);
  ASSERT_EQ(events.size(), 2U);
  EXPECT_EQ(events[0]["step"], 51);
  EXPECT_EQ(events[0]["event"], "skipped");
  EXPECT_EQ(events[0]["reason"], "loss spike");
  EXPECT_GT(events[0]["loss"], events[0]["limit"]);
  EXPECT_EQ(events[1]["step"], 60);
}

TEST_F(UnhealthyRunSlow, RewoundSpikeSkipsItsSamples) {
  const double clean = clean_loss();
  const RunReport report = run(job({51}, {.spike = HealthAction::kRewind, .rewind_batches = 2}));
  EXPECT_EQ(report.steps.rewinds, 1);
  std::int64_t sent = 0;
  for (const json& line : json_lines(read_file(RunFiles(folder_ / "run").metrics)))
    if (line.contains("loss")) sent += line.value("sent_bytes", std::int64_t{0});
  EXPECT_EQ(report.ranks[0].sent_bytes_total, sent) << "steps that were taken back count in neither value";
  EXPECT_EQ(report.steps.spikes, 1);
  EXPECT_EQ(report.engine.skipped_steps, 0) << "the step was taken back";
  EXPECT_EQ(report.steps.losses.size(), static_cast<std::size_t>(kSteps));
  EXPECT_LT(report.validation.loss, 1.1 * clean);
  EXPECT_LT(*std::max_element(report.steps.losses.begin() + 40, report.steps.losses.end()), 10)
      << "the step is not in the history";
  EXPECT_EQ(logged_steps(), all_steps());
  const std::int64_t samples = (51 + 2) * kSamples;
  EXPECT_TRUE(says(out_, fmt::format(": continuing after step 40 with sample {}", samples)));
  const auto events = metrics(true);
  ASSERT_EQ(events.size(), 1U);
  EXPECT_EQ(events[0]["event"], "rewound");
  EXPECT_EQ(events[0]["step"], 40);
  EXPECT_EQ(events[0]["from"], 51);
  const json file = json::parse(read_file(folder_ / "run/report.json"));
  EXPECT_EQ(file["rewinds"], 1);
  EXPECT_EQ(file["spikes"], 1);

  // The run is reproducible.
  const RunReport again = run(job({51}, {.spike = HealthAction::kRewind, .rewind_batches = 2}));
  EXPECT_EQ(again.parameters_sha256, report.parameters_sha256);
}

TEST_F(UnhealthyRunSlow, SpikeStopLeavesEarlierCheckpoint) {
  const std::string error = message_of<Error>([&] { run(job({51}, {.spike = HealthAction::kStop})); });
  EXPECT_TRUE(says(error, "step 51: loss "));
  EXPECT_TRUE(says(error, "The last checkpoint is of step 40"));
  EXPECT_EQ(RunFiles(folder_ / "run").checkpoints.list().front().step, 40);
  EXPECT_FALSE(fs::exists(folder_ / "run/report.json"));
  const auto events = metrics(true);
  ASSERT_EQ(events.size(), 1U);
  EXPECT_EQ(events[0]["event"], "stopped");
  EXPECT_EQ(events[0]["step"], 51);
  // With another rule, the same command continues.
  const RunReport report = run(job({51}, {.spike = HealthAction::kSkip}), /*overwrite=*/false);
  EXPECT_EQ(report.engine.skipped_steps, 1);
  EXPECT_TRUE(says(out_, "continuing after step 40"));
}

// A value that is not finite is skipped, rewound or stops the run.
TEST_F(UnhealthyRunSlow, NonFiniteObeysItsOption) {
  constexpr double kOverflows = 1e25;  // its square overflows a float
  const RunReport skipped = run(job({3}, {}, kOverflows));
  EXPECT_EQ(skipped.engine.skipped_steps, 1);
  EXPECT_EQ(skipped.steps.spikes, 0);
  EXPECT_EQ(metrics(true).at(0)["reason"], "not finite");
  const RunReport rewound = run(job({3}, {.non_finite = HealthAction::kRewind}, kOverflows));
  EXPECT_EQ(rewound.steps.rewinds, 1);
  EXPECT_EQ(rewound.engine.skipped_steps, 0);
  EXPECT_TRUE(says(out_, "continuing after step 0 with sample 24"));
  EXPECT_EQ(logged_steps(), all_steps());
  EXPECT_TRUE(says(message_of<Error>([&] { run(job({3}, {.non_finite = HealthAction::kStop}, kOverflows)); }),
                   "step 3: the gradient of linear.weight is not finite"));
}

// The run rewinds only once if it also leaves out the second bad step.
TEST_F(UnhealthyRunSlow, ConsecutiveBadStepsRewindAgain) {
  EXPECT_EQ(run(job({51, 52}, {.spike = HealthAction::kRewind})).steps.rewinds, 2);
  EXPECT_EQ(run(job({51, 52}, {.spike = HealthAction::kRewind, .rewind_batches = 1})).steps.rewinds, 1);
}

TEST_F(UnhealthyRunSlow, LimitsRewindsPerCheckpoint) {
  // Every step after the first bad step is also bad.
  std::set<std::int64_t> bad;
  for (std::int64_t step = 51; step <= kSteps; ++step) bad.insert(step);
  const std::string error =
      message_of<Error>([&] { run(job(bad, {.spike = HealthAction::kRewind, .max_rewinds = 2})); });
  EXPECT_TRUE(says(error, "after 2 rewinds to step 40"));
  const auto events = metrics(true);
  ASSERT_EQ(events.size(), 3U);
  EXPECT_EQ(events[0]["event"], "rewound");
  EXPECT_EQ(events[1]["event"], "rewound");
  EXPECT_EQ(events[2]["event"], "stopped");
  EXPECT_GT(events[1]["samples"], events[0]["samples"]);
}

// The run ends after too many skips in a row. Every step is written.
TEST_F(UnhealthyRunSlow, ManySkipsEndRun) {
  TrainJob spiky = job({44, 51, 52, 53}, {.spike = HealthAction::kSkip});
  spiky.attach.max_skipped_steps = 3;
  spiky.train.log_every = 1000;  // steps are not exchanged for printing
  spiky.checkpoint.every_steps = 52;
  for (const bool overwrite : {true, false}) {  // the second run continues and also counts skips before it
    const std::string error = message_of<Error>([&] { run(spiky, overwrite); });
    EXPECT_TRUE(says(error, "step 53: loss "));
    EXPECT_TRUE(says(error, ", the last of 3 skipped steps in a row\n  The last checkpoint is of step 52"));
    EXPECT_TRUE(says(error, "lower the learning rate"));
    EXPECT_EQ(logged_steps(), steps_to(53));
    std::vector<std::string> events;
    for (const json& event : metrics(true))
      events.push_back(fmt::format("{} {}", event["step"].dump(), event["event"].dump()));
    EXPECT_EQ(events,
              (std::vector<std::string>{"44 \"skipped\"", "51 \"skipped\"", "52 \"skipped\"", "53 \"stopped\""}));
  }
}

// A run that continues after a kill decides alike.
TEST_F(UnhealthyRunSlow, ContinuedRunDecidesAlike) {
  for (const HealthAction action : {HealthAction::kSkip, HealthAction::kRewind}) {
    const TrainJob whole = job({44, 51, 71}, {.spike = action});
    const RunReport expected = run(whole);
    ASSERT_EQ(expected.steps.spikes, 3) << "earlier spikes do not hide the second and third";
    for (const std::int64_t killed_after : {60, 40, 20}) {
      forget_after(killed_after);
      const RunReport resumed = run(whole, /*overwrite=*/false);
      EXPECT_EQ(resumed.parameters_sha256, expected.parameters_sha256) << "after " << killed_after;
      EXPECT_EQ(resumed.steps.losses, expected.steps.losses);
      EXPECT_EQ(resumed.steps.grad_norms, expected.steps.grad_norms);
      EXPECT_EQ(resumed.steps.spikes, expected.steps.spikes);
      EXPECT_EQ(resumed.steps.rewinds, expected.steps.rewinds);
      EXPECT_EQ(resumed.engine.skipped_steps, expected.engine.skipped_steps);
    }
  }
}

TEST_F(UnhealthyRunSlow, WatchingCleanRunKeepsBits) {
  for (int stage = 0; stage <= 3; ++stage) {
    TrainJob plain = job({}, {});
    plain.attach.stage = stage;
    const RunReport expected = run(plain);
    plain.health = {.non_finite = HealthAction::kRewind, .spike = HealthAction::kRewind, .check_replicas = 3};
    const RunReport watched = run(plain);
    EXPECT_EQ(watched.parameters_sha256, expected.parameters_sha256) << "stage " << stage;
    EXPECT_EQ(watched.steps.losses, expected.steps.losses);
    EXPECT_EQ(watched.steps.rewinds, 0);
    EXPECT_EQ(out_.find("nothing is compared") != std::string::npos, stage == 3) << out_;
  }
}

TEST_F(UnhealthyRunSlow, DifferingReplicaStopsBeforeSave) {
  TrainJob watched = job({}, {.check_replicas = 100});  // only before each checkpoint
  EXPECT_TRUE(says(message_of<Error>([&] { run_with_flip(watched, 51); }), "step 60: rank 2 differs in unit 0"));
  EXPECT_EQ(RunFiles(folder_ / "run").checkpoints.list().front().step, 40);
  watched.health.check_replicas = 4;
  EXPECT_TRUE(says(message_of<Error>([&] { run_with_flip(watched, 51); }), "step 52: rank 2 differs in unit 0"));
}

TEST_F(UnhealthyRunSlow, DifferingReplicaRewindsToCleanRun) {
  TrainJob watched = job({}, {.check_replicas = 4, .on_corruption = HealthAction::kRewind});
  watched.attach.stage = 0;
  const RunReport clean = run_with_flip(watched, 1000000).report;
  EXPECT_EQ(clean.steps.rewinds, 0);
  const RunReport rewound = run_with_flip(watched, 51).report;
  EXPECT_EQ(rewound.steps.rewinds, 1);
  EXPECT_EQ(rewound.parameters_sha256, clean.parameters_sha256);
  EXPECT_EQ(rewound.steps.losses, clean.steps.losses);
  EXPECT_EQ(metrics(true).at(0)["reason"], "replicas differ");
  EXPECT_EQ(metrics(true).at(0)["detail"], "rank 2 differs in unit 0 (root)");
}

TEST_F(UnhealthyRunSlow, SignalSavesNoDifferingReplica) {
  TrainJob watched = job({}, {.check_replicas = 100});
  const StopSignal stop;
  ::raise(SIGTERM);  // takes effect after the first step
  ASSERT_EQ(stop.pending(), SIGTERM);
  const TrainResult stopped = run_with_flip(watched, 1, &stop);
  EXPECT_EQ(stopped.stop_signal, SIGTERM);
  EXPECT_FALSE(stopped.saved) << "the status is the signal's";
  EXPECT_FALSE(stopped.save_failed);
  EXPECT_TRUE(says(out_, "step 1 is not saved: rank 2 differs in unit 0 (root)\n"));
  EXPECT_TRUE(says(out_, "stopped by signal 15 after step 1\n"));
  EXPECT_TRUE(RunFiles(folder_ / "run").checkpoints.list().empty());
}

// The checkpoint in memory is newer than the one on disk.
TEST_F(UnhealthyRunSlow, RewindPrefersNewerMemoryCopy) {
  const HealthOptions rewinds{.spike = HealthAction::kRewind};
  Launcher launcher, nobody;
  TrainJob on_disk = job({51}, rewinds);
  on_disk.checkpoint = {.every_steps = 7, .keep = 100};
  const RunReport expected = run_alone(on_disk, nobody);
  EXPECT_TRUE(says(out_, ": continuing after step 49 with sample "));
  TrainJob in_memory = job({51}, rewinds);
  in_memory.checkpoint = {.every_steps = 20, .keep = 100, .memory_every = 7};
  const RunReport report = run_alone(in_memory, launcher);
  EXPECT_EQ(report.steps.rewinds, 1);
  EXPECT_TRUE(says(out_, "in-memory checkpoint: step 7, "));
  EXPECT_TRUE(says(out_, ": continuing after step 49 with sample ")) << "the newest checkpoint on disk is from step 40";
  EXPECT_EQ(report.parameters_sha256, expected.parameters_sha256);
  EXPECT_EQ(report.steps.losses, expected.steps.losses);
  EXPECT_EQ(logged_steps(), all_steps());
}

// Evaluations that were taken back are repeated.
TEST_F(UnhealthyRunSlow, RepeatedEvaluationsKeepBits) {
  TrainJob without = job({51}, {.spike = HealthAction::kRewind});
  const RunReport expected = run(without);
  TrainJob with = without;
  with.train.eval_every = 10;
  with.train.eval_batches = 1;
  const RunReport report = run(with);
  EXPECT_EQ(report.steps.rewinds, 1);
  EXPECT_EQ(report.parameters_sha256, expected.parameters_sha256);
  EXPECT_EQ(report.steps.losses, expected.steps.losses);
  EXPECT_EQ(report.validation.loss, expected.validation.loss);
  EXPECT_EQ(logged_steps(), all_steps());
  std::vector<std::int64_t> evaluated;
  for (const json& line : metrics(false))
    if (line.contains("val_loss")) evaluated.push_back(line["step"]);
  EXPECT_EQ(evaluated, (std::vector<std::int64_t>{10, 20, 30, 40, 50, 60, 70, 80}));
}

// The run is refused before it starts.
TEST_F(UnhealthyRunSlow, RefusesRewindWithoutCheckpoints) {
  TrainJob without = job({}, {.spike = HealthAction::kRewind});
  without.checkpoint = {};
  EXPECT_TRUE(says(message_of<ConfigError>([&] { run(without); }), "health.spike = rewind"));
  EXPECT_FALSE(fs::exists(folder_ / "run"));
}

}  // namespace
}  // namespace zero
