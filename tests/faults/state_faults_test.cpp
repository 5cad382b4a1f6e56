// `zero train` with moments on a disk that fails while it trains (strace). The run ends, and one line of the rank names
// the failure. The test runs with io_uring, and with threads, as if a container forbids io_uring.
#include <sstream>

#include "tests/faults/failing_calls.h"
#include "tests/faults/train_fault_test.h"

namespace zero {
namespace {

namespace fs = std::filesystem;

constexpr const char* kRefused = "io_uring is refused here";

class StateFaults : public TrainFaultTest {
 protected:
  std::vector<std::string> train_on_disk(const std::string& run, int ranks) const {
    fs::create_directories(disk());
    return train(run, {"-n", std::to_string(ranks)},
                 {{"data.validation", "0"},
                  {"train.steps", "100000"},
                  {"train.log_every", "25"},
                  {"train.eval_every", "0"},
                  {"checkpoint.every", "0"},
                  {"zero.disk", disk()},
                  {"zero.optimizer", "{disk = 1}"},
                  {"run.threads", "1"}});
  }
  std::string disk() const { return folder_ / "disk"; }
  // Known rates are not probed, so only the run's own requests to the disk fail.
  WatchedCommand::Variables variables() const {
    return {{"XDG_CACHE_HOME", folder_ / "cache"}, {"ZERO_LOG_LEVEL", "warn"}};
  }

  // The lines that contain `part`. The launcher prints a rank's last line.
  static std::vector<std::string> lines_with(const WatchedCommand& command, const std::string& part) {
    std::istringstream text(command.text());
    std::vector<std::string> found;
    for (std::string line; std::getline(text, line);) {
      if (line.find(part) != std::string::npos) found.push_back(line);
    }
    return found;
  }

  static std::string line_of(int rank) { return fmt::format("zero train: rank {}: ", rank); }

  // Expects one line that says why the run ends. With several ranks, the status depends on which ends first, because
  // strace makes an end slow.
  void expect_ends(WatchedCommand& command, int ranks, const std::string& said) const {
    const int status = command.finish();
    EXPECT_TRUE(status == 4 || (ranks > 1 && status == 3)) << status << "\n" << command.text();
    const auto lines = lines_with(command, said);
    ASSERT_EQ(lines.size(), 1U) << command.text();
    EXPECT_NE(lines[0].find(": " + disk() + ": "), std::string::npos) << lines[0];
    EXPECT_NE(lines[0].find("Input/output error"), std::string::npos) << lines[0];
    EXPECT_TRUE(fs::is_empty(disk()));
  }
};

// The run reports the failure.
TEST_F(StateFaults, FailingIoUringEndsTheRun) {
  for (const int ranks : {1, 2}) {
    WatchedCommand command(train_on_disk(fmt::format("run-{}", ranks), ranks), variables());
    ASSERT_TRUE(command.wait_for("step 50/")) << command.text();
    if (command.text().find(kRefused) != std::string::npos) GTEST_SKIP() << "io_uring is refused here";
    const auto strace = fail_calls("io_uring_enter", command.wait_for_rank(ranks - 1));
    if (strace == nullptr) GTEST_SKIP() << "strace is missing, or may not attach";
    expect_ends(command, ranks, line_of(ranks - 1));
  }
}

// The run reports the failure.
TEST_F(StateFaults, WithoutIoUringThreadsMoveStates) {
  for (const int ranks : {1, 2}) {
    {
      WatchedCommand probes(train_on_disk(fmt::format("probes-{}", ranks), ranks), variables());
      ASSERT_TRUE(probes.wait_for("step 1/")) << probes.text();
      probes.send(SIGTERM);
      probes.finish();
    }
    std::vector<std::string> line{"strace", "-f",
                                  "-o",     "/dev/null",
                                  "-e",     "trace=io_uring_setup,pwrite64",
                                  "-e",     "inject=io_uring_setup:error=EPERM",
                                  "-e",     "inject=pwrite64:error=EIO:when=100+"};  // counted per thread
    for (const std::string& part : train_on_disk(fmt::format("run-{}", ranks), ranks)) line.push_back(part);
    WatchedCommand command(line, variables());
    if (!command.wait_for(fmt::format("ranks: {}", ranks)))
      GTEST_SKIP() << "strace is missing, or may not trace: " << command.text();
    EXPECT_TRUE(command.wait_for("step 1/100000")) << command.text();
    command.finish();
    const bool first_reported = !lines_with(command, line_of(0) + "unit ").empty();
    const std::string said = line_of(first_reported ? 0 : ranks - 1) + "unit ";
    expect_ends(command, ranks, said);
    for (const std::string& told : lines_with(command, said)) {
      EXPECT_NE(told.find(": write of "), std::string::npos) << told;
      EXPECT_NE(told.find(" bytes at "), std::string::npos) << told;
    }
    EXPECT_EQ(lines_with(command, kRefused + std::string(" (Operation not permitted)")).size(),
              static_cast<std::size_t>(ranks))
        << "once per rank: " << command.text();
  }
}

}  // namespace
}  // namespace zero
