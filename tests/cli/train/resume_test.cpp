// `zero train` continues on another machine: with other threads, or another processor.
#include "tests/cli/training_test.h"
#include "tests/support/expect_contains.h"

namespace zero {
namespace {

class Resume : public TrainingTest {
 protected:
  Resume() : TrainingTest(small_gpt(at_one_rate("steps = 4\nbatch = 2\neval_every = 0\n"))) {}
  std::string go_on(const std::string& flags, const std::string& before = "") const {
    const Ran ran = folder_.zero("train c.toml --run.dir run " + flags, before);
    EXPECT_EQ(ran.status, 0) << ran.errors;
    return ran.output;
  }
  static constexpr const char* kOthers = "its last bits may differ from an undisturbed run: it computed with ";
};

TEST_F(Resume, OtherThreadsAreSaid) {
  ASSERT_TRUE(report_of("-n 2", "run").is_object());
  EXPECT_EQ(go_on("-n 2 --train.steps 5").find(kOthers), std::string::npos);
  EXPECT_CONTAINS(go_on("-n 2 --train.steps 6 --run.threads 2"),
                  std::string(kOthers) + "threads 1, and threads 2 here");
}

TEST_F(Resume, OtherInstructionsAreSaid) {
  ASSERT_TRUE(report_of("", "run").is_object());
  EXPECT_CONTAINS(go_on("--train.steps 5", "ATEN_CPU_CAPABILITY=default"), std::string(kOthers) + "instructions ");
}

// torchrun's attempts: all processes of one shell have the same agent, and each shell is another one.
TEST_F(Resume, TorchrunsRestartKeepsItsRun) {
  const auto attempt = [](int number) {
    return "TORCHELASTIC_RUN_ID=none TORCHELASTIC_RESTART_COUNT=" + std::to_string(number) + " timeout 100 ";
  };
  const std::string flags = "train c.toml --run.dir run --overwrite";
  const auto restarted = [&](int number, int steps) {
    const std::string first = attempt(0) + "'" + built::kCommand + "' " + flags + "; ";
    return folder_.zero(flags + " --train.steps " + std::to_string(steps) + "; exit $?", first + attempt(number));
  };
  const Ran ran = restarted(1, 5);
  ASSERT_EQ(ran.status, 0) << ran.errors;
  EXPECT_CONTAINS(ran.output, "continuing after step 4 of 5");
  // torchrun does not count a restart after a change of membership.
  EXPECT_CONTAINS(restarted(0, 6).output, "continuing after step 4 of 6");

  const Ran other = folder_.zero(flags + "; exit $?", attempt(1));
  EXPECT_EQ(other.status, 2) << other.output;
  EXPECT_CONTAINS(other.errors, "run.dir = run: torchrun has restarted the ranks with --overwrite");
  EXPECT_CONTAINS(folder_.zero("train c.toml --run.dir run --train.steps 7").output, "continuing after step 6 of 7");
}

}  // namespace
}  // namespace zero
