// Law 2 over processes: `zero train` as users start it, on every transport and under every launcher. It has the bits of
// the same training on threads of one process.
//
// Each cell of process_cells.h trains a small GPT on real text. Its loss bits, gradient norms and weights must equal
// those of an in_process run at stage 3. That run has the same world, type and micro-batches, and all states on the
// device. Each of these references is made once.
#include <algorithm>
#include <map>
#include <memory>
#include <stdexcept>
#include <string>
#include <tuple>
#include <vector>

#include <fmt/format.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "zero/base/text/bytes.h"
#include "zero/comm/transport/open_transport.h"

#include "tests/cli/command.h"
#include "tests/parity/process_cells.h"
#include "tests/support/mpirun.h"
#include "tests/support/this_build.h"
#include "tests/support/tier.h"

namespace zero {
namespace {

using tests::ProcessCell;
using Json = nlohmann::json;

constexpr std::array kTransportNames{"shared_memory", "mpi", "gloo"};
constexpr std::array kTypeNames{"fp32", "bf16"};
constexpr int kSteps = 6;

std::string describe(const ProcessCell& cell) {
  constexpr std::array kTransports{"SharedMemory", "Mpi", "Gloo"};
  constexpr std::array kLaunchers{"Train", "Launch", "Mpirun"};
  constexpr std::array kTypes{"Fp32", "Bf16"};
  constexpr std::array kMicros{"", "Accumulate3", "Accumulate3Last"};
  constexpr std::array kMemories{"", "Min", "Half"};
  return fmt::format("{}{}Stage{}{}World{}{}{}", kTransports[cell.transport], kLaunchers[cell.launcher], cell.stage,
                     kTypes[cell.type], cell.world, kMicros[cell.micro], kMemories[cell.memory]);
}

// The states off the device. Cells take turns.
enum class Away : std::uint8_t { kNothing, kMoments, kMost };

Away away_of(const ProcessCell& cell) {
  if (cell.memory == tests::kHalf) return Away::kNothing;  // the budget places states on the host
  return static_cast<Away>((cell.transport + cell.stage + cell.world + cell.micro) % 3);
}

// Keys of [zero]. Only a part of a state moves, so a rank's shard begins on one tier and ends on another.
std::string placement_of(const ProcessCell& cell) {
  const bool moments = away_of(cell) == Away::kMoments;
  if (away_of(cell) == Away::kNothing) return "";
  std::string text = "disk = [\".\"]\n";
  text += moments ? "optimizer = {disk = 1}\n" : "optimizer = {host = 0.5, disk = 0.5}\n";
  if (moments) return text;
  if (cell.stage >= 2 && cell.micro != tests::kLast) text += "gradient = {host = 0.4, disk = 0.3}\n";
  if (cell.stage == 3) text += "parameter = {disk = 0.5}\n";
  return text;
}

// Each rank has one thread, because equal bits need equal threads. There is no validation split, because its text would
// take most of the time.
std::string config_of(const ProcessCell& cell, const std::string& transport, const std::string& device_memory,
                      const std::string& placement = "") {
  return fmt::format(R"([model]
layers = 2
width = 48
heads = 2
context = 32
dropout = 0.0
[data]
path = "{}/examples/shakespeare/input.txt"
validation = 0
[train]
steps = {}
batch = 2
accumulate = {}
{}dtype = "{}"
clip = 1.0
[optimizer]
lr = 1e-2
[schedule]
warmup = 2
[zero]
stage = {}
device_memory = "{}"
{}[comm]
transport = "{}"
[run]
dir = "run"
threads = 1
)",
                     built::kSourceFolder, kSteps, cell.micro == tests::kOne ? 1 : 3,
                     cell.micro == tests::kLast ? "reduce = \"last\"\n" : "", kTypeNames[cell.type], cell.stage,
                     device_memory, placement, transport);
}

// The report.json of a run. If the run fails, the test fails with its output. `before` and `arguments` are those of
// Folder::zero().
Json train(const std::string& config, const std::string& arguments, const std::string& before = "") {
  const Folder folder;
  folder.write("c.toml", config);
  const Ran ran = folder.zero(arguments, before + " timeout 200");
  EXPECT_EQ(ran.status, 0) << ran.errors << ran.output;
  return Json::parse(folder.read("run/report.json"), nullptr, /*allow_exceptions=*/false);
}

std::int64_t peak_of(const Json& report) {
  std::int64_t most = 0;
  for (const Json& rank : report.at("peak_memory_bytes")) most = std::max(most, rank.at("total").get<std::int64_t>());
  return most;
}

// The in_process runs with which cells are compared. Each is made when it is first needed.
class References {
 public:
  const Json& of(const ProcessCell& cell) {
    const auto key = std::make_tuple(cell.world, cell.type, cell.micro);
    const auto found = runs_.find(key);
    if (found != runs_.end()) return found->second;
    ProcessCell reference = cell;
    reference.stage = 3;
    return runs_[key] =
               train(config_of(reference, "in_process", "auto"), fmt::format("train c.toml -n {}", cell.world));
  }

  // The mean of the smallest accepted budget, with all states on the host, and the peak of a run without limits. A
  // refusal names the smallest budget.
  std::int64_t half_budget(const ProcessCell& cell) {
    const Folder folder;
    folder.write("c.toml", config_of(cell, "in_process", "1B"));
    const Ran refused = folder.zero(fmt::format("train c.toml -n {}", cell.world), "timeout 200");
    constexpr std::string_view kLeast = "needs at least ";
    const auto begin = refused.errors.find(kLeast), end = refused.errors.find(" a rank", begin);
    if (refused.status != 2 || begin == std::string::npos || end == std::string::npos)
      throw std::runtime_error("no minimum is told: " + refused.errors);
    const std::string least = refused.errors.substr(begin + kLeast.size(), end - begin - kLeast.size());
    return (parse_bytes(least, "least") + peak_of(of(cell))) / 2;
  }

 private:
  std::map<std::tuple<int, tests::Type, tests::Micro>, Json> runs_;
};

bool available(std::string_view transport) {
  const auto statuses = transport_statuses();
  return std::any_of(statuses.begin(), statuses.end(),
                     [&](const TransportStatus& status) { return status.name == transport && status.available; });
}

Json run(const ProcessCell& cell, const std::string& device_memory) {
  const std::string config = config_of(cell, kTransportNames[cell.transport], device_memory, placement_of(cell));
  switch (cell.launcher) {
    case tests::kTrain:
      return train(config, fmt::format("train c.toml -n {}", cell.world));
    case tests::kLaunch:
      return train(config, fmt::format("launch --nproc-per-node {} -- '{}' train c.toml", cell.world, built::kCommand));
    case tests::kMpirun:
      break;
  }
  return train(config, "train c.toml", mpirun_ranks(cell.world));
}

class ProcessBits : public ::testing::TestWithParam<ProcessCell> {
 protected:
  static void SetUpTestSuite() { references_ = std::make_unique<References>(); }
  static void TearDownTestSuite() { references_.reset(); }
  static inline std::unique_ptr<References> references_;
};

TEST_P(ProcessBits, AreThoseOfThreads) {
  const ProcessCell& cell = GetParam();
  const std::string transport = kTransportNames[cell.transport];
  if (!available(transport)) GTEST_SKIP() << "the plug-in " << transport << " is missing";
  if (cell.launcher == tests::kMpirun && std::string_view(ZERO_MPIRUN).empty())
    GTEST_SKIP() << "no mpirun on this machine";

  const Json& expected = references_->of(cell);
  ASSERT_TRUE(expected.is_object());
  ASSERT_EQ(expected.at("loss_bits").size(), std::size_t{kSteps});
  const bool half = cell.memory == tests::kHalf;
  const std::int64_t budget = half ? references_->half_budget(cell) : 0;
  const Json seen = run(cell, half ? fmt::format("{}B", budget) : cell.memory == tests::kMin ? "min" : "auto");
  ASSERT_TRUE(seen.is_object()) << "no report";

  // The run must be the one that the cell describes.
  EXPECT_EQ(seen.at("world"), cell.world);
  EXPECT_EQ(seen.at("stage"), cell.stage);
  EXPECT_EQ(seen.at("dtype"), kTypeNames[cell.type]);
  EXPECT_EQ(seen.at("transport"), transport);
  EXPECT_EQ(seen.at("ranks_source") == "zero launch", cell.launcher != tests::kMpirun) << seen.at("ranks_source");

  if (!half) {
    EXPECT_EQ(seen.contains("disk_bytes"), away_of(cell) != Away::kNothing);
  }

  EXPECT_EQ(seen.at("loss_bits"), expected.at("loss_bits"));
  EXPECT_EQ(seen.at("grad_norms"), expected.at("grad_norms"));
  EXPECT_EQ(seen.at("parameters_sha256"), expected.at("parameters_sha256"));
  if (half) {
    EXPECT_LE(peak_of(seen), budget);
    EXPECT_LT(peak_of(seen), peak_of(expected)) << "half the budget must lower the peak";
  }
}

// The full tier has every pair of the table's values. Otherwise every fifth cell runs.
std::vector<ProcessCell> cells() {
  std::vector<ProcessCell> cells;
  Sweep sweep(5);
  for (const ProcessCell& cell : tests::kProcessCells)
    if (sweep.takes_next()) cells.push_back(cell);
  return cells;
}

INSTANTIATE_TEST_SUITE_P(Cells, ProcessBits, ::testing::ValuesIn(cells()),
                         [](const auto& info) { return describe(info.param); });

// If the training did not change, or did not depend on a cell's factors, the comparison would prove nothing.
TEST(ProcessBitsReference, DependsOnWhatACellVaries) {
  References references;
  const ProcessCell base{.transport = tests::kSharedMemory, .stage = 3, .world = 2};
  ProcessCell bf16 = base, micro = base;
  bf16.type = tests::kBf16;
  micro.micro = tests::kLast;
  const Json& seen = references.of(base);
  ASSERT_TRUE(seen.is_object());
  EXPECT_LT(seen.at("losses").back().get<double>(), seen.at("losses").front().get<double>() - 0.1);
  EXPECT_NE(seen.at("parameters_sha256"), references.of(bf16).at("parameters_sha256"));
  EXPECT_NE(seen.at("parameters_sha256"), references.of(micro).at("parameters_sha256"));
}

}  // namespace
}  // namespace zero
