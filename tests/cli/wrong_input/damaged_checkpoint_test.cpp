// Unreadable checkpoints of several ranks.
#include <filesystem>

#include "tests/cli/training_test.h"
#include "tests/support/occurrences.h"

namespace zero {
namespace {

class DamagedCheckpoints : public TrainingTest {
 protected:
  DamagedCheckpoints()
      : TrainingTest(small_gpt("[train]\nsteps = 4\nbatch = 2\neval_batches = 1\n[checkpoint]\nevery = 2\n")) {}
};

// Files of all ranks are damaged, and one rank reports them.
TEST_F(DamagedCheckpoints, AreReportedOnce) {
  report_of("-n 2", "run");
  for (const char* step : {"step-00000002", "step-00000004"})
    std::filesystem::resize_file(folder_.path() / "run/checkpoints" / step / "rank-00001.safetensors", 100);
  const Ran ran = folder_.zero("train c.toml -n 2 --train.steps 6 --run.dir run", "timeout 250");
  EXPECT_EQ(ran.status, 4) << ran.output;
  EXPECT_EQ(occurrences("no checkpoint can be read", ran.errors), 1) << ran.errors;
  EXPECT_EQ(occurrences("step-00000004/rank-00001.safetensors: ", ran.errors), 1) << ran.errors;
  EXPECT_EQ(occurrences("step-00000002/rank-00001.safetensors: ", ran.errors), 1) << ran.errors;
  EXPECT_EQ(occurrences("--overwrite", ran.errors), 1) << ran.errors;
}

}  // namespace
}  // namespace zero
