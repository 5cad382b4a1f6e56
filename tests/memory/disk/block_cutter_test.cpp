#include "zero/memory/disk/block_cutter.h"

#include <cstring>
#include <vector>

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include "zero/base/process/pages.h"

namespace zero {
namespace {

// Counts the bytes that were allocated from the system and not freed.
struct Source {
  std::vector<std::size_t> made;
  int held = 0;

  BlockCutter cutter() {
    return BlockCutter([this](std::size_t bytes) {
      made.push_back(bytes);
      ++held;
      auto pages = std::make_shared<Allocation>(map_private(bytes));
      std::byte* const data = pages->data();
      return Allocation(data, bytes, [this, pages](std::byte*, std::size_t) { --held; });
    });
  }
};

std::uintptr_t address(const Allocation& block) {
  return reinterpret_cast<std::uintptr_t>(block.data());
}

TEST(BlockCutter, SmallBlocksShareOneHugePage) {
  Source source;
  BlockCutter cut = source.cutter();
  const Allocation first = cut(1 << 20), second = cut(1 << 20);
  EXPECT_EQ(source.made, std::vector<std::size_t>{kHugePageBytes});
  EXPECT_EQ(address(first) % kHugePageBytes, 0u);
  EXPECT_EQ(second.data(), first.data() + (1 << 20));
  EXPECT_EQ(second.size(), 1u << 20);
  const Allocation third = cut(1 << 19);
  EXPECT_EQ(source.made.size(), 2u) << "the first one is full";
}

TEST(BlockCutter, BlocksBeginOnPages) {
  Source source;
  BlockCutter cut = source.cutter();
  const Allocation first = cut(100), second = cut(5000), third = cut(1);
  EXPECT_EQ(second.data(), first.data() + 4096);
  EXPECT_EQ(third.data(), second.data() + 8192);
}

TEST(BlockCutter, LastBlockFreesItsHugePage) {
  Source source;
  BlockCutter cut = source.cutter();
  Allocation first = cut(1 << 20), second = cut(1 << 20);
  first = {};
  EXPECT_EQ(source.held, 1);
  second = {};
  EXPECT_EQ(source.held, 0);
  const Allocation next = cut(1 << 20);
  EXPECT_EQ(source.made.size(), 2u);
}

TEST(BlockCutter, LargeBlocksAreTheAllocatorsOwn) {
  Source source;
  BlockCutter cut = source.cutter();
  const Allocation large = cut(kHugePageBytes), larger = cut(3 * kHugePageBytes + 1);
  EXPECT_EQ(source.made, (std::vector<std::size_t>{kHugePageBytes, 3 * kHugePageBytes + 1}));
  EXPECT_EQ(larger.size(), 3 * kHugePageBytes + 1);
}

TEST(BlockCutter, OutlivedByItsBlocks) {
  Source source;
  Allocation block;
  {
    BlockCutter cut = source.cutter();
    block = cut(4096);
  }
  std::memset(block.data(), 1, block.size());
  block = {};
  EXPECT_EQ(source.held, 0);
}

constexpr std::size_t kStride = 1024;  // blocks begin on pages

RC_GTEST_PROP(BlockCutterProperty, BlocksNeverOverlapOrLeak, ()) {
  Source source;
  {
    BlockCutter cut = source.cutter();
    std::vector<std::pair<Allocation, unsigned char>> blocks;
    const int num_steps = *rc::gen::inRange(1, 24);
    for (int step = 0; step < num_steps; ++step) {
      if (!blocks.empty() && *rc::gen::inRange(0, 3) == 0) {
        const auto at = *rc::gen::inRange<std::size_t>(0, blocks.size());
        const auto bytes = blocks[at].first.bytes();
        for (std::size_t i = 0; i < bytes.size(); i += kStride)
          RC_ASSERT(static_cast<unsigned char>(bytes[i]) == blocks[at].second);
        blocks.erase(blocks.begin() + static_cast<std::ptrdiff_t>(at));
        continue;
      }
      const auto bytes = *rc::gen::oneOf(rc::gen::inRange<std::size_t>(1, 1 << 14),
                                         rc::gen::element<std::size_t>(1 << 19, 1 << 20, (1 << 20) + 1, 3 << 20));
      blocks.emplace_back(cut(bytes), static_cast<unsigned char>(step));
      const std::uintptr_t begin = address(blocks.back().first);
      RC_ASSERT(bytes >= kHugePageBytes || begin / kHugePageBytes == (begin + bytes - 1) / kHugePageBytes);
      for (std::size_t i = 0; i < bytes; i += kStride) blocks.back().first.data()[i] = static_cast<std::byte>(step);
    }
  }
  RC_ASSERT(source.held == 0);
}

}  // namespace
}  // namespace zero
