#include "app/train/run/trials/pass_trial.h"

#include <gtest/gtest.h>

#include "tests/train/small_run.h"
#include "tests/train/some_tasks.h"

namespace zero {
namespace {

class PassTrials : public SmallRunTest {
 protected:
  PassSeconds tried(const PassTrial& trial) const {
    const TrainJob job = text_job(1);
    const Corpus corpus = open_corpus(job);
    const auto task = make_task(job.model, corpus.shape(), 1);
    return time_passes(*task, *corpus.train, trial);
  }
};

TEST_F(PassTrials, TakeMedianOfUpToFive) {
  for (const DType dtype : {DType::kFloat32, DType::kBFloat16, DType::kFloat16}) {
    const PassSeconds found = tried({.samples = 2, .dtype = dtype, .limit_seconds = 1e6});
    EXPECT_EQ(found.passes, 5) << name_of(dtype);
    EXPECT_GT(found.forward, 0) << name_of(dtype);
    EXPECT_GT(found.backward, 0) << name_of(dtype);
  }
}

TEST_F(PassTrials, LongFirstPassSuffices) {
  EXPECT_EQ(tried({.samples = 2, .limit_seconds = 0}).passes, 1);
}

TEST_F(PassTrials, LeaveNoFile) {
  (void)tried({.samples = 2, .limit_seconds = 0});
  EXPECT_FALSE(std::filesystem::exists(folder_ / "run"));
}

TEST(PassTrial, HoldsParametersGradientsAndMasters) {
  EXPECT_EQ(trial_state_bytes(1000, DType::kFloat32), 8000);
  EXPECT_EQ(trial_state_bytes(1000, DType::kBFloat16), 8000) << "two of 2 bytes, and a master of 4";
}

}  // namespace
}  // namespace zero
