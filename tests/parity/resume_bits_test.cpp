// Exact resume as users do it: `zero train` for K steps, and the same command for K more. The losses, gradient norms
// and weights equal those of 2 K steps in one run. The ranks are processes because of dropout: threads share a
// generator. The cells are those of resume_cells.h.
#include <array>
#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <memory>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include <fmt/format.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "tests/cli/command.h"
#include "tests/parity/resume_cells.h"
#include "tests/support/this_build.h"
#include "tests/support/tier.h"

namespace zero {
namespace {

using resume_cells::ResumeCell;
using Json = nlohmann::json;

constexpr std::array kTypeNames{"fp32", "bf16"};
constexpr std::array kDropouts{"0.0", "0.1"};
constexpr int kHalfOfTheSteps = 3;

std::string describe(const ResumeCell& cell) {
  constexpr std::array kTypes{"Fp32", "Bf16"};
  constexpr std::array kDropped{"", "Dropout"};
  constexpr std::array kPlaces{"Device", "Host", "Disk"};
  return fmt::format("Stage{}{}Accumulate{}{}{}World{}", cell.stage, kTypes[cell.type], cell.accumulate,
                     kDropped[cell.dropout], kPlaces[cell.place], cell.world);
}

// States that the stage holds whole stay on the device.
std::string placement_of(const ResumeCell& cell) {
  if (cell.place == resume_cells::kDevice) return "";
  const std::string_view tier = cell.place == resume_cells::kHost ? "host" : "disk";
  std::string text = fmt::format("optimizer = {{{} = 1}}\n", tier);
  if (cell.stage >= 2) text += fmt::format("gradient = {{{} = 1}}\n", tier);
  if (cell.stage == 3) text += fmt::format("parameter = {{{} = 1}}\n", tier);
  if (cell.place == resume_cells::kDisk) text += "disk = [\"tier\"]\n";
  return text;
}

// The learning rate of a step does not depend on the number of steps. Each rank has one thread, because equal bits need
// equal threads. There is no validation split, because its text would take most of the time.
std::string config_of(const ResumeCell& cell) {
  return fmt::format(R"([model]
layers = 1
width = 32
heads = 2
context = 16
dropout = {}
[data]
path = "{}/examples/shakespeare/input.txt"
validation = 0
[train]
batch = 2
accumulate = {}
dtype = "{}"
clip = 1.0
[optimizer]
lr = 1e-2
[schedule]
name = "constant"
warmup = 2
[zero]
stage = {}
{}[run]
threads = 1
)",
                     kDropouts[cell.dropout], built::kSourceFolder, cell.accumulate, kTypeNames[cell.type], cell.stage,
                     placement_of(cell));
}

std::vector<ResumeCell> cells() {
  if (in_full_tier()) return resume_cells::threewise_resume_cells();
  std::vector<ResumeCell> cells;
  Sweep sweep(3);
  for (const ResumeCell& cell : resume_cells::kResumeCells)
    if (sweep.takes_next()) cells.push_back(cell);
  return cells;
}

// The bytes of moments on a tier: moments leave the device if any state does. `key` has each rank's bytes, and is
// missing if no state left the device.
std::int64_t moments_in(const Json& report, const std::string& key) {
  std::int64_t total = 0;
  if (!report.contains(key)) return total;
  for (const Json& rank : report.at(key)) total += rank.at("moment").get<std::int64_t>();
  return total;
}

// All cells share one folder, so the disk is probed once.
class ResumeRuns : public ::testing::Test {
 protected:
  static void SetUpTestSuite() {
    folder_ = std::make_unique<Folder>();
    std::filesystem::create_directory(folder_->path() / "tier");
  }
  static void TearDownTestSuite() { folder_.reset(); }

  // Trains `steps` steps into the folder `run`. The test fails if the run fails.
  static Ran train(const ResumeCell& cell, const std::string& run, int steps, int checkpoint_every) {
    folder_->write("c.toml", config_of(cell));
    const Ran ran = folder_->zero(fmt::format("train c.toml -n {} --run.dir {} --train.steps {} --checkpoint.every {}",
                                              cell.world, run, steps, checkpoint_every),
                                  "timeout 200");
    EXPECT_EQ(ran.status, 0) << ran.errors << ran.output;
    return ran;
  }
  static Json report_of(const std::string& run) {
    return Json::parse(folder_->read(run + "/report.json"), nullptr, /*allow_exceptions=*/false);
  }

  static inline std::unique_ptr<Folder> folder_;
};

class ResumeBits : public ResumeRuns, public ::testing::WithParamInterface<ResumeCell> {};

TEST_P(ResumeBits, MatchUninterruptedRun) {
  const ResumeCell& cell = GetParam();
  const std::string whole = describe(cell) + "-whole", halves = describe(cell) + "-halves";
  train(cell, whole, 2 * kHalfOfTheSteps, 0);
  const Json expected = report_of(whole);
  ASSERT_TRUE(expected.is_object()) << "no report";
  ASSERT_EQ(expected.at("loss_bits").size(), std::size_t{2 * kHalfOfTheSteps});

  train(cell, halves, kHalfOfTheSteps, kHalfOfTheSteps);
  const Ran resumed = train(cell, halves, 2 * kHalfOfTheSteps, kHalfOfTheSteps);
  EXPECT_NE(resumed.output.find(fmt::format("continuing after step {} of {}", kHalfOfTheSteps, 2 * kHalfOfTheSteps)),
            std::string::npos)
      << resumed.output;
  const Json seen = report_of(halves);
  ASSERT_TRUE(seen.is_object()) << "no report";

  // The run must be the one that the cell describes.
  EXPECT_EQ(seen.at("world"), cell.world);
  EXPECT_EQ(seen.at("stage"), cell.stage);
  EXPECT_EQ(seen.at("dtype"), kTypeNames[cell.type]);
  EXPECT_EQ(moments_in(seen, "host_memory_bytes") > 0, cell.place == resume_cells::kHost);
  EXPECT_EQ(moments_in(seen, "disk_bytes") > 0, cell.place == resume_cells::kDisk);

  EXPECT_EQ(seen.at("loss_bits"), expected.at("loss_bits"));
  EXPECT_EQ(seen.at("grad_norms"), expected.at("grad_norms"));
  EXPECT_EQ(seen.at("parameters_sha256"), expected.at("parameters_sha256"));
}

// If the training did not depend on these factors and on the type, the comparison would prove nothing.
TEST_F(ResumeRuns, DependOnMicroBatchesAndDropout) {
  const ResumeCell base{.stage = 1,
                        .type = resume_cells::kFp32,
                        .accumulate = 1,
                        .dropout = resume_cells::kWithout,
                        .place = resume_cells::kDevice,
                        .world = 1};
  ResumeCell type = base, accumulate = base, dropout = base;
  type.type = resume_cells::kBf16;
  accumulate.accumulate = 2;
  dropout.dropout = resume_cells::kDropout;
  std::vector<std::string> weights;
  for (const ResumeCell& cell : {base, type, accumulate, dropout}) {
    train(cell, describe(cell) + "-varied", kHalfOfTheSteps, 0);
    weights.push_back(report_of(describe(cell) + "-varied").value("parameters_sha256", "none"));
  }
  for (std::size_t i = 1; i < weights.size(); ++i) EXPECT_NE(weights[i], weights.front()) << i;
}

// Some cell has any three settings of three factors.
TEST(ResumeCellsOfTheFullTier, CoverAnyThreeFactorsLevels) {
  using resume_cells::kResumeLevels;
  const std::vector<ResumeCell> cells = resume_cells::threewise_resume_cells();
  for (std::size_t a = 0; a < kResumeLevels.size(); ++a) {
    for (std::size_t b = a + 1; b < kResumeLevels.size(); ++b) {
      for (std::size_t c = b + 1; c < kResumeLevels.size(); ++c) {
        std::set<std::array<int, 3>> met;
        for (const ResumeCell& cell : cells) {
          const auto levels = resume_cells::levels_of(cell);
          met.insert({levels[a], levels[b], levels[c]});
        }
        EXPECT_EQ(met.size(), static_cast<std::size_t>(kResumeLevels[a] * kResumeLevels[b] * kResumeLevels[c]))
            << "factors " << a << ", " << b << ", " << c;
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Cells, ResumeBits, ::testing::ValuesIn(cells()),
                         [](const auto& info) { return describe(info.param); });

}  // namespace
}  // namespace zero
