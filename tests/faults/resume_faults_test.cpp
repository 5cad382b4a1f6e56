// `zero train` that is killed, in any of its processes and at any moment, and goes on by itself or by the same command:
// it ends with the weights of a run that was left alone. ZERO_KILLS sets how often (200: docs/reliability.md).
#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iostream>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "../temporary_folder.h"
#include "fault_test.h"

namespace zero {
namespace {

namespace fs = std::filesystem;
using std::chrono::milliseconds;
constexpr int kWorld = 4;

class ResumeFaults : public FaultTest {
 protected:
  void SetUp() override {
    if (!ZERO_CAN_TRAIN) GTEST_SKIP() << "this build has no libtorch, and `zero train` needs it";
  }

  // A small GPT-2 with dropout that takes some seconds.
  std::vector<std::string> train(const std::string& run, const std::vector<std::string>& more = {}) {
    std::vector<std::string> command{ZERO_COMMAND, "train", "-n", std::to_string(kWorld)};
    const auto set = [&](const std::string& key, const std::string& value) {
      command.push_back("--" + key);
      command.push_back(value);
    };
    set("model.layers", "1");
    set("model.width", "32");
    set("model.heads", "2");
    set("model.context", "32");
    set("model.dropout", "0.1");
    set("data.path", ZERO_SOURCE_DIR "/examples/shakespeare/input.txt");
    set("data.validation", "0");
    set("train.steps", "45");
    set("train.log_every", "1");
    set("checkpoint.every", "7");
    set("run.max_restarts", "20");
    set("run.threads", "1");
    set("run.dir", folder_ / run);
    command.insert(command.end(), more.begin(), more.end());
    return command;
  }

  std::string weights_of(const std::string& run) {
    std::ifstream file(folder_ / run / "report.json");
    return nlohmann::json::parse(file, nullptr, false).value("parameters_sha256", "none");
  }
  std::vector<std::string> names_in(const std::string& run) {
    std::vector<std::string> names;
    for (const auto& entry : fs::recursive_directory_iterator(folder_ / run)) names.push_back(entry.path().filename());
    return names;
  }

  static int num_kills() {
    const char* const wanted = std::getenv("ZERO_KILLS");
    return wanted != nullptr ? std::atoi(wanted) : 4;
  }

  TemporaryFolder folder_;
};

TEST_F(ResumeFaults, KilledAnywhereAtAnyMomentItEndsWithTheSameWeights) {
  WatchedCommand undisturbed(train("undisturbed"));
  ASSERT_EQ(undisturbed.finish(), 0) << undisturbed.text();
  const std::string expected = weights_of("undisturbed");
  std::vector<double> seconds;
  for (int kill_number = 0; kill_number < num_kills() && !HasFailure(); ++kill_number) {
    const int victim = any_rank(kWorld + 1);  // kWorld: the launcher
    SCOPED_TRACE(
        fmt::format("kill {}, {}", kill_number, victim == kWorld ? "the launcher" : fmt::format("rank {}", victim)));
    const std::string run = fmt::format("run-{}", kill_number);
    // Every other one also has copies in memory, which are newer than what is on disk.
    const auto trained = [&](std::vector<std::string> more) {
      if (kill_number % 2 == 1) more.insert(more.end(), {"--checkpoint.memory_every", "2"});
      return train(run, more);
    };
    auto command = std::make_unique<WatchedCommand>(trained({}));
    const bool late = kill_number % 3 != 0;  // else perhaps before the first checkpoint
    ASSERT_TRUE(!late || command->wait_for("\nstep 15/")) << command->text();
    std::this_thread::sleep_for(any_moment(milliseconds(late ? 150 : 2500)));
    auto killed = Clock::now();
    if (victim == kWorld) {
      command->send(SIGKILL);
      EXPECT_TRUE(command->gone_before(killed + kAllGone)) << "orphans: " << command->text();
      killed = Clock::now();
      command = std::make_unique<WatchedCommand>(
          trained(late ? std::vector<std::string>{} : std::vector<std::string>{"--overwrite"}));
    } else {
      const pid_t pid = command->wait_for_rank(victim);
      if (pid > 0) ::kill(pid, SIGKILL);
    }
    if (late && command->wait_for("continuing after step"))
      seconds.push_back(std::chrono::duration<double>(Clock::now() - killed).count());
    EXPECT_EQ(command->finish(), 0) << command->text();
    EXPECT_EQ(weights_of(run), expected) << command->text();
    for (const std::string& name : names_in(run)) EXPECT_FALSE(name.ends_with(".tmp")) << name;
  }
  if (seconds.empty()) return;
  std::ranges::sort(seconds);
  std::cout << fmt::format("from kill to going on: median {:.2f} s, p99 {:.2f} s of {}\n", seconds[seconds.size() / 2],
                           seconds[seconds.size() * 99 / 100], seconds.size());
}

TEST_F(ResumeFaults, WithoutADiskItGoesOnFromTheCopyThatTheLauncherKept) {
  WatchedCommand undisturbed(train("undisturbed"));
  ASSERT_EQ(undisturbed.finish(), 0) << undisturbed.text();
  WatchedCommand command(train("killed", {"--checkpoint.every", "0", "--checkpoint.memory_every", "3"}));
  for (const char* step : {"\nstep 10/", "\nstep 30/"}) {  // twice: new ranks keep copies, too
    ASSERT_TRUE(command.wait_for(step)) << command.text();
    strike(command.wait_for_rank(any_rank(kWorld)), SIGKILL);
  }
  EXPECT_EQ(command.finish(), 0) << command.text();
  EXPECT_SAYS(command, "a copy in memory that the launcher kept, saved by 4 ranks");
  EXPECT_EQ(weights_of("killed"), weights_of("undisturbed")) << command.text();
  EXPECT_FALSE(fs::exists(folder_ / "killed/checkpoints"));
}

TEST_F(ResumeFaults, AskedToStopItSavesAndTheSameCommandContinues) {
  for (const int signal : {SIGTERM, SIGUSR1}) {
    const std::string run = fmt::format("signal-{}", signal);
    WatchedCommand command(train(run));
    ASSERT_TRUE(command.wait_for("\nstep 20/")) << command.text();
    command.send(signal);
    EXPECT_EQ(command.finish(), 0) << command.text();
    EXPECT_SAYS(command, "the same command continues");
    WatchedCommand again(train(run));
    EXPECT_EQ(again.finish(), 0) << again.text();
    EXPECT_SAYS(again, "continuing after step ");
    EXPECT_EQ(weights_of(run).size(), 64u);
  }
  EXPECT_EQ(weights_of("signal-10"), weights_of("signal-15"));
}

TEST_F(ResumeFaults, AStepThatFailsThreeTimesEndsTheRun) {
  // A file where checkpoints should be: every attempt fails at the first save.
  fs::create_directory(folder_ / "run");
  std::ofstream(folder_ / "run/checkpoints") << "in the way";
  WatchedCommand command(train("run", {"--checkpoint.on_error", "stop"}));
  EXPECT_EQ(command.finish(), 4) << command.text();
  EXPECT_SAYS(command, "3 failures in a row before the first checkpoint: not started again");
}

}  // namespace
}  // namespace zero
