// The warm-up is longer than the run: it is shortened, and the command says so.
#include <nlohmann/json.hpp>

#include "tests/cli/training_test.h"
#include "tests/support/json_lines.h"
#include "tests/support/message_of.h"

namespace zero {
namespace {

class ShortenedWarmup : public TrainingTest {
 protected:
  ShortenedWarmup()
      : TrainingTest(small_gpt("[train]\nsteps = 8\nbatch = 2\n[optimizer]\nlr = 0.3\n[schedule]\nname = \"constant\"\n"
                               "warmup = 5\n[run]\nthreads = 1\n")) {}
};

std::size_t count_of(const std::string& text, const std::string& part) {
  std::size_t count = 0;
  for (auto at = text.find(part); at != text.npos; at = text.find(part, at + 1)) ++count;
  return count;
}

TEST_F(ShortenedWarmup, CommandsPrintTheNote) {
  const std::string note = "note: schedule.warmup is 2 instead of 5 (c.toml:16), because the run has 2 steps";
  for (const std::string command : {"train c.toml --run.dir run -n 2", "train c.toml --dry-run", "plan c.toml -n 2"}) {
    const Ran ran = folder_.zero(command + " --train.steps 2", "timeout 250");
    EXPECT_EQ(ran.status, 0) << ran.errors;
    EXPECT_EQ(count_of(ran.output, note), 1U) << ran.output;
  }
  const Ran whole = folder_.zero("plan c.toml", "timeout 250");
  EXPECT_EQ(count_of(whole.output, "schedule.warmup is"), 0U) << whole.output;
  // rates of a warm-up of two steps
  const std::vector<nlohmann::json> lines = json_lines(folder_.read("run/metrics.jsonl"));
  ASSERT_GE(lines.size(), 2U);
  EXPECT_NEAR(lines[0].at("lr").get<double>(), 0.1, 1e-9);
  EXPECT_NEAR(lines[1].at("lr").get<double>(), 0.2, 1e-9);
}

}  // namespace
}  // namespace zero
