// Process cells: the runs of the real command that process_bits_test.cpp makes in place of all combinations.
//
// Seven factors have 3 * 3 * 4 * 2 * 3 * 4 * 3 = 2,592 combinations, and a run takes one or two seconds. A fault of one
// setting, or of two together, shows in any cell with these settings. So the table has every pair of settings of any
// two factors. It also has three kinds of triples, because faults of sharding may need three settings:
//
//   (transport, stage, type)            every schedule on every wire, in 4 and in 2 bytes
//   (stage, type, micro-batches)        the place and the type in which gradients are accumulated
//   (transport, world) at stage 3       sizes that no world divides, gathered over every wire
//
// Two rules leave out combinations. mpi needs mpirun to start its ranks. kHalf needs gathered units to release, which
// means stage 3 and at least two ranks. A greedy search over twenty seeds found the table: it always takes the cell
// with the most missing pairs. It is the shortest table found, and of equally short tables it needs the fewest
// reference runs. The compiler checks below that the table is complete.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <initializer_list>

namespace zero::tests {

enum Transport : std::uint8_t { kSharedMemory, kMpi, kGloo };
enum Launcher : std::uint8_t { kTrain, kLaunch, kMpirun };  // zero train -n N, zero launch, mpirun
enum Type : std::uint8_t { kFp32, kBf16 };
enum Micro : std::uint8_t { kOne, kMany, kLast };  // one micro-batch; three, reduced by default or last
enum Memory : std::uint8_t { kAuto, kMin, kHalf };

struct ProcessCell {
  Transport transport;
  Launcher launcher;
  int stage;
  Type type;
  Micro micro;
  int world;
  Memory memory;
};

// clang-format off
inline constexpr std::array kProcessCells{
    ProcessCell{kSharedMemory, kTrain,  1, kBf16, kMany, 2, kMin},
    ProcessCell{kSharedMemory, kTrain,  2, kFp32, kOne,  4, kAuto},
    ProcessCell{kSharedMemory, kTrain,  2, kBf16, kLast, 3, kMin},
    ProcessCell{kSharedMemory, kTrain,  3, kFp32, kLast, 1, kMin},
    ProcessCell{kSharedMemory, kTrain,  3, kBf16, kOne,  3, kHalf},
    ProcessCell{kSharedMemory, kLaunch, 1, kFp32, kLast, 3, kMin},
    ProcessCell{kSharedMemory, kLaunch, 3, kFp32, kOne,  2, kAuto},
    ProcessCell{kSharedMemory, kLaunch, 3, kFp32, kMany, 4, kHalf},
    ProcessCell{kSharedMemory, kMpirun, 0, kFp32, kLast, 1, kMin},
    ProcessCell{kSharedMemory, kMpirun, 0, kBf16, kMany, 2, kAuto},
    ProcessCell{kMpi,          kMpirun, 0, kFp32, kOne,  4, kAuto},
    ProcessCell{kMpi,          kMpirun, 0, kBf16, kOne,  1, kMin},
    ProcessCell{kMpi,          kMpirun, 1, kFp32, kOne,  4, kAuto},
    ProcessCell{kMpi,          kMpirun, 1, kBf16, kOne,  1, kAuto},
    ProcessCell{kMpi,          kMpirun, 2, kFp32, kLast, 2, kMin},
    ProcessCell{kMpi,          kMpirun, 2, kBf16, kMany, 2, kAuto},
    ProcessCell{kMpi,          kMpirun, 3, kFp32, kOne,  2, kAuto},
    ProcessCell{kMpi,          kMpirun, 3, kFp32, kOne,  4, kAuto},
    ProcessCell{kMpi,          kMpirun, 3, kFp32, kLast, 1, kMin},
    ProcessCell{kMpi,          kMpirun, 3, kBf16, kMany, 3, kHalf},
    ProcessCell{kGloo,         kTrain,  0, kBf16, kLast, 3, kAuto},
    ProcessCell{kGloo,         kTrain,  2, kFp32, kMany, 1, kAuto},
    ProcessCell{kGloo,         kTrain,  3, kBf16, kLast, 4, kMin},
    ProcessCell{kGloo,         kLaunch, 0, kFp32, kMany, 3, kAuto},
    ProcessCell{kGloo,         kLaunch, 1, kBf16, kLast, 1, kMin},
    ProcessCell{kGloo,         kLaunch, 2, kBf16, kOne,  3, kMin},
    ProcessCell{kGloo,         kMpirun, 1, kFp32, kMany, 3, kAuto},
    ProcessCell{kGloo,         kMpirun, 3, kFp32, kMany, 1, kAuto},
    ProcessCell{kGloo,         kMpirun, 3, kFp32, kLast, 2, kHalf},
    ProcessCell{kGloo,         kMpirun, 3, kBf16, kLast, 3, kAuto},
};
// clang-format on

// ---- proof that the table is complete
// --------------------------------------------------------------------------------

enum Factor : std::uint8_t { kTransport, kLauncher, kStage, kType, kMicro, kWorld, kMemory, kNumFactors };
inline constexpr std::array<int, kNumFactors> kNumLevels{3, 3, 4, 2, 3, 4, 3};

constexpr std::array<int, kNumFactors> levels_of(const ProcessCell& cell) {
  return {cell.transport, cell.launcher, cell.stage, cell.type, cell.micro, cell.world - 1, cell.memory};
}

struct Level {
  Factor factor;
  int level;
};

constexpr bool has(std::initializer_list<Level> wanted, Factor factor, int level) {
  for (const Level& one : wanted) {
    if (one.factor == factor && one.level == level) return true;
  }
  return false;
}

// Whether the two rules allow a cell with all of these levels.
constexpr bool possible(std::initializer_list<Level> wanted) {
  const bool other_launcher = has(wanted, kLauncher, kTrain) || has(wanted, kLauncher, kLaunch);
  if (has(wanted, kTransport, kMpi) && other_launcher) return false;
  const bool nothing_to_release =
      has(wanted, kStage, 0) || has(wanted, kStage, 1) || has(wanted, kStage, 2) || has(wanted, kWorld, 0);
  return !(has(wanted, kMemory, kHalf) && nothing_to_release);
}

constexpr bool covered(std::initializer_list<Level> wanted) {
  for (const ProcessCell& cell : kProcessCells) {
    bool all = true;
    for (const Level& one : wanted) all = all && levels_of(cell)[one.factor] == one.level;
    if (all) return true;
  }
  return !possible(wanted);
}

constexpr bool covers_pairs() {
  for (int a = 0; a < kNumFactors; ++a) {
    for (int b = a + 1; b < kNumFactors; ++b) {
      for (int i = 0; i < kNumLevels[static_cast<std::size_t>(a)]; ++i) {
        for (int j = 0; j < kNumLevels[static_cast<std::size_t>(b)]; ++j) {
          if (!covered({{static_cast<Factor>(a), i}, {static_cast<Factor>(b), j}})) return false;
        }
      }
    }
  }
  return true;
}

constexpr bool covers_triples(Factor a, Factor b, Factor c) {
  for (int i = 0; i < kNumLevels[a]; ++i) {
    for (int j = 0; j < kNumLevels[b]; ++j) {
      for (int k = 0; k < kNumLevels[c]; ++k) {
        if (!covered({{a, i}, {b, j}, {c, k}})) return false;
      }
    }
  }
  return true;
}

constexpr bool covers_worlds_at_stage_three() {
  for (int transport = 0; transport < kNumLevels[kTransport]; ++transport) {
    for (int world = 0; world < kNumLevels[kWorld]; ++world) {
      if (!covered({{kStage, 3}, {kTransport, transport}, {kWorld, world}})) return false;
    }
  }
  return true;
}

constexpr bool obeys_the_rules() {
  for (const ProcessCell& cell : kProcessCells) {
    if (cell.transport == kMpi && cell.launcher != kMpirun) return false;
    if (cell.memory == kHalf && (cell.stage != 3 || cell.world == 1)) return false;
  }
  return true;
}

static_assert(obeys_the_rules());
static_assert(covers_pairs());
static_assert(covers_triples(kTransport, kStage, kType));
static_assert(covers_triples(kStage, kType, kMicro));
static_assert(covers_worlds_at_stage_three());

}  // namespace zero::tests
