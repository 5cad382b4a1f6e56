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

}  // namespace
}  // namespace zero
