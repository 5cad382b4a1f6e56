// A model that is larger than a rank's limit: 200 million parameters, 763 MiB, on four ranks. The kernel limits each
// rank's private memory to 450 MiB (`ulimit -d`). Its parameter shard has 191 MiB in a shared window. A rank's memory
// is less than the weights together, so training works only if no rank ever builds or gathers the whole model.
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "tests/cli/command.h"

namespace zero {
namespace {

constexpr std::int64_t kMiB = 1 << 20;
constexpr std::int64_t kPrivateMiB = 450;
constexpr int kLayers = 50;

std::string config() {
  std::string sizes = "8";
  for (int layer = 0; layer <= kLayers; ++layer) sizes += ", 2000";
  return "[model]\nname = \"mlp\"\nsizes = [" + sizes +
         ", 1]\n[data]\nkind = \"csv\"\npath = \"rows.csv\"\nvalidation = 0\n"
         "[train]\nsteps = 2\nbatch = 2\n[optimizer]\nname = \"sgd\"\nlr = 1e-3\n[schedule]\nname = \"constant\"\n"
         "warmup = 0\n[zero]\nstage = 3\ndevice_memory = \"min\"\n[run]\ndir = \"run\"\n"
         "[checkpoint]\nevery = 0\n";  // a checkpoint takes 32 MiB of blocks beside the states
}

std::string rows() {
  std::string text;
  for (int row = 0; row < 64; ++row) {
    for (int column = 0; column < 8; ++column) text += std::to_string((row * 7 + column * 3) % 11) + ",";
    text += std::to_string(row % 5) + "\n";
  }
  return text;
}

class CappedModel : public testing::Test {
 protected:
  void SetUp() override {
    if (!ZERO_CAN_TRAIN) GTEST_SKIP() << "this build has no libtorch, and `zero train` needs it";
    folder_.write("c.toml", config());
    folder_.write("rows.csv", rows());
  }
  Ran train(int ranks) const {
    return folder_.zero("train c.toml -n " + std::to_string(ranks),
                        "ulimit -d " + std::to_string(kPrivateMiB * 1024) + " && timeout 200");
  }
  Folder folder_;
};
using CappedModelFull = CappedModel;

TEST_F(CappedModelFull, TrainsThoughNoRankHoldsEverything) {
  const Ran ran = train(4);
  ASSERT_EQ(ran.status, 0) << ran.errors;
  const auto report = nlohmann::json::parse(folder_.read("run/report.json"), nullptr, false);
  ASSERT_TRUE(report.is_object());
  const std::int64_t model_bytes = report.at("num_parameters").get<std::int64_t>() * 4;
  for (const auto& rank : report.at("memory_bytes")) {
    EXPECT_LT(rank.at("parameter").get<std::int64_t>() + kPrivateMiB * kMiB, model_bytes);
  }
  for (const auto& rank : report.at("peak_memory_bytes"))
    EXPECT_LT(rank.at("gathered").get<std::int64_t>(), model_bytes / 20) << "one block of fifty at a time";
}

TEST_F(CappedModelFull, RefusesModelsThatDoNotFit) {
  const Ran ran = train(1);
  EXPECT_EQ(ran.status, 2) << ran.errors;
  EXPECT_NE(ran.errors.find("use more ranks, a higher stage or a smaller model"), std::string::npos) << ran.errors;
  EXPECT_EQ(ran.errors.find("frame #"), std::string::npos) << "a stack trace does not help the user";
}

}  // namespace
}  // namespace zero
