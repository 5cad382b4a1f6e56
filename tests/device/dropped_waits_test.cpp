#include "tests/support/device/dropped_waits.h"

#include <array>
#include <cstdint>
#include <vector>

#include <gtest/gtest.h>

#include "zero/base/error/error.h"

namespace zero {
namespace {

constexpr std::size_t kNumel = 32;
constexpr std::size_t kNumTiles = 5;
constexpr std::size_t kTileBytes = kNumel * sizeof(float);

struct Scale {
  float* data;
};
void scale(const Scale& a) {
  for (std::size_t i = 0; i < kNumel; ++i) a.data[i] = 3.0F * a.data[i] + 1.0F;
}
constexpr Kernel kScale = kernel_of<Scale, &scale>("scale");

std::span<std::byte> tile_of(const Allocation& memory, std::size_t index) {
  return memory.bytes().subspan(index * kTileBytes, kTileBytes);
}
float* floats_of(std::span<std::byte> bytes) {
  return reinterpret_cast<float*>(bytes.data());
}

void fill_on_host(Device& device, const Allocation& memory) {
  const std::array access{writes(memory.bytes())};
  device.host_touches(access, "first values");
  for (std::size_t i = 0; i < kNumTiles * kNumel; ++i) floats_of(memory.bytes())[i] = static_cast<float>(i + 1);
}
std::vector<float> values_on_host(Device& device, const Allocation& memory) {
  const std::array access{reads(memory.bytes())};
  device.host_touches(access, "comparison");
  const float* const data = floats_of(memory.bytes());
  return {data, data + kNumTiles * kNumel};
}

// Updates states of the host on the device: up, kernel, down. Two device tiles alternate.
std::vector<float> update_on_device(Device& device) {
  const Allocation states = device.allocate_pinned(kNumTiles * kTileBytes), tiles = device.allocate(2 * kTileBytes);
  fill_on_host(device, states);
  std::array<Mark, 2> given_back;
  for (std::size_t i = 0; i < kNumTiles; ++i) {
    const std::span<std::byte> tile = tile_of(tiles, i % 2);
    device.wait(Lane::kUp, given_back[i % 2]);
    device.copy(Lane::kUp, tile, tile_of(states, i));
    device.wait(Lane::kUpdate, device.mark(Lane::kUp));
    run(device, Lane::kUpdate, kScale, Scale{floats_of(tile)}, {changes(tile)});
    device.wait(Lane::kDown, device.mark(Lane::kUpdate));
    device.copy(Lane::kDown, tile_of(states, i), tile);
    given_back[i % 2] = device.mark(Lane::kDown);
  }
  device.join(device.mark(Lane::kDown));
  return values_on_host(device, states);
}

// Updates states of the device on the host: down, host code, up. Two host tiles alternate, and the next tile is copied
// down while the host computes.
std::vector<float> update_on_host(Device& device) {
  const Allocation first = device.allocate_pinned(kNumTiles * kTileBytes),
                   tiles = device.allocate_pinned(2 * kTileBytes);
  const Allocation states = device.allocate(kNumTiles * kTileBytes);
  fill_on_host(device, first);
  device.copy(Lane::kUp, states.bytes(), first.bytes());
  std::array<Mark, 2> down, up{Mark(), device.mark(Lane::kUp)};
  const auto start_down = [&](std::size_t i) {
    device.wait(Lane::kDown, up[i % 2]);
    device.copy(Lane::kDown, tile_of(tiles, i % 2), tile_of(states, i));
    down[i % 2] = device.mark(Lane::kDown);
  };
  device.wait(Lane::kDown, up[1]);
  up[1] = {};
  start_down(0);
  for (std::size_t i = 0; i < kNumTiles; ++i) {
    if (i + 1 < kNumTiles) start_down(i + 1);
    const std::span<std::byte> tile = tile_of(tiles, i % 2);
    device.join(down[i % 2]);
    const std::array access{changes(tile)};
    device.host_touches(access, "update on the host");
    scale({floats_of(tile)});
    device.copy(Lane::kUp, tile_of(states, i), tile);
    up[i % 2] = device.mark(Lane::kUp);
  }
  device.copy(Lane::kUp, first.bytes(), states.bytes());
  device.join(device.mark(Lane::kUp));
  return values_on_host(device, first);
}

class Pipelines : public testing::TestWithParam<std::vector<float> (*)(Device&)> {};

TEST_P(Pipelines, DroppingAnyWaitMakesARace) {
  const std::vector<DroppedWait> waits = drop_each_wait([](RecordedDevice& device) { GetParam()(device); });
  EXPECT_GE(waits.size(), 2 * kNumTiles);
  for (const DroppedWait& wait : waits) EXPECT_EQ(wait.verdict, WaitVerdict::kCaught) << wait.text;
}

TEST_P(Pipelines, KeepBitsInEveryOrder) {
  RecordedDevice at_once;
  const std::vector<float> expected = GetParam()(at_once);
  EXPECT_EQ(expected[4], 3.0F * 5.0F + 1.0F);
  EXPECT_EQ(expected.back(), 3.0F * kNumTiles * kNumel + 1.0F);
  for (std::uint64_t seed = 0; seed < 50; ++seed) {
    RecordedDevice late({.late = seed});
    EXPECT_EQ(GetParam()(late), expected) << "seed " << seed;
  }
}

// The bits change in at least one order.
TEST_P(Pipelines, DroppingAnyWaitChangesBits) {
  RecordedDevice at_once;
  const std::vector<float> expected = GetParam()(at_once);
  for (std::size_t dropped = 0; dropped < at_once.waits().size(); ++dropped) {
    bool differs = false;
    for (std::uint64_t seed = 0; seed < 200 && !differs; ++seed) {
      RecordedDevice late({.on_race = OnRace::kList, .late = seed, .dropped_wait = dropped});
      differs = GetParam()(late) != expected;
      EXPECT_FALSE(late.races().empty());
    }
    EXPECT_TRUE(differs) << at_once.waits()[dropped];
  }
}

INSTANTIATE_TEST_SUITE_P(Updates, Pipelines, testing::Values(&update_on_device, &update_on_host));

TEST(DroppedWaits, ThoseThatOthersSayAreImplied) {
  const std::vector<DroppedWait> waits = drop_each_wait([](RecordedDevice& device) {
    const Allocation block = device.allocate(kTileBytes);
    device.fill(Lane::kUp, block.bytes(), std::byte{1});
    const Mark up = device.mark(Lane::kUp);
    device.wait(Lane::kUpdate, up);
    device.wait(Lane::kUpdate, up);
    device.fill(Lane::kUpdate, block.bytes(), std::byte{2});
    device.join(device.mark(Lane::kUpdate));
  });
  ASSERT_EQ(waits.size(), 3U);
  EXPECT_EQ(waits[0].verdict, WaitVerdict::kImplied) << waits[0].text;
  EXPECT_EQ(waits[1].verdict, WaitVerdict::kImplied) << waits[1].text;
  EXPECT_EQ(waits[2].verdict, WaitVerdict::kCaught) << waits[2].text;
  EXPECT_EQ(
      waits[1].text,
      "wait 1: lane update waits for lane up behind operation 1\nis implied by others, or nothing comes after it");
}

TEST(DroppedWaits, WaitWithoutSharedBytesIsIdle) {
  const std::vector<DroppedWait> waits = drop_each_wait([](RecordedDevice& device) {
    const Allocation blocks = device.allocate(2 * kTileBytes);
    device.fill(Lane::kUp, tile_of(blocks, 0), std::byte{1});
    follow(device, Lane::kUpdate, Lane::kUp);
    device.fill(Lane::kUpdate, tile_of(blocks, 1), std::byte{2});
    device.join(device.mark(Lane::kUp));
    device.join(device.mark(Lane::kUpdate));
  });
  ASSERT_EQ(waits.size(), 3U);
  EXPECT_EQ(waits[0].verdict, WaitVerdict::kIdle) << waits[0].text;
  EXPECT_EQ(waits[1].verdict, WaitVerdict::kImplied) << waits[1].text;
  EXPECT_EQ(waits[2].verdict, WaitVerdict::kCaught) << waits[2].text;
}

TEST(DroppedWaits, RefusesProgramsWithARace) {
  const auto program = [](RecordedDevice& device) {
    const Allocation block = device.allocate(kTileBytes);
    device.fill(Lane::kUp, block.bytes(), std::byte{1});
    device.fill(Lane::kDown, block.bytes(), std::byte{2});
  };
  EXPECT_THROW(drop_each_wait(program), InternalError);
}

}  // namespace
}  // namespace zero
