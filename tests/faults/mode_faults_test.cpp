// Kills and pauses at random moments in every mode of training: none hangs, none leaves anything behind, and a mode whose
// bits do not depend on time ends with the weights of a run that was left alone. ZERO_MODE_STRIKES sets how often in each
// mode (two modes once without it, all modes 25 times in the full tier: docs/reliability.md).
#include <algorithm>
#include <iostream>
#include <memory>
#include <string_view>

#include <fmt/format.h>

#include "../tier.h"
#include "struck_run_test.h"

namespace zero {
namespace {

constexpr int kWorld = 4;

struct Mode {
  const char* name;
  std::vector<std::string> keys;
  bool is_timeless;  // its bits do not depend on which rank is late
};

void PrintTo(const Mode& mode, std::ostream* out) {
  *out << mode.name;
}

std::vector<Mode> modes() {
  std::vector<Mode> all{
      {"stale", {"--sync.mode", "stale", "--sync.staleness", "1"}, true},
      {"local", {"--sync.mode", "local", "--sync.local_steps", "7", "--zero.group", "2"}, true},
      {"groups", {"--zero.group", "2"}, true},
      {"hash", {"--zero.shards", "hash", "--train.clip", "0"}, true},
      {"weighted", {"--zero.shards", "weighted", "--zero.shard_weights", "[5,1,2,4]"}, true},
      {"measured_weights", {"--zero.shards", "weighted", "--checkpoint.memory_every", "5"}, true},
      {"codecs", {"--comm.gather_wire", "int8", "--comm.reduce_wire", "int8"}, true},
      {"async", {"--sync.mode", "async", "--sync.staleness", "2", "--checkpoint.memory_every", "5"}, false},
      {"quorum", {"--sync.servers", "1", "--sync.quorum", "2"}, false},
      {"shares", {"--train.share", "auto"}, false},
  };
  const std::vector<std::string> over_gloo{"--comm.transport", "gloo"};
  for (const char* name : {"stale", "async"}) {
    if (!ZERO_HAS_GLOO) break;
    Mode mode = *std::ranges::find(all, std::string_view(name), &Mode::name);
    mode.name = mode.is_timeless ? "stale_over_gloo" : "async_over_gloo";
    mode.keys.insert(mode.keys.end(), over_gloo.begin(), over_gloo.end());
    all.push_back(std::move(mode));
  }
  if (!in_full_tier()) all.resize(2);
  return all;
}

class ModeFaults : public StruckRunTest, public testing::WithParamInterface<Mode> {
 protected:
  std::vector<std::string> command_of(const std::string& run) const {
    return train(run, {"-n", std::to_string(kWorld)},
                 {{"data.validation", "0"},
                  {"train.steps", std::to_string(steps_)},
                  {"train.log_every", "1"},
                  {"checkpoint.every", std::to_string(steps_ / 10)},
                  {"run.max_restarts", "20"},
                  {"run.threads", "1"}},
                 GetParam().keys);
  }

  const std::size_t steps_ = in_full_tier() ? 300 : 90;
};
INSTANTIATE_TEST_SUITE_P(Each, ModeFaults, testing::ValuesIn(modes()),
                         [](const auto& tested) { return std::string(tested.param.name); });

TEST_P(ModeFaults, StruckAtAnyMomentARunEndsAsItSays) {
  const Undisturbed undisturbed = leave_alone(command_of("undisturbed"), "undisturbed");
  const int wanted = num_trials("ZERO_MODE_STRIKES", 1, 25);
  int hits = 0, kills = 0, of_launchers = 0;
  for (int trial = 0; hits < wanted && !HasFailure(); ++trial) {
    ASSERT_LT(trial, 3 * wanted + 10) << "most strikes come too late";
    const int any = any_rank(kWorld + 1), victim = any == kWorld ? kLauncher : any;
    const int signal = trial % 3 == 2 ? SIGSTOP : SIGKILL;
    SCOPED_TRACE(fmt::format("trial {}, {} to {}", trial, signal == SIGKILL ? "SIGKILL" : "SIGSTOP",
                             victim == kLauncher ? "the launcher" : fmt::format("rank {}", victim)));
    const std::string run = fmt::format("run-{}", trial);
    auto command = std::make_unique<WatchedCommand>(command_of(run));
    const Strike strike(*command, victim, signal, Clock::now() + any_moment(undisturbed.span),
                        any_moment(std::chrono::milliseconds(500)));
    hits += strike.hit() ? 1 : 0;
    kills += strike.hit() && signal == SIGKILL ? 1 : 0;
    if (strike.hit() && victim == kLauncher && signal == SIGKILL) {
      ++of_launchers;
      expect_nothing_left(*command);
      command = std::make_unique<WatchedCommand>(command_of(run));
    }
    EXPECT_EQ(command->finish(), 0) << command->text();
    expect_nothing_left(*command);
    const nlohmann::json report = report_of(run);
    ASSERT_TRUE(report.is_object()) << command->text();
    const auto losses = report.value("losses", std::vector<double>());
    EXPECT_EQ(losses.size(), steps_) << command->text();
    EXPECT_LT(losses.back(), losses.front() - 0.5) << "nothing was learned";
    if (GetParam().is_timeless) {
      EXPECT_EQ(weights_of(run), undisturbed.weights) << command->text();
    }
    expect_no_half_file(run);
    std::filesystem::remove_all(folder_ / run);
  }
  std::cout << fmt::format("{}: {} strikes, {} of them kills, {} of the launcher; none hung, nothing was left\n",
                           GetParam().name, hits, kills, of_launchers);
}

}  // namespace
}  // namespace zero
