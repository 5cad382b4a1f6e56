// A rank of a pipeline is killed or stopped in each kind of pass: forward, backward, gradients of inputs, gradients of
// weights. Sections are those of the first, middle and last ranks, and the lookups of a tied embedding.
#include <filesystem>
#include <ostream>
#include <string>
#include <string_view>
#include <vector>

#include <fmt/format.h>

#include "tests/faults/struck_run_test.h"
#include "tests/support/this_build.h"
#include "tests/support/tier.h"

#if ZERO_CAN_TRAIN

namespace zero {
namespace {

constexpr std::chrono::seconds kTimeoutOfRanks{3}, kNamed{3};

struct StruckPass {
  std::string_view order;
  int ranks;
  std::string_view kind;
  int section;  // 0: the lookups, on the last rank; else on rank section - 1
  int signal;
  int rank() const { return section == 0 ? ranks - 1 : section - 1; }
  std::string text() const {
    return fmt::format("{}, {} ranks, {} pass of section {}, signal {}", order, ranks, kind, section, signal);
  }
};

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
      if (pass.order == order && pass.ranks == ranks) chosen.push_back(pass);
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

class PassFaults : public StruckRunTest, public testing::WithParamInterface<StruckLine> {
 protected:
  std::vector<std::string> program(int ranks, const std::string& run, const std::vector<std::string>& strike) const {
    std::vector<std::string> words{built::kCommand,
                                   "launch",
                                   "--nproc-per-node",
                                   std::to_string(ranks),
                                   "--max-restarts",
                                   "1",
                                   "--",
                                   built::kFaultStruckPass,
                                   (folder_ / run).string()};
    words.insert(words.end(), strike.begin(), strike.end());
    return words;
  }

  // The line that rank 0 prints at the end of a run.
  static std::string weights_in(const std::string& text) {
    const std::size_t begin = text.find("weights ");
    return begin == std::string::npos ? "none" : text.substr(begin, text.find('\n', begin) - begin);
  }

  static std::string_view name_of_end(int signal) {
    return signal == SIGKILL ? "failed with signal 9" : "is stopped (SIGSTOP)";
  }

  // No error names another rank than the struck one.
  static void expect_only_named(const WatchedCommand& command, int rank, int ranks) {
    for (int other = 0; other < ranks; ++other) {
      if (other == rank) continue;
      EXPECT_EQ(command.text().find(fmt::format("rank {}: receive", other)), std::string::npos) << command.text();
      EXPECT_EQ(command.text().find(fmt::format("rank {} of {} failed with signal", other, ranks)), std::string::npos)
          << command.text();
    }
  }
};

INSTANTIATE_TEST_SUITE_P(Lines, PassFaults,
                         testing::Values(StruckLine{"1f1b", 2}, StruckLine{"1f1b", 3}, StruckLine{"zb-h1", 2},
                                         StruckLine{"zb-h1", 3}),
                         [](const auto& info) {
                           const bool is_1f1b = info.param.order == "1f1b";
                           return fmt::format("{}_{}", is_1f1b ? "one_by_one" : "zb_h1", info.param.ranks);
                         });

// The launcher names the rank within 3 s (of its timeout, if the rank is stopped). The continued run ends with the bits
// of one rank without a pipeline.
TEST_P(PassFaults, StruckPassIsNamedKeepsBits) {
  const auto [order, ranks] = GetParam();
  WatchedCommand usual(program(1, "undisturbed", {"1f1b"}));
  ASSERT_EQ(usual.finish(), 0) << usual.text();
  const std::string weights = weights_in(usual.text());
  ASSERT_NE(weights, "none") << usual.text();
  const std::vector<StruckPass> table = struck_passes(order, ranks);
  ASSERT_FALSE(table.empty());
  for (std::size_t number = 0; number < table.size(); ++number) {
    const StruckPass& pass = table[number];
    SCOPED_TRACE(pass.text());
    WatchedCommand command(program(
        ranks, fmt::format("run-{}", number),
        {std::string(order), std::string(pass.kind), std::to_string(pass.section), std::to_string(pass.signal)}));
    ASSERT_TRUE(command.wait_for(fmt::format("rank {} strikes", pass.rank()))) << command.text();
    const auto struck = Clock::now();
    ASSERT_TRUE(command.wait_for(std::string(name_of_end(pass.signal)))) << command.text();
    EXPECT_LT(Clock::now() - struck, kNamed + (pass.signal == SIGSTOP ? kTimeoutOfRanks : std::chrono::seconds(0)));
    EXPECT_SAYS(command, pass.signal == SIGSTOP ? fmt::format("rank {}: ", pass.rank())
                                                : fmt::format("rank {} of {} failed with", pass.rank(), ranks));
    EXPECT_EQ(command.finish(), 0) << command.text();
    EXPECT_EQ(weights_in(command.text()), weights) << command.text();
    expect_only_named(command, pass.rank(), ranks);
    expect_nothing_left(command);
  }
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

}  // namespace
}  // namespace zero

#endif
