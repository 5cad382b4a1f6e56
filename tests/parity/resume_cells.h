// Resume cells: the interrupted runs that resume_bits_test.cpp makes in place of all combinations.
//
// Six factors have 4 * 2 * 2 * 2 * 3 * 3 = 288 combinations, and each is three runs of the real command. The table has
// every pair of settings of any two factors, in as few cells as possible (stages and tiers need twelve). A greedy
// search over random seeds found it. Among the shortest tables found, it has the fewest ranks. The compiler checks
// below that the table is complete. `./test.sh` runs the first cell of each stage, and these have every setting.
// `./test.sh full` adds cells in which all settings of any three factors meet.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "tests/support/covering_table.h"

namespace zero::resume_cells {

enum ResumeType : std::uint8_t { kFp32, kBf16 };
enum Dropout : std::uint8_t { kWithout, kDropout };
enum Place : std::uint8_t { kDevice, kHost, kDisk };  // the tier of all states that the stage lets leave the device

struct ResumeCell {
  int stage;
  ResumeType type;
  int accumulate;
  Dropout dropout;
  Place place;
  int world;
};

inline constexpr std::array kResumeWorlds{1, 2, 4};

// clang-format off
inline constexpr std::array kResumeCells{
    ResumeCell{0, kBf16, 1, kDropout, kDevice, 1},
    ResumeCell{0, kFp32, 2, kWithout, kDisk, 2},
    ResumeCell{0, kBf16, 1, kWithout, kHost, 4},
    ResumeCell{1, kFp32, 2, kDropout, kHost, 4},
    ResumeCell{1, kFp32, 2, kWithout, kDevice, 1},
    ResumeCell{1, kBf16, 1, kWithout, kDisk, 2},
    ResumeCell{2, kBf16, 2, kWithout, kDisk, 4},
    ResumeCell{2, kFp32, 1, kDropout, kDevice, 2},
    ResumeCell{2, kBf16, 1, kWithout, kHost, 1},
    ResumeCell{3, kBf16, 1, kWithout, kHost, 2},
    ResumeCell{3, kFp32, 1, kWithout, kDevice, 4},
    ResumeCell{3, kBf16, 2, kDropout, kDisk, 1},
};
// clang-format on

inline constexpr std::array kResumeLevels{4, 2, 2, 2, 3, 3};

constexpr std::array<int, kResumeLevels.size()> levels_of(const ResumeCell& cell) {
  return {cell.stage, cell.type, cell.accumulate - 1, cell.dropout, cell.place, cell.world / 2};
}

inline std::vector<ResumeCell> threewise_resume_cells() {
  std::vector<std::array<int, kResumeLevels.size()>> pairs;
  for (const ResumeCell& cell : kResumeCells) pairs.push_back(levels_of(cell));
  const auto all_possible = [](const auto&) { return true; };
  std::vector<ResumeCell> cells;
  for (const auto& row : tests::covering_table<3>(kResumeLevels, all_possible, pairs))
    cells.push_back({row[0], static_cast<ResumeType>(row[1]), row[2] + 1, static_cast<Dropout>(row[3]),
                     static_cast<Place>(row[4]), kResumeWorlds.at(static_cast<std::size_t>(row[5]))});
  return cells;
}

// ---- proof that the table is complete
// --------------------------------------------------------------------------------

constexpr bool holds_pair(std::size_t a, int level_of_a, std::size_t b, int level_of_b) {
  for (const ResumeCell& cell : kResumeCells) {
    if (levels_of(cell)[a] == level_of_a && levels_of(cell)[b] == level_of_b) return true;
  }
  return false;
}

constexpr bool resume_cells_cover_pairs() {
  for (std::size_t a = 0; a < kResumeLevels.size(); ++a) {
    for (std::size_t b = a + 1; b < kResumeLevels.size(); ++b) {
      for (int i = 0; i < kResumeLevels[a]; ++i) {
        for (int j = 0; j < kResumeLevels[b]; ++j) {
          if (!holds_pair(a, i, b, j)) return false;
        }
      }
    }
  }
  return true;
}

static_assert(resume_cells_cover_pairs());

}  // namespace zero::resume_cells
