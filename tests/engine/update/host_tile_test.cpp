// HostTile: whole parameters and gradients of a device, for a tile that the host updates.
#include "zero/engine/update/host_tile.h"

#include <cstdint>
#include <vector>

#include <gtest/gtest.h>

#include "tests/support/device/recorded_device.h"

namespace zero {
namespace {

TEST(HostTile, ReturnsOnlyChangedParts) {
  for (std::uint64_t seed = 1; seed <= 4; ++seed) {
    RecordedDevice device({.late = seed, .far_behind = true});
    Ledger ledger;
    BlockPool blocks([&device](std::size_t bytes) { return device.allocate_pinned(bytes); }, ledger,
                     MemoryTag::kStaging, Tier::kHost, {}, device);
    const Allocation whole = device.allocate(256);
    device.fill(Lane::kUp, whole.bytes(), std::byte{3});
    for (int round = 0; round < 2; ++round) {
      HostTile tile(device, blocks);
      std::byte* const brought = tile.bring(whole.bytes());
      tile.wait();
      EXPECT_EQ(brought[100], round == 0 ? std::byte{3} : std::byte{5});
      EXPECT_EQ(brought[10], std::byte{3}) << "this element was not sent";
      for (std::size_t i = 0; i < 256; ++i) brought[i] = std::byte{5};
      tile.send(whole.bytes().subspan(64, 64));
      tile.send(whole.bytes().subspan(192, 32));
    }
    {
      HostTile tile(device, blocks);
      std::byte* const room = tile.room(whole.bytes());
      tile.wait();
      for (std::size_t i = 0; i < 256; ++i) room[i] = std::byte{9};
      tile.send(whole.bytes().first(8));
    }
    const Allocation seen = device.allocate_pinned(256);
    follow(device, Lane::kDown, Lane::kUp);
    device.copy(Lane::kDown, seen.bytes(), whole.bytes());
    join_all(device);
    EXPECT_EQ(seen.data()[0], std::byte{9});
    EXPECT_EQ(seen.data()[8], std::byte{3});
    EXPECT_EQ(seen.data()[64], std::byte{5});
    EXPECT_EQ(seen.data()[224], std::byte{3});
  }
}

}  // namespace
}  // namespace zero
