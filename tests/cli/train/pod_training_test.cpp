// The manifest for Kubernetes: two launchers on this machine, with the variables of the manifest's two pods.
#include <string>

#include <fmt/format.h>

#include "tests/cli/training_test.h"
#include "tests/support/unclaimed_port.h"

namespace zero {
namespace {

class PodTraining : public TrainingTest {
 protected:
  PodTraining() : TrainingTest(small_gpt(at_one_rate("steps = 6\nglobal_batch = 4\neval_every = 0\n"))) {}
};

// The launchers have the variables of the manifest.
TEST_F(PodTraining, TwoLaunchersTrainTogether) {
  if (!ZERO_HAS_GLOO) GTEST_SKIP() << "this build has no Gloo";
  const nlohmann::json alone = report_of("-n 4", "alone");
  const std::string pod = fmt::format(
      "env ZERO_TOKEN=0123456789abcdef0123 ZERO_COMM_INTERFACE=lo PET_NNODES=2 PET_NPROC_PER_NODE=2 "
      "PET_MASTER_ADDR=127.0.0.1 "
      "PET_MASTER_PORT={} ",
      unclaimed_port());
  const std::string command =
      std::string("launch --backend gloo --max-restarts 3 -- '") + built::kCommand + "' train c.toml --run.dir pods";
  const Ran ran = folder_.zero(command + " && wait $first; }", "{ " + pod + "PET_NODE_RANK=1 timeout 120 '" +
                                                                   built::kCommand + "' " + command + " & first=$!; " +
                                                                   pod + "PET_NODE_RANK=0 timeout 120");
  EXPECT_EQ(ran.status, 0) << ran.errors;
  const auto pods = nlohmann::json::parse(folder_.read("pods/report.json"), nullptr, /*allow_exceptions=*/false);
  ASSERT_TRUE(pods.is_object()) << ran.errors << ran.output;
  EXPECT_EQ(pods.at("world"), 4);
  EXPECT_EQ(pods.at("loss_bits"), alone.at("loss_bits"));
  EXPECT_EQ(pods.at("parameters_sha256"), alone.at("parameters_sha256"));
}

}  // namespace
}  // namespace zero
