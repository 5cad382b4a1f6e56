// In-memory checkpoints of `zero launch` on two machines. If a rank or a server dies, only the steps since the newest
// checkpoint are lost. If a launcher dies, all ranks continue from the disk. The machines are network namespaces.
#include <fmt/format.h>

#include "tests/faults/hosts/hosts_fault_test.h"
#include "tests/faults/restarts.h"
#include "tests/support/tier.h"

namespace zero {
namespace {

using std::chrono::milliseconds;
using Flags = std::vector<std::string>;

class MemoryHostsFaults : public HostsFaultTest {
 protected:
  std::vector<std::string> training(const std::string& run, const Flags& flags, const Flags& keys) const {
    return train(run, flags,
                 {{"data.validation", "0"},
                  {"train.steps", "60"},
                  {"train.log_every", "1"},
                  {"checkpoint.every", "0"},
                  {"comm.transport", "gloo"},
                  {"run.threads", "1"}},
                 keys);
  }
  std::vector<std::string> launcher(int host, const std::string& run, int ranks_of_each, const Flags& keys,
                                    Flags flags = {}) const {
    flags.insert(flags.begin(), {"-n", std::to_string(ranks_of_each), "--max-restarts", "9"});
    return launch_on(host, flags, training(run, {}, keys));
  }
  // The step from which all ranks continued, by the first such line after `from`, or -1 if there is none.
  static std::int64_t went_on_from(WatchedCommand& command, std::size_t from = 0) {
    const std::string line = "continuing after step ";
    if (!command.wait_for(line, from) || !command.wait_for("\n", command.text().find(line, from))) return -1;
    return std::atoll(command.text().c_str() + command.text().find(line, from) + line.size());
  }
  void expect_end_as(const std::string& undisturbed, const std::string& run, WatchedCommand& first,
                     WatchedCommand& second) const {
    EXPECT_EQ(first.finish(), 0) << first.text();
    EXPECT_EQ(second.finish(), 0) << second.text();
    EXPECT_EQ(weights_of(run), undisturbed) << first.text();
    for (WatchedCommand* const command : {&first, &second}) expect_nothing_left(*command);
  }
};

constexpr const char* kFromMemory = "an in-memory checkpoint that the launchers kept";

// A dead rank costs only the steps since the newest checkpoint in memory. A dead launcher costs the steps since the
// newest checkpoint on disk.
TEST_F(MemoryHostsFaults, DeadLauncherFallsBackToDisk) {
  const Undisturbed undisturbed = leave_alone(training("undisturbed", {"-n", "2"}, {}), "undisturbed");
  for (const std::string& stage : in_full_tier() ? Flags{"0", "1", "2", "3"} : Flags{"1"}) {
    SCOPED_TRACE(stage);
    const std::string run = "run-" + stage;
    const Flags keys{"--checkpoint.memory_every", "3", "--checkpoint.every", "10", "--zero.stage", stage};
    WatchedCommand first(launcher(0, run, 1, keys)), second(launcher(1, run, 1, keys));
    ASSERT_TRUE(first.wait_for("\nstep 17/")) << first.text() << second.text();
    strike(second.wait_for_rank(1), SIGKILL);
    const std::int64_t step = went_on_from(first);
    // Steps are fast. If the kill came after step 20, the newest checkpoint may be on disk.
    const bool from_disk = step % 10 == 0;
    EXPECT_TRUE(step >= 15 && (from_disk || step % 3 == 0)) << first.text() << second.text();
    if (!from_disk) {
      EXPECT_SAYS(first, kFromMemory);
    }

    ASSERT_TRUE(first.wait_for(fmt::format("\nstep {}/", step + 4))) << first.text() << second.text();
    const std::size_t said = first.text().size();
    second.send(SIGKILL);
    EXPECT_EQ(second.finish(), 128 + SIGKILL);
    WatchedCommand anew(launcher(1, run, 1, keys));
    const std::int64_t on_disk = went_on_from(first, said);
    EXPECT_TRUE(on_disk >= 10 && on_disk % 10 == 0) << first.text() << anew.text();
    EXPECT_SAYS(first, "is not used: the launcher of rank 1 does not have it");
    expect_end_as(undisturbed.weights, run, first, anew);
  }
}

// A server of either machine dies. Rank 3 is the only worker, so an undisturbed run always has the same bits. The third
// server is on the second machine.
TEST_F(MemoryHostsFaults, DeadServerCostsStepsSinceNewest) {
  for (const std::string& mode : in_full_tier() ? Flags{"async", "stale"} : Flags{"async"}) {
    const Flags servers{"--sync.mode", mode, "--sync.servers", "3", "--sync.staleness", "2", "--train.steps", "100"};
    const std::string whole = "whole-" + mode;
    const Undisturbed undisturbed = leave_alone(training(whole, {"-n", "4"}, servers), whole);
    for (int victim = 2; victim >= (in_full_tier() ? 0 : 2); --victim) {
      SCOPED_TRACE(fmt::format("{}, server {}", mode, victim));
      const std::string run = fmt::format("{}-{}", mode, victim);
      Flags keys = servers;
      keys.insert(keys.end(), {"--checkpoint.memory_every", "5"});
      const Flags spared{"--spared-from", "3"};
      WatchedCommand first(launcher(0, run, 2, keys, spared)), second(launcher(1, run, 2, keys, spared));
      ASSERT_TRUE(first.wait_for("\nstep 30/")) << first.text() << second.text();
      strike((victim == 2 ? second : first).wait_for_rank(victim), SIGKILL);
      const std::int64_t step = went_on_from(first);
      EXPECT_TRUE(step >= 25 && step % 5 == 0) << first.text() << second.text();
      EXPECT_SAYS(first, kFromMemory);
      expect_end_as(undisturbed.weights, run, first, second);
    }
  }
}

// A rank dies at any moment. Each step saves in memory, so many deaths interrupt a save. The disk has no checkpoint.
TEST_F(MemoryHostsFaults, DeadRankCostsOneStep) {
  const Flags group{"--zero.group", "2", "--zero.stage", "3", "--train.steps", in_full_tier() ? "200" : "80"};
  const Undisturbed undisturbed = leave_alone(training("undisturbed", {"-n", "4"}, group), "undisturbed");
  const int rounds = num_trials("ZERO_MEMORY_KILLS", 1, 2), kills = in_full_tier() ? 3 : 1;
  for (int round = 0; round < rounds && !HasFailure(); ++round) {
    SCOPED_TRACE(round);
    const std::string run = fmt::format("run-{}", round);
    Flags keys = group;
    keys.insert(keys.end(), {"--checkpoint.memory_every", "1"});
    WatchedCommand first(launcher(0, run, 2, keys)), second(launcher(1, run, 2, keys));
    std::size_t said = 0;
    for (int kill = 0; kill < kills; ++kill) {
      const std::string next = fmt::format("\nstep {}/", 10 + 50 * kill);
      if (!first.wait_for(next, said)) break;
      std::this_thread::sleep_for(any_moment(milliseconds(60)));
      const int victim = (round + kill) % 4;
      said = first.text().size();
      strike((victim < 2 ? first : second).wait_for_rank(victim), SIGKILL);
      if (went_on_from(first, said) < 0) break;
    }
    expect_end_as(undisturbed.weights, run, first, second);
    const std::vector<Restart> restarts = restarts_in(first.text());
    EXPECT_FALSE(restarts.empty()) << first.text();
    for (const Restart& restart : restarts) EXPECT_LE(restart.repeated(), 1) << first.text();
  }
}

}  // namespace
}  // namespace zero
