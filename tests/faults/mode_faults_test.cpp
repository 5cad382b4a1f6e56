// Kills and pauses at random moments in every mode of training. No run hangs, leaves files or processes, or loses more
// than its mode allows. If a mode's bits do not depend on time, the run ends with the weights of an undisturbed run. In
// other modes the gradients add up. A paused run, or one with a replaced worker, is replayed to the bit.
// ZERO_MODE_STRIKES sets the number of strikes per mode (by default one in two modes, in the full tier three or four
// in all modes: docs/reliability.md).
#include <algorithm>
#include <fstream>
#include <iostream>
#include <iterator>
#include <memory>
#include <string_view>
#include <utility>

#include <fmt/format.h>

#include "tests/faults/restarts.h"
#include "tests/faults/served_log.h"
#include "tests/faults/struck_run_test.h"
#include "tests/support/json_lines.h"
#include "tests/support/tier.h"

namespace zero {
namespace {

constexpr int kWorld = 4;
constexpr std::int64_t kMemoryEvery = 5;  // in modes with in-memory checkpoints

enum class Promise {
  kBits,       // the bits of an undisturbed run
  kGradients,  // every pushed gradient is applied
  kQuorum,     // each update has as many gradients as the quorum
  kSamples,    // each step has as many samples as without shares
};

struct Mode {
  const char* name;
  std::vector<std::string> keys;
  Promise promise;
};

void PrintTo(const Mode& mode, std::ostream* out) {
  *out << mode.name;
}

// The first two modes are those of a sample.
std::vector<Mode> modes() {
  using enum Promise;
  const std::vector<std::string> local{"--sync.mode", "local", "--sync.local_steps", "7", "--zero.group", "2"};
  const std::vector<std::string> in_memory{"--checkpoint.memory_every", fmt::format("{}", kMemoryEvery)};
  const auto with = [](std::vector<std::string> keys, const std::vector<std::string>& more) {
    keys.insert(keys.end(), more.begin(), more.end());
    return keys;
  };
  std::vector<Mode> all{
      {"local", local, kBits},
      {"async", with({"--sync.mode", "async", "--sync.staleness", "2"}, in_memory), kGradients},
      {"sync", {}, kBits},
      {"stale", {"--sync.mode", "stale", "--sync.staleness", "1"}, kBits},
      {"fragments", with(local, {"--sync.fragments", "2", "--sync.overlap", "2"}), kBits},
      {"topk", with(local, {"--comm.outer_wire", "topk"}), kBits},
      {"groups", {"--zero.group", "2"}, kBits},
      {"pipeline", {"--parallel.pipeline", "2", "--train.accumulate", "2"}, kBits},
      {"coded_groups", {"--zero.group", "2", "--comm.outer_wire", "int8"}, kBits},
      {"secondary", {"--zero.secondary_group", "2"}, kBits},
      {"hash", {"--zero.shards", "hash", "--train.clip", "0"}, kBits},
      {"whole", {"--zero.shards", "whole"}, kBits},
      {"weighted", {"--zero.shards", "weighted", "--zero.shard_weights", "[5,1,2,4]"}, kBits},
      {"measured_weights", with({"--zero.shards", "weighted"}, in_memory), kBits},
      {"codecs", {"--comm.gather_wire", "int8", "--comm.reduce_wire", "int8"}, kBits},
      {"hashed_servers", {"--sync.mode", "stale", "--sync.servers", "2", "--zero.shards", "hash"}, kBits},
      {"quorum", {"--sync.servers", "1", "--sync.quorum", "2"}, kQuorum},
      {"shares", {"--train.share", "auto"}, kSamples},
  };
  for (const auto& [name, over_gloo] : {std::pair{"stale", "stale_over_gloo"},
                                        {"async", "async_over_gloo"},
                                        {"local", "local_over_gloo"},
                                        {"topk", "topk_over_gloo"}}) {
    if (!ZERO_HAS_GLOO) break;
    Mode mode = *std::ranges::find(all, std::string_view(name), &Mode::name);
    mode.name = over_gloo;
    mode.keys = with(mode.keys, {"--comm.transport", "gloo"});
    all.push_back(std::move(mode));
  }
  if (!in_full_tier()) all.resize(2);
  return all;
}

class ModeFaults : public StruckRunTest, public testing::WithParamInterface<Mode> {
 protected:
  std::vector<std::string> command_of(const std::string& run, const std::vector<std::string>& more = {}) const {
    std::vector<std::string> keys = GetParam().keys;
    keys.insert(keys.end(), more.begin(), more.end());
    return train(run, {"-n", std::to_string(kWorld)},
                 {{"data.validation", "0"},
                  {"train.steps", fmt::format("{}", kSteps)},
                  {"train.log_every", "1"},
                  {"checkpoint.every", fmt::format("{}", kEvery)},
                  {"run.max_restarts", "20"},
                  {"run.threads", "1"}},
                 keys);
  }

  std::string text_in(const std::string& run, const std::string& name) const {
    std::ifstream file(folder_ / run / name);
    return {std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
  }

  // `text` is the whole output. After the launcher's death, ranks find no checkpoints in its memory.
  static void expect_few_steps_repeated(const std::string& text, bool launcher_died) {
    const auto& keys = GetParam().keys;
    const bool in_memory = !launcher_died && std::ranges::find(keys, "--checkpoint.memory_every") != keys.end();
    for (const Restart& restart : restarts_in(text)) {
      EXPECT_GE(restart.from, restart.on_disk) << "a whole checkpoint was not used\n" << text;
      // A save to disk may still run when the next is due, which then waits.
      EXPECT_LE(restart.repeated(), in_memory ? kMemoryEvery : 2 * kEvery) << text;
    }
  }

  // Each step is printed once, with all of its samples.
  void expect_steps_reported(const std::string& run, const nlohmann::json& report) const {
    std::int64_t step = 0;
    double samples = 0;
    for (const nlohmann::json& line : json_lines(text_in(run, "metrics.jsonl"))) {
      if (!line.contains("loss")) continue;
      EXPECT_EQ(line.at("step"), ++step);
      if (step == 1) samples = line.at("samples").get<double>();
      EXPECT_EQ(line.at("samples").get<double>(), static_cast<double>(step) * samples) << step;
    }
    EXPECT_EQ(step, kSteps);
    EXPECT_EQ(report.value("losses", std::vector<double>()).size(), static_cast<std::size_t>(kSteps));
  }

  void expect_replay(const std::string& run, const nlohmann::json& report) const {
    const std::string again = run + "-again";
    WatchedCommand command(command_of(again, {"--replay", folder_ / run}));
    EXPECT_EQ(command.finish(), 0) << command.text();
    const nlohmann::json replayed = report_of(again);
    ASSERT_TRUE(replayed.is_object()) << command.text();
    EXPECT_EQ(replayed.at("loss_bits"), report.at("loss_bits"));
    EXPECT_EQ(replayed.at("parameters_sha256"), report.at("parameters_sha256"));
    std::filesystem::remove_all(folder_ / again);
  }

  static inline const std::int64_t kSteps = in_full_tier() ? 150 : 90, kEvery = kSteps / 10;
};
INSTANTIATE_TEST_SUITE_P(Each, ModeFaults, testing::ValuesIn(modes()),
                         [](const auto& tested) { return std::string(tested.param.name); });

// A run ends as its mode promises, whatever the moment of the strike.
TEST_P(ModeFaults, StruckRunsKeepTheirPromise) {
  const Promise promise = GetParam().promise;
  const bool has_replay = promise == Promise::kGradients || promise == Promise::kQuorum;
  const Undisturbed undisturbed = leave_alone(command_of("undisturbed"), "undisturbed");
  auto span = undisturbed.span;  // length of a run; less if a run ended before its strike
  // A rank is killed, then the launcher, then any process pauses. Modes with a replay begin with the pause, and then
  // kill the launcher, a worker and the server.
  const int turns = has_replay ? 4 : 3;
  const int wanted = num_trials("ZERO_MODE_STRIKES", 1, turns);
  int hits = 0, kills = 0, of_launchers = 0, replays = 0;
  for (int trial = 0; hits < wanted && !HasFailure(); ++trial) {
    ASSERT_LT(trial, 3 * wanted + 10) << "most strikes come too late";
    const int turn = hits % turns, signal = turn == (has_replay ? 0 : 2) ? SIGSTOP : SIGKILL;
    int victim = any_rank(signal == SIGSTOP ? kWorld + 1 : kWorld);
    if (victim == kWorld || turn == 1) victim = kLauncher;
    if (has_replay && turn == 2) victim = 1 + victim % (kWorld - 1);  // a worker
    if (turn == 3) victim = 0;                                        // the server
    SCOPED_TRACE(fmt::format("trial {}, {} to {}", trial, signal == SIGKILL ? "SIGKILL" : "SIGSTOP",
                             victim == kLauncher ? "the launcher" : fmt::format("rank {}", victim)));
    const std::string run = fmt::format("run-{}", trial);
    auto command = std::make_unique<WatchedCommand>(command_of(run));
    const auto moment = any_moment(span);
    const Strike strike(*command, victim, signal, Clock::now() + moment, any_moment(std::chrono::milliseconds(500)));
    if (!strike.hit()) span = std::min(span, moment);
    hits += strike.hit() ? 1 : 0;
    kills += strike.hit() && signal == SIGKILL ? 1 : 0;
    std::string before;
    const bool launcher_died = strike.hit() && victim == kLauncher && signal == SIGKILL;
    if (launcher_died) {
      ++of_launchers;
      expect_nothing_left(*command);
      before = command->text();
      command = std::make_unique<WatchedCommand>(command_of(run));
    }
    EXPECT_EQ(command->finish(), 0) << command->text();
    expect_nothing_left(*command);
    const std::string text = before + command->text();
    const nlohmann::json report = report_of(run);
    ASSERT_TRUE(report.is_object()) << text;
    expect_few_steps_repeated(text, launcher_died);
    expect_steps_reported(run, report);
    const auto losses = report.at("losses").get<std::vector<double>>();
    EXPECT_LT(losses.back(), losses.front() - 0.5) << "the loss did not fall";
    if (promise == Promise::kBits) {
      EXPECT_EQ(weights_of(run), undisturbed.weights) << text;
    }
    if (has_replay) {
      const ServedLog log(folder_ / run / "pushes.log", kWorld - 1);
      promise == Promise::kGradients ? log.expect_each_gradient_counted(report, kSteps)
                                     : log.expect_quorum_counted(report, kSteps, 2);
      if (log.is_whole() && (signal == SIGSTOP || report.at("served").at("replaced") > 0)) {
        ++replays;
        expect_replay(run, report);
      }
      if (HasFailure()) std::cout << text << text_in(run, "pushes.log");
    }
    expect_no_half_file(run);
    std::filesystem::remove_all(folder_ / run);
  }
  std::cout << fmt::format(
      "{}: {} strikes, {} of them kills, {} of the launcher, {} runs replayed; none hung, nothing was left\n",
      GetParam().name, hits, kills, of_launchers, replays);
}

}  // namespace
}  // namespace zero
