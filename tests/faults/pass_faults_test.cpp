// A rank of a pipeline is killed or stopped in each kind of pass: forward, backward, gradients of inputs, gradients of
// weights, evaluation. Also in a gather or a sum of two lines. Sections are those of the first, middle and last ranks,
// and the lookups of a tied embedding.
#include <algorithm>
#include <filesystem>
#include <ostream>
#include <random>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "tests/faults/struck_pass_test.h"
#include "tests/support/mpirun.h"
#include "tests/support/tier.h"

#if ZERO_CAN_TRAIN

namespace zero {
namespace {

constexpr std::chrono::seconds kTimeoutOfRanks{3};

// A pass of weights of the lookups computes nothing, so nothing can strike in it.
std::vector<StruckPass> struck_passes(std::string_view order, int ranks) {
  if (!in_full_tier()) {
    const std::vector<StruckPass> sample{{"1f1b", 2, "backward", 0, SIGKILL},
                                         {"1f1b", 3, "backward", 2, SIGKILL},
                                         {"1f1b", 3, "forward", 3, SIGSTOP},
                                         {"zb-h1", 2, "weights", 1, SIGSTOP},
                                         {"zb-h1", 3, "inputs", 2, SIGSTOP}};
    std::vector<StruckPass> chosen;
    for (const StruckPass& pass : sample)
      if (pass.order == order && pass.positions == ranks) chosen.push_back(pass);
    return chosen;
  }
  const std::vector<std::string_view> kinds = order == "1f1b"
                                                  ? std::vector<std::string_view>{"forward", "backward"}
                                                  : std::vector<std::string_view>{"forward", "inputs", "weights"};
  std::vector<StruckPass> all;
  for (const std::string_view kind : kinds) {
    for (int section = kind == "weights" ? 1 : 0; section <= ranks; ++section)
      for (const int signal : {SIGKILL, SIGSTOP}) all.push_back({order, ranks, kind, section, signal});
  }
  return all;
}

struct StruckLine {
  std::string_view order;
  int ranks;
};
void PrintTo(const StruckLine& line, std::ostream* out) {
  *out << line.order << ", " << line.ranks << " ranks";
}

class PassFaults : public StruckPassTest, public testing::WithParamInterface<StruckLine> {};

INSTANTIATE_TEST_SUITE_P(Lines, PassFaults,
                         testing::Values(StruckLine{"1f1b", 2}, StruckLine{"1f1b", 3}, StruckLine{"zb-h1", 2},
                                         StruckLine{"zb-h1", 3}),
                         [](const auto& info) {
                           const bool is_1f1b = info.param.order == "1f1b";
                           return fmt::format("{}_{}", is_1f1b ? "one_by_one" : "zb_h1", info.param.ranks);
                         });

TEST_P(PassFaults, StruckPassIsNamedKeepsBits) {
  const auto [order, ranks] = GetParam();
  const std::vector<StruckPass> table = struck_passes(order, ranks);
  ASSERT_FALSE(table.empty());
  for (std::size_t number = 0; number < table.size(); ++number)
    expect_named_and_continued(table[number], fmt::format("run-{}", number));
}

// All strikes in orders of passes that the table above lacks.
std::vector<StruckPass> strikes_in(std::string_view order) {
  const bool is_split = order.starts_with("zb");
  const bool has_gloo = ZERO_HAS_GLOO && !built::kSanitized;  // sanitizers do not work with gloo's plug-in
  std::vector<StruckPass> all;
  for (const std::string_view kind :
       {"forward", "backward", "inputs", "weights", "evaluation", "gather", "reduction"}) {
    if (is_split ? kind == "backward" : kind == "inputs" || kind == "weights") continue;
    const bool is_of_lines = kind == "gather" || kind == "reduction";
    for (const int lines : {1, 2}) {
      if (is_of_lines && lines == 1) continue;
      const bool has_two = lines == 2 || order == "interleaved" || order == "zb-v";
      const int last = order == "interleaved" || order == "zb-v" ? 4 : has_two ? 2 : 3;
      for (const int section : {0, 1, kind == "weights" ? 2 : last}) {
        if (section == 0 && (kind == "weights" || is_of_lines)) continue;
        for (const int signal : {SIGKILL, SIGSTOP})
          for (const bool is_gloo : {false, true})
            if (has_gloo || !is_gloo) all.push_back({order, has_two ? 2 : 3, kind, section, signal, lines, is_gloo});
      }
    }
  }
  return all;
}

// Levels of a strike's factors, without the order of passes and the number of ranks.
std::vector<std::string> levels_of(const StruckPass& pass) {
  return {fmt::format("kind {}", pass.kind), fmt::format("section {}", pass.section_role()),
          fmt::format("signal {}", pass.signal), fmt::format("lines {}", pass.lines),
          fmt::format("gloo {}", pass.is_gloo)};
}

// Strikes that have each possible pair of levels in some order of passes, and each kind in every order. Candidates are
// drawn: the first of those with most new pairs is taken.
std::vector<StruckPass> drawn_pairs() {
  std::vector<StruckPass> candidates;
  for (const std::string_view order : {"gpipe", "interleaved", "zb-h2", "zb-v"}) {
    const std::vector<StruckPass> all = strikes_in(order);
    candidates.insert(candidates.end(), all.begin(), all.end());
  }
  std::shuffle(candidates.begin(), candidates.end(), std::mt19937(11));
  const auto pairs_of = [](const StruckPass& pass) {
    const std::vector<std::string> levels = levels_of(pass);
    std::set<std::string> pairs{fmt::format("{}, {}", pass.order, levels.front())};
    for (std::size_t i = 0; i < levels.size(); ++i)
      for (std::size_t j = i + 1; j < levels.size(); ++j) pairs.insert(levels[i] + ", " + levels[j]);
    return pairs;
  };
  std::set<std::string> met;
  const auto num_new = [&](const StruckPass& pass) {
    return std::ranges::count_if(pairs_of(pass), [&](const std::string& pair) { return !met.contains(pair); });
  };
  std::vector<StruckPass> chosen;
  for (;;) {
    const auto best = std::ranges::max_element(candidates, {}, num_new);
    if (num_new(*best) == 0) return chosen;
    met.merge(pairs_of(*best));
    chosen.push_back(*best);
  }
}

class DrawnPassFaults : public StruckPassTest, public testing::WithParamInterface<const char*> {};

INSTANTIATE_TEST_SUITE_P(Orders, DrawnPassFaults, testing::Values("gpipe", "interleaved", "zb-h2", "zb-v"),
                         [](const auto& info) {
                           std::string name = info.param;
                           std::ranges::replace(name, '-', '_');
                           return name;
                         });

TEST_P(DrawnPassFaults, StruckPassIsNamedKeepsBits) {
  const std::string_view order = GetParam();
  const std::vector<StruckPass> sample{{"interleaved", 2, "backward", 2, SIGSTOP},
                                       {"zb-v", 2, "evaluation", 1, SIGKILL},
                                       {"zb-h2", 2, "reduction", 2, SIGSTOP, /*lines=*/2}};
  std::vector<StruckPass> table = in_full_tier() ? drawn_pairs() : sample;
  std::erase_if(table, [order](const StruckPass& pass) { return pass.order != order; });
  if (table.empty()) GTEST_SKIP() << "the full tier strikes in this order";
  for (std::size_t number = 0; number < table.size(); ++number)
    expect_named_and_continued(table[number], fmt::format("run-{}", number));
}

// The last of three ranks is stopped. The rank before it sends until no slot is free, and waits for it.
using FullMailbox = StruckPassTest;

TEST_F(FullMailbox, StoppedReaderIsNamed) {
  const std::vector<std::string> model{"tied=0", "micros=200"};
  const auto with_model = [&](std::vector<std::string> words) {
    words.insert(words.end(), model.begin(), model.end());
    return words;
  };
  WatchedCommand usual(program(1, "undisturbed", with_model({"gpipe"})));
  ASSERT_EQ(usual.finish(), 0) << usual.text();
  const std::string flight = folder_ / "flight";
  WatchedCommand command(program(3, "run", with_model({"gpipe", "forward", "2", std::to_string(SIGSTOP)})),
                         {{"ZERO_FLIGHT_DIR", flight}});
  ASSERT_TRUE(command.wait_for("rank 2 strikes")) << command.text();
  const auto struck = Clock::now();
  ASSERT_TRUE(command.wait_for("is stopped (SIGSTOP)")) << command.text();
  EXPECT_LT(Clock::now() - struck, kNamed + kTimeoutOfRanks);
  EXPECT_SAYS(command, "rank 2: ");
  EXPECT_EQ(command.finish(), 0) << command.text();
  EXPECT_NE(weights_in(command.text()), "none") << command.text();
  EXPECT_EQ(weights_in(command.text()), weights_in(usual.text()));
  for (const char* const other : {"rank 0: send", "rank 0: receive", "rank 1: send", "rank 1: receive"})
    EXPECT_EQ(command.text().find(other), std::string::npos) << command.text();
  WatchedCommand doctor({built::kCommand, "doctor", "--flight", flight});
  EXPECT_EQ(doctor.finish(), 0) << doctor.text();
  EXPECT_SAYS(doctor, "         rank 2\n");
  expect_nothing_left(command);
}

// Ranks of `zero train` in a pipeline of three positions. The strike comes after a step was printed, at any pass.
using TrainedPassFaults = StruckRunTest;

TEST_F(TrainedPassFaults, StruckRankIsNamedKeepsBits) {
  constexpr int kThree = 3;
  const auto pipelined = [&](const std::string& run, int ranks) {
    const std::string number = std::to_string(ranks);
    return train(run, {"-n", number},
                 {{"parallel.pipeline", number},
                  {"model.layers", "2"},
                  {"data.validation", "0"},
                  {"train.steps", "60"},
                  {"train.accumulate", "4"},
                  {"train.log_every", "1"},
                  {"checkpoint.every", "10"},
                  {"comm.timeout", "3s"},
                  {"run.max_restarts", "1"},
                  {"run.threads", "1"}});
  };
  const Undisturbed usual = leave_alone(pipelined("undisturbed", 1), "undisturbed");
  ASSERT_NE(usual.weights, "none");
  Sweep sweep(5);  // of 6: the first rank is killed, the last is stopped
  for (int victim = 0; victim < kThree; ++victim) {
    for (const int signal : {SIGKILL, SIGSTOP}) {
      if (!sweep.takes_next()) continue;
      SCOPED_TRACE(fmt::format("rank {}, signal {}", victim, signal));
      const std::string run = fmt::format("run-{}-{}", victim, signal);
      const auto command = struck(run, pipelined(run, kThree), [&](WatchedCommand& begun) {
        return begun.wait_for("\nstep 12/") && kill(begun.wait_for_rank(victim), signal) == 0;
      });
      const auto at = Clock::now();
      ASSERT_TRUE(command->wait_for(signal == SIGKILL ? "failed with signal 9" : "is stopped (SIGSTOP)"))
          << command->text();
      EXPECT_LT(Clock::now() - at, kNamed + (signal == SIGSTOP ? kTimeoutOfRanks : std::chrono::seconds(0)));
      EXPECT_SAYS(*command, signal == SIGSTOP ? fmt::format("rank {}: ", victim)
                                              : fmt::format("rank {} of {} failed with", victim, kThree));
      if (signal == SIGSTOP) {
        WatchedCommand doctor({built::kCommand, "doctor", "--flight", folder_ / run / "flight"});
        EXPECT_EQ(doctor.finish(), 0) << doctor.text();
        EXPECT_SAYS(doctor, fmt::format("         rank {}\n", victim));
      }
      EXPECT_EQ(command->finish(), 0) << command->text();
      EXPECT_EQ(weights_of(run), usual.weights) << command->text();
      expect_nothing_left(*command);
    }
  }
}

// Under mpirun nothing starts the ranks again, so the same command continues the run. It ends with equal bits.
TEST_F(TrainedPassFaults, MpiNamesStruckRankKeepsBits) {
  if (std::string(ZERO_MPIRUN).empty()) GTEST_SKIP() << "no mpirun on this machine";
  if (!in_full_tier()) GTEST_SKIP() << "only in the full tier";
  const auto pipelined = [&](const std::string& run, const std::vector<std::string>& flags, int positions) {
    return train(run, flags,
                 {{"parallel.pipeline", std::to_string(positions)},
                  {"model.layers", "2"},
                  {"data.validation", "0"},
                  {"train.steps", "60"},
                  {"train.accumulate", "4"},
                  {"train.log_every", "1"},
                  {"checkpoint.every", "10"},
                  {"checkpoint.async", "false"},
                  {"comm.timeout", "6s"},
                  {"run.threads", "1"}});
  };
  const auto under_mpirun = [&](const std::string& run) {
    std::vector<std::string> words{ZERO_MPIRUN, "-n", "2"};
    const std::vector<std::string> command = pipelined(run, {}, 2);
    words.insert(words.end(), command.begin(), command.end());
    words.insert(words.end(), {"--comm.transport", "mpi"});
    return words;
  };
  const Undisturbed usual = leave_alone(pipelined("undisturbed", {"-n", "1"}, 1), "undisturbed");
  ASSERT_NE(usual.weights, "none");
  for (int victim = 0; victim < 2; ++victim) {
    for (const int signal : {SIGKILL, SIGSTOP}) {
      SCOPED_TRACE(fmt::format("rank {}, signal {}", victim, signal));
      const std::string run = fmt::format("run-{}-{}", victim, signal);
      pid_t pid = -1;
      const auto command = struck(
          run, under_mpirun(run),
          [&](WatchedCommand& begun) {
            if (!begun.wait_for("checkpoint: step 10,")) return false;
            pid = begun.wait_for_rank(victim);
            return pid > 0 && kill(pid, signal) == 0;
          },
          mpirun_variables());
      // mpirun ends the other rank at once if a process died, and names the dead one itself.
      const std::string named = signal == SIGKILL ? fmt::format("process rank {} with PID", victim)
                                                  : fmt::format("zero train: rank {}: ", victim);
      EXPECT_TRUE(command->wait_for(named)) << command->text();
      if (signal == SIGSTOP) kill(pid, SIGCONT);  // mpirun has removed it already, or can do so now
      EXPECT_GT(command->finish(), 0);
      EXPECT_TRUE(command->gone_before(Clock::now() + kAllGone)) << "mpirun left a process";
      WatchedCommand continued(under_mpirun(run), mpirun_variables());
      EXPECT_EQ(continued.finish(), 0) << continued.text();
      EXPECT_EQ(weights_of(run), usual.weights) << continued.text();
    }
  }
}

}  // namespace
}  // namespace zero

#endif
