// `zero train` that is killed, in any of its processes and at any moment, and goes on by itself or by the same command:
// it ends with the weights of a run that was left alone. ZERO_KILLS sets how often (4 without it; how often it was
// done: docs/reliability.md).
#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <iostream>

#include <fmt/format.h>

#include "train_fault_test.h"

namespace zero {
namespace {

namespace fs = std::filesystem;
using std::chrono::milliseconds;
constexpr int kWorld = 4;

class ResumeFaults : public TrainFaultTest {
 protected:
  // With dropout; it takes some seconds.
  std::vector<std::string> four_ranks(const std::string& run, const std::vector<std::string>& more = {}) const {
    return train(run, {"-n", std::to_string(kWorld)},
                 {{"model.dropout", "0.1"},
                  {"data.validation", "0"},
                  {"train.steps", "45"},
                  {"train.log_every", "1"},
                  {"checkpoint.every", "7"},
                  {"run.max_restarts", "20"},
                  {"run.threads", "1"}},
                 more);
  }

  // Long enough for kills at any moment of it.
  std::vector<std::string> many_steps(const std::string& run, const std::vector<std::string>& more = {}) const {
    std::vector<std::string> all{"--train.steps", "400", "--checkpoint.every", "40"};
    all.insert(all.end(), more.begin(), more.end());
    return four_ranks(run, all);
  }

  std::string weights_of(const std::string& run) const { return report_of(run).value("parameters_sha256", "none"); }
  std::vector<std::string> names_in(const std::string& run) {
    std::vector<std::string> names;
    for (const auto& entry : fs::recursive_directory_iterator(folder_ / run)) names.push_back(entry.path().filename());
    return names;
  }

  static int num_kills() {
    const char* const wanted = std::getenv("ZERO_KILLS");
    return wanted != nullptr ? std::atoi(wanted) : 4;
  }
};

// A kill at a random moment of a run that would have taken `span`. Nothing when it was over by then.
class Kill {
 public:
  Kill(WatchedCommand& command, int victim, Clock::time_point moment) {
    command.read_until(moment);
    at_ = Clock::now();
    if (victim == kWorld) {
      command.send(SIGKILL);
      hit_ = command.finish() == 128 + SIGKILL;
      return;
    }
    const pid_t pid = command.wait_for_rank(victim);
    hit_ = pid > 0 && ::kill(pid, SIGKILL) == 0;
    at_ = Clock::now();
  }
  bool hit() const { return hit_; }
  double seconds() const { return std::chrono::duration<double>(Clock::now() - at_).count(); }

 private:
  bool hit_ = false;
  Clock::time_point at_;
};

TEST_F(ResumeFaults, KilledAnywhereAtAnyMomentItEndsWithTheSameWeights) {
  const auto begin = Clock::now();
  WatchedCommand undisturbed(many_steps("undisturbed"));
  ASSERT_EQ(undisturbed.finish(), 0) << undisturbed.text();
  const auto span = std::chrono::duration_cast<milliseconds>(Clock::now() - begin);
  const std::string expected = weights_of("undisturbed");
  std::vector<double> seconds;
  int hits = 0, trained = 0;
  for (int trial = 0; hits < num_kills() && !HasFailure(); ++trial) {
    ASSERT_LT(trial, 3 * num_kills() + 10) << "most kills come too late";
    const int victim = any_rank(kWorld + 1);  // kWorld: the launcher
    SCOPED_TRACE(
        fmt::format("trial {}, {}", trial, victim == kWorld ? "the launcher" : fmt::format("rank {}", victim)));
    const std::string run = fmt::format("run-{}", trial);
    // Every other one also has copies in memory, which are newer than what is on disk.
    const std::vector<std::string> words = many_steps(
        run, trial % 2 == 1 ? std::vector<std::string>{"--checkpoint.memory_every", "2"} : std::vector<std::string>{});
    auto command = std::make_unique<WatchedCommand>(words);
    const Kill kill(*command, victim, Clock::now() + any_moment(span));
    hits += kill.hit() ? 1 : 0;
    trained += kill.hit() && command->text().find("\nstep ") != std::string::npos ? 1 : 0;
    if (victim == kWorld && kill.hit()) {
      EXPECT_TRUE(command->gone_before(Clock::now() + kAllGone)) << "orphans: " << command->text();
      command = std::make_unique<WatchedCommand>(words);
    }
    const std::string again = "continuing after step";
    if (kill.hit() && command->wait_for(again) && command->wait_for("\nstep ", command->text().find(again)))
      seconds.push_back(kill.seconds());
    EXPECT_EQ(command->finish(), 0) << command->text();
    EXPECT_TRUE(command->gone_before(Clock::now() + kAllGone)) << "orphans: " << command->text();
    EXPECT_EQ(weights_of(run), expected) << command->text();
    for (const std::string& name : names_in(run)) EXPECT_FALSE(name.ends_with(".tmp")) << name;
    fs::remove_all(folder_ / run);
  }
  if (seconds.empty()) return;
  std::ranges::sort(seconds);
  std::cout << fmt::format(
      "{} kills, {} of them of a run that had made a step; {} went on from a checkpoint, kill to next step: "
      "median {:.2f} s, p99 {:.2f} s, at most {:.2f} s\n",
      hits, trained, seconds.size(), seconds[seconds.size() / 2], seconds[seconds.size() * 99 / 100], seconds.back());
}

TEST_F(ResumeFaults, WithoutADiskItGoesOnFromTheCopyThatTheLauncherKept) {
  WatchedCommand undisturbed(four_ranks("undisturbed"));
  ASSERT_EQ(undisturbed.finish(), 0) << undisturbed.text();
  WatchedCommand command(four_ranks("killed", {"--checkpoint.every", "0", "--checkpoint.memory_every", "3"}));
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
  WatchedCommand undisturbed(four_ranks("undisturbed"));
  ASSERT_EQ(undisturbed.finish(), 0) << undisturbed.text();
  for (const int signal : {SIGTERM, SIGUSR1}) {
    const std::string run = fmt::format("signal-{}", signal);
    WatchedCommand command(four_ranks(run));
    ASSERT_TRUE(command.wait_for("\nstep 20/")) << command.text();
    command.send(signal);
    EXPECT_EQ(command.finish(), 0) << command.text();
    EXPECT_SAYS(command, "the same command continues");
    WatchedCommand again(four_ranks(run));
    EXPECT_EQ(again.finish(), 0) << again.text();
    EXPECT_SAYS(again, "continuing after step ");
    EXPECT_EQ(weights_of(run), weights_of("undisturbed")) << again.text();
  }
}

TEST_F(ResumeFaults, AStepThatFailsThreeTimesEndsTheRun) {
  // A file where checkpoints should be: every attempt fails at the first save.
  fs::create_directory(folder_ / "run");
  std::ofstream(folder_ / "run/checkpoints") << "in the way";
  WatchedCommand command(four_ranks("run", {"--checkpoint.on_error", "stop"}));
  EXPECT_EQ(command.finish(), 4) << command.text();
  EXPECT_SAYS(command, "3 failures in a row with nothing to go on from: not started again");
}

}  // namespace
}  // namespace zero
