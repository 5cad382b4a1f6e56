// A rank of a pipeline is killed or stopped in each kind of pass: forward, gradients of inputs, gradients of weights.
#include <filesystem>
#include <string>
#include <vector>

#include <fmt/format.h>

#include "tests/faults/struck_run_test.h"
#include "tests/support/this_build.h"
#include "tests/support/tier.h"

#if ZERO_CAN_TRAIN

namespace zero {
namespace {

constexpr int kPipeline = 2;
constexpr std::chrono::seconds kTimeoutOfRanks{3}, kNamed{3};

class PassFaults : public StruckRunTest {
 protected:
  std::vector<std::string> program(const std::string& run, const std::vector<std::string>& strike = {}) const {
    std::vector<std::string> words{built::kCommand,
                                   "launch",
                                   "--nproc-per-node",
                                   std::to_string(kPipeline),
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
};

// The launcher names the rank within 3 s (of its timeout, if the rank is stopped), and the continued run ends with the
// bits of the undisturbed one.
TEST_F(PassFaults, StruckPassIsNamedKeepsBits) {
  WatchedCommand usual(program("undisturbed"));
  ASSERT_EQ(usual.finish(), 0) << usual.text();
  const std::string weights = weights_in(usual.text());
  ASSERT_NE(weights, "none") << usual.text();
  Sweep sweep(5);  // of 12
  int number = 0;
  for (const int rank : {0, 1}) {
    for (const std::string kind : {"forward", "inputs", "weights"}) {
      for (const int signal : {SIGKILL, SIGSTOP}) {
        ++number;
        if (!sweep.takes_next()) continue;
        SCOPED_TRACE(fmt::format("rank {}, {}, signal {}", rank, kind, signal));
        WatchedCommand command(
            program(fmt::format("run-{}", number), {kind, std::to_string(signal), std::to_string(rank)}));
        ASSERT_TRUE(command.wait_for(fmt::format("rank {} strikes", rank))) << command.text();
        const auto struck = Clock::now();
        const std::string named = signal == SIGKILL ? fmt::format("rank {} of {} failed with signal 9", rank, kPipeline)
                                                    : std::string("is stopped (SIGSTOP)");
        ASSERT_TRUE(command.wait_for(named)) << command.text();
        EXPECT_LT(Clock::now() - struck, kNamed + (signal == SIGSTOP ? kTimeoutOfRanks : std::chrono::seconds(0)));
        if (signal == SIGSTOP) {
          EXPECT_SAYS(command, fmt::format("rank {}: ", rank));
        }
        EXPECT_EQ(command.finish(), 0) << command.text();
        EXPECT_EQ(weights_in(command.text()), weights) << command.text();
        expect_nothing_left(command);
      }
    }
  }
}

}  // namespace
}  // namespace zero

#endif
