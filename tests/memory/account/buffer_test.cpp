#include "zero/memory/account/buffer.h"

#include <type_traits>

#include <gtest/gtest.h>

#include "zero/memory/account/host_memory.h"

namespace zero {
namespace {

static_assert(!std::is_copy_constructible_v<Buffer> && std::is_nothrow_move_constructible_v<Buffer>);

Buffer moments(std::size_t bytes, Ledger& ledger) {
  return {allocate_host(bytes), ledger, Tier::kDevice, MemoryTag::kMoment};
}

std::int64_t held(const Ledger& ledger) {
  return ledger.held(Tier::kDevice, MemoryTag::kMoment);
}

TEST(Buffer, IsChargedWhileItLives) {
  Ledger ledger;
  {
    const Buffer buffer = moments(1000, ledger);
    EXPECT_EQ(buffer.size(), 1000U);
    EXPECT_EQ(held(ledger), 1000);
  }
  EXPECT_EQ(held(ledger), 0);
  EXPECT_EQ(ledger.peak_total(Tier::kDevice), 1000);
}

TEST(Buffer, MovesAreChargedOnce) {
  Ledger ledger;
  Buffer first = moments(100, ledger);
  Buffer second = std::move(first);
  EXPECT_FALSE(first);  // NOLINT: tests the moved-from object
  EXPECT_EQ(held(ledger), 100);
  Buffer third;
  third = std::move(second);
  EXPECT_EQ(held(ledger), 100);
  EXPECT_EQ(ledger.peak_total(Tier::kDevice), 100);
}

TEST(Buffer, AssignmentCreditsOldBufferAtOnce) {
  Ledger ledger;
  Buffer buffer = moments(100, ledger);
  buffer = moments(30, ledger);
  EXPECT_EQ(held(ledger), 30);
  buffer = Buffer();
  EXPECT_EQ(held(ledger), 0);
}

TEST(Buffer, ViewsAsElementsOfAnyType) {
  Ledger ledger;
  const Buffer buffer = moments(64, ledger);
  EXPECT_EQ(buffer.as<float>().size(), 16U);
  buffer.as<float>()[3] = 1.0F;
  EXPECT_EQ(buffer.as<std::uint32_t>()[3], 0x3f800000U);
  EXPECT_EQ(buffer.bytes().data(), buffer.data());
}

TEST(Buffer, AnEmptyOneOwesNothing) {
  Ledger ledger;
  { const Buffer empty(Allocation(), ledger, Tier::kHost, MemoryTag::kStaging); }
  EXPECT_FALSE(Buffer());
  EXPECT_EQ(ledger.held(Tier::kHost), MemoryCount{});
}

}  // namespace
}  // namespace zero
