#include "app/train/run/parts/run_log.h"

#include <csignal>
#include <sstream>

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>
#include <sys/resource.h>

#include "zero/base/error/error.h"
#include "zero/base/files/file.h"

#include "tests/comm/transport/worlds.h"
#include "tests/report/event_reader.h"
#include "tests/support/json_lines.h"
#include "tests/support/message_of.h"
#include "tests/support/temporary_folder.h"

namespace zero {
namespace {

using nlohmann::json;

// A run of four steps that prints every second step.
struct Logged {
  Logged(const std::filesystem::path& path, Communicator& comm)
      : folder(path),
        progress(out, {.silent = comm.rank() != 0}, 4, "tok/s"),
        log(folder, progress, StepHistory(2, 4), TimeLeft(4), comm) {
    if (comm.rank() == 0) folder.create();
    log.begin();
  }
  int step(std::int64_t number, double loss, int signal = 0) {
    log.add(StepMetrics{.step = number, .loss = loss, .seconds = 0.1, .tokens = 10});
    return log.exchange(signal);
  }
  std::vector<json> lines() const { return json_lines(read_file(folder.files().metrics)); }
  std::ostringstream out;
  RunFolder folder;
  Progress progress;
  RunLog log;
};

// Every rank receives the signal.
TEST(RunLog, FirstRankWritesTheMean) {
  const TemporaryFolder folder;
  run_ranks(2, [&](World& world) {
    Logged run(folder / "run", world.communicator());
    EXPECT_EQ(run.step(1, world.rank() + 1), 0);
    EXPECT_EQ(run.step(2, world.rank() + 3, world.rank() == 1 ? 15 : 0), 15);
    EXPECT_EQ(run.log.history().losses(), (std::vector<float>{1.5F, 3.5F}));
    if (world.rank() != 0) return;
    const auto lines = run.lines();
    ASSERT_EQ(lines.size(), 2U);
    EXPECT_EQ(lines[0]["loss"], 1.5);
    EXPECT_EQ(lines[1]["loss"], 3.5);
    EXPECT_TRUE(says(run.out.str(), "step 2/4  loss 3.5"));
  });
}

TEST(RunLog, RewoundLinesAreNotWritten) {
  const TemporaryFolder folder;
  std::vector<World> worlds = World::in_process(1, {});
  Logged run(folder / "run", worlds.front().communicator());
  for (std::int64_t step = 1; step <= 3; ++step) run.step(step, 1);
  run.log.add(EvaluationMetrics{.step = 3, .val_loss = 7});
  run.log.take_back(1);
  run.log.report(HealthEvent{.action = HealthAction::kRewind, .step = 3, .back_to = 1, .reason = "not finite"});
  run.step(2, 5);
  const auto lines = run.lines();
  ASSERT_EQ(lines.size(), 3U);
  EXPECT_EQ(lines[0]["step"], 1);
  EXPECT_EQ(lines[1]["event"], "rewound");
  EXPECT_EQ(lines[2]["loss"], 5);
  EXPECT_GT(lines[1]["t"], 1e9) << "the line has a time";
  EXPECT_TRUE(says(run.out.str(), "continuing after step 1"));
}

TEST(RunLog, DrawsStepsOnceWithEvaluations) {
  const TemporaryFolder folder;
  run_ranks(2, [&](World& world) {
    Logged run(folder / "run", world.communicator());
    if (world.rank() == 0) run.log.draw({.config = "[run]\n"});
    for (std::int64_t step = 1; step <= 3; ++step) run.step(step, static_cast<double>(step + world.rank()));
    run.log.take_back(2);
    run.log.add(EvaluationMetrics{.step = 2, .val_loss = 7});
    run.log.finish();
    if (world.rank() != 0) return;
    const auto files = event_files_in(run.folder.files().tensorboard);
    ASSERT_EQ(files.size(), 1U) << "only the first rank's";
    const auto events = read_events(files[0]);
    ASSERT_EQ(events.size(), 8U);
    EXPECT_EQ(events[2].texts.at("configuration"), "    [run]\n    ");
    EXPECT_EQ(events[5].scalars.at("train/loss"), 3.5F);
    EXPECT_TRUE(events[6].starts);
    EXPECT_EQ(events[6].step, 3);
    EXPECT_EQ(events[7].scalars.at("validation/val_loss"), 7);
    EXPECT_GT(events[7].time, 1e9);
  });
}

// The live line follows steps between two printed lines.
TEST(RunLog, LiveLineFollowsSteps) {
  const TemporaryFolder folder;
  std::vector<World> worlds = World::in_process(1, {});
  std::ostringstream out;
  RunFolder place(folder / "run");
  place.create();
  Progress progress(out, {.terminal = true, .columns = 80}, 40, "tok/s");
  RunLog log(place, progress, StepHistory(20, 40), TimeLeft(40), worlds.front().communicator());
  log.begin();
  for (std::int64_t step = 1; step <= 2; ++step) {
    log.add(StepMetrics{.step = step, .loss = 1.5, .seconds = 0.5, .tokens = 10});
    log.exchange(0);
  }
  EXPECT_TRUE(says(out.str(), "  5%  19 s left  step 2/40  loss 1.5000  20 tok/s"));
}

// While it exists, files of this process grow to at most `bytes` bytes.
class FileLimit {
 public:
  explicit FileLimit(std::uintmax_t bytes) {
    std::signal(SIGXFSZ, SIG_IGN);
    getrlimit(RLIMIT_FSIZE, &before_);
    const rlimit limit{.rlim_cur = bytes, .rlim_max = before_.rlim_max};
    EXPECT_EQ(setrlimit(RLIMIT_FSIZE, &limit), 0);
  }
  ~FileLimit() { setrlimit(RLIMIT_FSIZE, &before_); }
  FileLimit(const FileLimit&) = delete;
  FileLimit& operator=(const FileLimit&) = delete;

 private:
  rlimit before_{};
};

// A run of one rank. Its first step is written.
class RunLogOnAFullDisk : public testing::Test {
 protected:
  RunLogOnAFullDisk() : worlds_(World::in_process(1, {})), run_(folder_ / "run", worlds_.front().communicator()) {
    run_.step(1, 1);
  }
  std::uintmax_t bytes() const { return std::filesystem::file_size(run_.folder.files().metrics); }

  TemporaryFolder folder_;
  std::vector<World> worlds_;
  Logged run_;
};

// The file never has half of a line.
TEST_F(RunLogOnAFullDisk, UnwritableLinesAreKeptWhole) {
  {
    const FileLimit limit(bytes() + 100);
    run_.step(2, 2);
    run_.step(3, 3);
    EXPECT_EQ(run_.lines().size(), 1U);
    const auto fill = [this] {
      const std::string long_reason(1 << 20, 'x');
      for (int i = 0; i < 20; ++i) run_.log.report(HealthEvent{.action = HealthAction::kSkip, .reason = long_reason});
    };
    EXPECT_THROW(fill(), IoError) << "lines do not wait for ever";
  }
  run_.step(4, 4);
  EXPECT_EQ(run_.lines().back()["step"], 4);
  EXPECT_EQ(run_.lines()[2]["step"], 3);
}

// Steps are taken back while their lines wait to be written.
TEST_F(RunLogOnAFullDisk, WaitingRewindIsWrittenLater) {
  run_.step(2, 1);
  {
    const FileLimit limit(1);  // even existing lines could not be written again
    run_.step(3, 3);
    run_.step(4, 4);
    run_.log.take_back(3);
    run_.log.take_back(2);
    run_.step(3, 5);
  }
  run_.step(4, 6);
  const auto lines = run_.lines();
  ASSERT_EQ(lines.size(), 4U);
  for (std::size_t i = 0; i < lines.size(); ++i) EXPECT_EQ(lines[i]["step"], i + 1);
  EXPECT_EQ(lines[2]["loss"], 5);
}

TEST_F(RunLogOnAFullDisk, RewindKeepsWaitingLines) {
  {
    const FileLimit limit(bytes() + 100);
    run_.step(2, 2);
    run_.step(3, 3);
    run_.log.take_back(2);
  }
  run_.step(3, 4);
  const auto lines = run_.lines();
  ASSERT_EQ(lines.size(), 3U);
  EXPECT_EQ(lines[1]["loss"], 2);
  EXPECT_EQ(lines[2]["loss"], 4);
}

// The run does not end before its lines are written.
TEST_F(RunLogOnAFullDisk, RunWaitsForItsLines) {
  {
    const FileLimit limit(bytes() + 100);
    run_.step(2, 2);
    EXPECT_THROW(run_.log.finish(), IoError);
  }
  EXPECT_NO_THROW(run_.log.finish());
  EXPECT_EQ(run_.lines().size(), 2U);
}

TEST_F(RunLogOnAFullDisk, RemovesHalfLineAfterFailure) {
  AppendFile(run_.folder.files().metrics).append("{\"step\": 2, \"lo");
  run_.step(2, 2);
  EXPECT_EQ(run_.lines().size(), 2U);
}

}  // namespace
}  // namespace zero
