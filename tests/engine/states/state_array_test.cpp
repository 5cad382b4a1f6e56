// State moves: states move between tiers, and all bytes arrive. During a move, no tier holds more than before or after
// it.
#include "zero/engine/states/state_array.h"

#include <cstring>

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include "zero/memory/account/host_memory.h"

#include "tests/support/temporary_folder.h"

namespace zero {
namespace {

constexpr std::int64_t kBlock = 1024;  // elements of a page

// Two fp32 arrays that may be on any tier.
struct Arrays {
  explicit Arrays(const std::vector<std::vector<TierSplit>>& splits) {
    for (const auto& of_array : splits) {
      const ArrayLayout layout{of_array, std::vector<std::int64_t>(of_array.size(), 4)};
      arrays.emplace_back(layout, MemoryTag::kMoment, Tiers{ledger, &disk, /*movable=*/true}, allocate_host);
    }
  }
  // The value of an element shows its position.
  static float value(std::size_t array, std::size_t unit, std::int64_t element) {
    return static_cast<float>(1000 * (array + 1) + 100 * unit) + static_cast<float>(element / 256);
  }
  void fill() {
    for_each_run([](std::span<float> run, std::size_t array, std::size_t unit, std::int64_t first) {
      for (std::size_t i = 0; i < run.size(); ++i) run[i] = value(array, unit, first + static_cast<std::int64_t>(i));
    });
  }
  bool is_whole() {
    bool whole = true;
    for_each_run([&whole](std::span<float> run, std::size_t array, std::size_t unit, std::int64_t first) {
      for (std::size_t i = 0; i < run.size(); ++i)
        whole = whole && run[i] == value(array, unit, first + static_cast<std::int64_t>(i));
    });
    return whole;
  }
  // Calls `body` for each page, on any tier.
  template <typename Body>
  void for_each_run(Body body) {
    const Allocation page = allocate_host(4096);
    auto* const staged = reinterpret_cast<float*>(page.data());
    for (std::size_t a = 0; a < arrays.size(); ++a) {
      for (std::size_t unit = 0; unit < num_units; ++unit) {
        const std::int64_t numel = arrays[a].split(static_cast<int>(unit)).numel();
        for (std::int64_t first = 0; first < numel; first += kBlock) {
          const auto count = static_cast<std::size_t>(std::min(kBlock, numel - first));
          auto* const there = reinterpret_cast<float*>(arrays[a].memory(static_cast<int>(unit), first));
          if (there != nullptr) {
            body(std::span(there, count), a, unit, first);
            continue;
          }
          const std::int64_t offset = arrays[a].disk_offset(static_cast<int>(unit), first);
          disk.read(offset, page.bytes()).wait();
          body(std::span(staged, count), a, unit, first);
          disk.write(offset, page.bytes()).wait();
        }
      }
    }
  }
  std::int64_t move_to(const std::vector<std::vector<TierSplit>>& splits) {
    std::vector<PlacedPiece> pieces;
    for (std::size_t a = 0; a < arrays.size(); ++a) {
      for (const StatePiece& piece : arrays[a].pieces_to(splits[a])) pieces.push_back({&arrays[a], piece});
    }
    const std::int64_t moved = move_pieces(std::move(pieces));
    for (std::size_t a = 0; a < arrays.size(); ++a) arrays[a].settle(splits[a]);
    return moved;
  }

  std::size_t num_units = 3;
  TemporaryFolder folder;
  DiskTier disk{{.paths = {folder.path().string()}, .bytes = std::int64_t{1} << 28}};
  Ledger ledger;
  std::vector<StateArray> arrays;
};

std::int64_t bytes_on(const std::vector<std::vector<TierSplit>>& splits, Tier tier) {
  std::int64_t bytes = 0;
  for (const auto& of_array : splits) {
    for (const TierSplit& split : of_array) bytes += tier_bytes(split, tier, 4);
  }
  return bytes;
}

void expect_moved(const std::vector<std::vector<TierSplit>>& from, const std::vector<std::vector<TierSplit>>& to) {
  Arrays arrays(from);
  arrays.fill();
  arrays.move_to(to);
  RC_ASSERT(arrays.is_whole());
  for (const Tier tier : {Tier::kDevice, Tier::kHost}) {
    RC_ASSERT(arrays.ledger.held(tier).total() == bytes_on(to, tier));
    RC_ASSERT(arrays.ledger.peak_total(tier) <= std::max(bytes_on(from, tier), bytes_on(to, tier)));
  }
  RC_ASSERT(arrays.ledger.held(Tier::kDisk).total() == bytes_on(to, Tier::kDisk));
}

// Tiers meet at page borders. The last tier has the rest.
TierSplit random_split(std::int64_t numel) {
  const std::int64_t pages = numel / kBlock;
  const std::int64_t device = *rc::gen::inRange<std::int64_t>(0, pages + 1);
  const std::int64_t host = *rc::gen::inRange<std::int64_t>(0, pages - device + 1);
  switch (*rc::gen::inRange(0, 4)) {
    case 0:
      return {.device = numel};
    case 1:
      return {.host = numel};
    case 2:
      return {.disk = numel};
    default:
      return {.device = device * kBlock, .host = host * kBlock, .disk = numel - (device + host) * kBlock};
  }
}

// During a move, no tier holds more than before or after it.
RC_GTEST_PROP(StateMoves, NoTierExceedsItsEnds, ()) {
  std::vector<std::int64_t> numels;
  for (int unit = 0; unit < 3; ++unit) numels.push_back(*rc::gen::inRange<std::int64_t>(1, 40 * kBlock));
  std::vector<std::vector<TierSplit>> from(2), to(2);
  for (auto* splits : {&from, &to}) {
    for (auto& of_array : *splits) {
      for (const std::int64_t numel : numels) of_array.push_back(random_split(numel));
    }
  }
  expect_moved(from, to);
}

// Neither tier has room for the other array, so one piece after another moves by way of the disk.
TEST(StateMoves, ArraysOnFullTiersChangePlaces) {
  const TierSplit device{.device = 5'000 * kBlock}, host{.host = 5'000 * kBlock}, none{.device = kBlock};
  const std::vector<std::vector<TierSplit>> from{{device, none, none}, {host, none, none}},
      to{{host, none, none}, {device, none, none}};
  Arrays arrays(from);
  arrays.fill();
  EXPECT_EQ(arrays.move_to(to), 2 * 5'000 * 4096);
  EXPECT_TRUE(arrays.is_whole());
  EXPECT_EQ(arrays.ledger.peak_total(Tier::kHost), 5'000 * 4096);
  EXPECT_EQ(arrays.ledger.peak_total(Tier::kDevice), 5'004 * 4096);
  EXPECT_LE(arrays.ledger.peak_total(Tier::kDisk), 2 * StateArray::kMostPieceBytes);
}

}  // namespace
}  // namespace zero
