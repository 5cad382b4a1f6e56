// Servers with other cuts than equal ranges, between processes, over every transport: the bits of equal ranges on
// threads.
//
// Two servers and one or two workers train a small GPT. A row has a transport, a cut (zero.shards) and a mode. The
// compiler checks below that the rows have every pair of settings. With one worker, an asynchronous run always has the
// same order.
#include <array>
#include <string>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "tests/parity/process_report.h"
#include "tests/support/tier.h"

namespace zero {
namespace {

struct ServedCutRow {
  int over;  // index in kServedOver
  int cut;   // index in kServedCuts
  int mode;  // index in kServedModes
};

constexpr std::array kServedOver{"shared_memory", "gloo", "mpi"};
constexpr std::array kServedCuts{"hash", "whole", "weighted --zero.shard_weights [1,3]"};
constexpr std::array kServedModes{"--sync.mode stale --sync.staleness 1", "", "--sync.mode async --sync.staleness 1"};
constexpr int kAsyncMode = 2;

constexpr std::array kServedCutRows{
    ServedCutRow{0, 0, 0}, ServedCutRow{0, 1, 1}, ServedCutRow{0, 2, 2}, ServedCutRow{1, 0, 1}, ServedCutRow{1, 1, 2},
    ServedCutRow{1, 2, 0}, ServedCutRow{2, 0, 2}, ServedCutRow{2, 1, 0}, ServedCutRow{2, 2, 1},
};

constexpr bool has_all_served_pairs() {
  for (int i = 0; i < 3; ++i) {
    for (int j = 0; j < 3; ++j) {
      bool over_cut = false, over_mode = false, cut_mode = false;
      for (const ServedCutRow& row : kServedCutRows) {
        over_cut = over_cut || (row.over == i && row.cut == j);
        over_mode = over_mode || (row.over == i && row.mode == j);
        cut_mode = cut_mode || (row.cut == i && row.mode == j);
      }
      if (!over_cut || !over_mode || !cut_mode) return false;
    }
  }
  return true;
}
static_assert(has_all_served_pairs());

class ServedCutProcesses : public testing::TestWithParam<ServedCutRow> {};

TEST_P(ServedCutProcesses, HaveTheBitsOfEqualRanges) {
  const ServedCutRow& row = GetParam();
  const std::string transport = kServedOver[static_cast<std::size_t>(row.over)];
  if (const std::string why = missing(transport); !why.empty()) GTEST_SKIP() << why;
  const std::string mode = fmt::format("--sync.servers 2 {}", kServedModes[static_cast<std::size_t>(row.mode)]);
  const std::string keys = fmt::format("{} --zero.shards {}", mode, kServedCuts[static_cast<std::size_t>(row.cut)]);
  const int ranks = row.mode == kAsyncMode ? 3 : 4;
  const Json ranges = process_report(ranks, "in_process", mode), cut = process_report(ranks, transport, keys);
  ASSERT_TRUE(ranges.is_object() && cut.is_object()) << keys;
  EXPECT_EQ(cut.at("transport"), transport);
  EXPECT_EQ(cut.at("loss_bits"), ranges.at("loss_bits")) << keys;
  EXPECT_EQ(cut.at("grad_norms"), ranges.at("grad_norms")) << keys;
  EXPECT_EQ(cut.at("parameters_sha256"), ranges.at("parameters_sha256")) << keys;
}

// The full tier has all rows. Otherwise every fourth row runs: together they have each transport, cut and mode.
std::vector<ServedCutRow> served_cut_rows() {
  std::vector<ServedCutRow> rows;
  Sweep sweep(4);
  for (const ServedCutRow& row : kServedCutRows)
    if (sweep.takes_next()) rows.push_back(row);
  return rows;
}

std::string name_of_served(const ServedCutRow& row) {
  constexpr std::array kOver{"SharedMemory", "Gloo", "Mpi"};
  constexpr std::array kCuts{"Hash", "Whole", "Weighted"};
  constexpr std::array kModes{"Stale", "Sync", "Async"};
  return fmt::format("{}{}{}", kOver[static_cast<std::size_t>(row.over)], kCuts[static_cast<std::size_t>(row.cut)],
                     kModes[static_cast<std::size_t>(row.mode)]);
}

INSTANTIATE_TEST_SUITE_P(Rows, ServedCutProcesses, testing::ValuesIn(served_cut_rows()),
                         [](const auto& tested) { return name_of_served(tested.param); });

}  // namespace
}  // namespace zero
