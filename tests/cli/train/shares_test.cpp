// train.share on the command line.
#include "tests/cli/training_test.h"
#include "tests/support/expect_contains.h"

namespace zero {
namespace {

class Shares : public TrainingTest {
 protected:
  Shares()
      : TrainingTest(small_gpt(R"([train]
steps = 12
batch = 4
eval_every = 0
[schedule]
warmup = 2
[comm]
transport = "in_process"
)")) {}
};
using SharesSlow = Shares;

TEST_F(SharesSlow, CommandLineSharesAreReported) {
  const Ran ran = folder_.zero("train c.toml -n 2 --run.dir run --train.share=[7,1]");
  EXPECT_EQ(ran.status, 0) << ran.errors;
  EXPECT_CONTAINS(ran.output, "samples of a micro-batch, by rank: 7 + 1");
  EXPECT_EQ(nlohmann::json::parse(folder_.read("run/report.json")).at("shares"), (nlohmann::json{7, 1}));
  EXPECT_EQ(last_ranks("run").at("samples"), (nlohmann::json{7, 1}));
}

TEST_F(SharesSlow, MeasuredSharesSumToMicroBatch) {
  const auto shares = report_of("-n 2 --train.share=auto --train.share_most=6", "run").at("shares");
  EXPECT_EQ(shares.at(0).get<int>() + shares.at(1).get<int>(), 8);
  for (const int share : shares) EXPECT_LE(share, 6);
}

TEST_F(SharesSlow, RefusesAnotherNumberOfRanks) {
  const Ran ran = folder_.zero("train c.toml -n 2 --run.dir run --train.share=[3,3,2]");
  EXPECT_EQ(ran.status, 2);
  EXPECT_CONTAINS(ran.errors, "train.share = [3, 3, 2]: 3 shares for 2 ranks");
  EXPECT_CONTAINS(ran.errors, "[4, 4]: they must sum to 8 = 4 (train.batch) x 2 (ranks)");
}

}  // namespace
}  // namespace zero
