// Cuts, groups, local steps and codecs between processes, over Gloo and MPI: the bits of the same run on threads.
//
// Four ranks train a small GPT. A row has a transport, a cut (zero.shards), a way to hold the model, a codec and a
// stage. It also has one micro-batch, or two whose gradients are summed over ranks separately. The compiler checks
// below that the rows have every possible pair of settings.
#include <algorithm>
#include <array>
#include <map>
#include <string>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "tests/parity/process_report.h"
#include "tests/support/tier.h"

namespace zero {
namespace {

constexpr int kRanks = 4;

enum Over : std::uint8_t { kOverGloo, kOverMpi };
enum Shards : std::uint8_t { kRangeShards, kWholeShards, kHashShards };
enum Held : std::uint8_t { kOnce, kGroups, kApart, kGroupsApart };  // apart: sync.mode local
enum Coded : std::uint8_t { kAsItIs, kAsInt8, kAsInt4, kAsTopk };

enum Staged : std::uint8_t { kStage1, kStage2, kStage3 };
enum Micro : std::uint8_t { kOneMicro, kTwoMicros };

struct ModeRow {
  Over over;
  Shards shards;
  Held held;
  Coded coded;
  Staged staged;
  Micro micro;
  constexpr std::array<int, 6> levels() const { return {over, shards, held, coded, staged, micro}; }
};

// clang-format off
constexpr std::array kModeRows{
    ModeRow{kOverGloo, kRangeShards, kOnce,        kAsItIs, kStage2, kOneMicro},
    ModeRow{kOverMpi,  kWholeShards, kOnce,        kAsInt8, kStage1, kTwoMicros},
    ModeRow{kOverGloo, kHashShards,  kOnce,        kAsInt4, kStage3, kTwoMicros},
    ModeRow{kOverGloo, kRangeShards, kGroups,      kAsInt8, kStage1, kOneMicro},
    ModeRow{kOverMpi,  kWholeShards, kGroups,      kAsInt4, kStage2, kOneMicro},
    ModeRow{kOverMpi,  kHashShards,  kGroups,      kAsItIs, kStage3, kTwoMicros},
    ModeRow{kOverMpi,  kRangeShards, kApart,       kAsInt4, kStage1, kTwoMicros},
    ModeRow{kOverGloo, kWholeShards, kApart,       kAsItIs, kStage3, kOneMicro},
    ModeRow{kOverGloo, kHashShards,  kApart,       kAsInt8, kStage3, kOneMicro},
    ModeRow{kOverMpi,  kRangeShards, kApart,       kAsTopk, kStage2, kTwoMicros},
    ModeRow{kOverGloo, kHashShards,  kApart,       kAsTopk, kStage3, kOneMicro},
    ModeRow{kOverMpi,  kRangeShards, kGroupsApart, kAsItIs, kStage1, kTwoMicros},
    ModeRow{kOverGloo, kWholeShards, kGroupsApart, kAsTopk, kStage1, kOneMicro},
    ModeRow{kOverMpi,  kHashShards,  kGroupsApart, kAsInt8, kStage3, kTwoMicros},
    ModeRow{kOverGloo, kRangeShards, kGroupsApart, kAsInt4, kStage3, kOneMicro},
    ModeRow{kOverMpi,  kWholeShards, kGroupsApart, kAsInt8, kStage2, kTwoMicros},
};
// clang-format on

// Top-k applies only to outer steps. Hashed blocks need stage 3.
constexpr bool is_possible(std::size_t a, int of_a, std::size_t b, int of_b) {
  const auto level = [=](std::size_t factor, int open) { return a == factor ? of_a : b == factor ? of_b : open; };
  if (level(1, kRangeShards) == kHashShards && level(4, kStage3) != kStage3) return false;
  return level(3, kAsItIs) != kAsTopk || level(2, kApart) >= kApart;
}

constexpr bool has_all_pairs() {
  constexpr std::array kNumLevels{2, 3, 4, 4, 3, 2};
  for (std::size_t a = 0; a < kNumLevels.size(); ++a) {
    for (std::size_t b = a + 1; b < kNumLevels.size(); ++b) {
      for (int i = 0; i < kNumLevels[a]; ++i) {
        for (int j = 0; j < kNumLevels[b]; ++j) {
          bool found = !is_possible(a, i, b, j);
          for (const ModeRow& row : kModeRows) found = found || (row.levels()[a] == i && row.levels()[b] == j);
          if (!found) return false;
        }
      }
    }
  }
  return true;
}
static_assert(has_all_pairs());

std::string keys_of(const ModeRow& row) {
  constexpr std::array kShards{"range", "whole", "hash"};
  constexpr std::array kCodecs{"none", "int8", "int4", "topk"};
  std::string keys = fmt::format("--zero.shards {} --zero.stage {} --train.accumulate {}", kShards[row.shards],
                                 row.staged + 1, row.micro + 1);
  if (row.held == kGroups || row.held == kGroupsApart) keys += " --zero.group 2";
  if (row.held >= kApart) keys += " --sync.mode local --sync.local_steps 2";
  if (row.coded == kAsItIs) return keys;
  if (row.held != kOnce) keys += fmt::format(" --comm.outer_wire {}", kCodecs[row.coded]);
  if (row.held == kApart || row.coded == kAsTopk) return keys;
  keys += fmt::format(" --comm.reduce_wire {}", kCodecs[row.coded]);
  return row.staged == kStage3 ? fmt::format("{} --comm.gather_wire {}", keys, kCodecs[row.coded]) : keys;
}

std::string name_of_row(const ModeRow& row) {
  constexpr std::array kOver{"Gloo", "Mpi"};
  constexpr std::array kShards{"Range", "Whole", "Hash"};
  constexpr std::array kHeld{"Once", "Groups", "Apart", "GroupsApart"};
  constexpr std::array kCoded{"AsItIs", "Int8", "Int4", "Topk"};
  return fmt::format("{}{}{}{}Stage{}Micros{}", kOver[row.over], kShards[row.shards], kHeld[row.held],
                     kCoded[row.coded], row.staged + 1, row.micro + 1);
}

class ProcessModes : public testing::TestWithParam<ModeRow> {};

TEST_P(ProcessModes, HaveTheBitsOfThreads) {
  const std::string transport = GetParam().over == kOverMpi ? "mpi" : "gloo", keys = keys_of(GetParam());
  if (const std::string why = missing(transport); !why.empty()) GTEST_SKIP() << why;
  const Json threads = process_report(kRanks, "in_process", keys), processes = process_report(kRanks, transport, keys);
  ASSERT_TRUE(threads.is_object() && processes.is_object()) << keys;
  EXPECT_EQ(processes.at("transport"), transport);
  EXPECT_EQ(processes.at("loss_bits"), threads.at("loss_bits")) << keys;
  EXPECT_EQ(processes.at("grad_norms"), threads.at("grad_norms")) << keys;
  EXPECT_EQ(processes.at("parameters_sha256"), threads.at("parameters_sha256")) << keys;
  EXPECT_EQ(processes.at("sent_bytes_per_step"), threads.at("sent_bytes_per_step")) << keys;
}

// Secondary parts of weights, which neighbours keep within a step, with recomputed forward passes.
class ProcessSecondary : public testing::TestWithParam<std::string> {};

TEST_P(ProcessSecondary, HasTheBitsOfPlainStage3) {
  if (const std::string why = missing(GetParam()); !why.empty()) GTEST_SKIP() << why;
  const std::string plain = "--zero.device_memory min --train.checkpoint_activations true",
                    keys = plain + " --zero.secondary_group 2";
  const Json threads = process_report(kRanks, "in_process", plain),
             processes = process_report(kRanks, GetParam(), keys);
  ASSERT_TRUE(threads.is_object() && processes.is_object());
  for (const char* const bits : {"loss_bits", "grad_norms", "parameters_sha256"})
    EXPECT_EQ(processes.at(bits), threads.at(bits)) << bits;
  const Json& secondary = processes.at("secondary");
  for (int rank = 0; rank < kRanks; ++rank) {
    const auto of_rank = static_cast<std::size_t>(rank);
    EXPECT_EQ(processes.at("sent_bytes_per_step").at(of_rank), processes.at("planned_sent_bytes"));
    EXPECT_EQ(secondary.at("sent_bytes_per_step").at(of_rank), secondary.at("planned_sent_bytes"));
    EXPECT_EQ(secondary.at("sent_between_groups_per_step").at(of_rank), secondary.at("planned_sent_between_groups"));
  }
}

INSTANTIATE_TEST_SUITE_P(Transports, ProcessSecondary,
                         testing::ValuesIn(in_full_tier() ? std::vector<std::string>{"shared_memory", "gloo", "mpi"}
                                                          : std::vector<std::string>{"gloo"}),
                         [](const auto& tested) { return tested.param; });

// The full tier has all rows. Otherwise every fourth row runs, over both transports.
std::vector<ModeRow> rows() {
  std::vector<ModeRow> rows;
  Sweep sweep(4);
  for (const ModeRow& row : kModeRows)
    if (sweep.takes_next()) rows.push_back(row);
  return rows;
}

INSTANTIATE_TEST_SUITE_P(Rows, ProcessModes, testing::ValuesIn(rows()),
                         [](const auto& tested) { return name_of_row(tested.param); });

}  // namespace
}  // namespace zero
