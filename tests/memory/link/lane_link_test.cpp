#include "zero/memory/link/lane_link.h"

#include <algorithm>

#include <gtest/gtest.h>

#include "zero/base/error/error.h"

#include "tests/support/device/dropped_waits.h"
#include "tests/support/device/recorded_device.h"

namespace zero {
namespace {

constexpr std::size_t kBytes = 1024;

void fill_on_host(Device& device, std::span<std::byte> bytes, std::byte value) {
  const Access access = writes(bytes);
  device.host_touches({&access, 1}, "a test");
  std::ranges::fill(bytes, value);
}
std::byte first_on_host(Device& device, std::span<const std::byte> bytes) {
  const Access access = reads(bytes);
  device.host_touches({&access, 1}, "a test");
  return bytes.front();
}

// A state is updated on the device, copied down for work on the host, and copied up again.
void visit(RecordedDevice& device) {
  const Allocation state = device.allocate(kBytes), tile = device.allocate_pinned(kBytes);
  LaneLink link(device, {.up = {Lane::kUpdate}, .down = {Lane::kUpdate}});
  device.fill(Lane::kUpdate, state.bytes(), std::byte{1});
  link.down(tile.bytes(), state.bytes()).wait();
  EXPECT_EQ(first_on_host(device, tile.bytes()), std::byte{1});
  fill_on_host(device, tile.bytes(), std::byte{2});
  device.fill(Lane::kUpdate, state.bytes(), std::byte{3});
  link.up(state.bytes(), tile.bytes()).wait();
  device.copy(Lane::kDown, tile.bytes(), state.bytes());
  device.join(device.mark(Lane::kDown));
  EXPECT_EQ(first_on_host(device, tile.bytes()), std::byte{2});
}

// The link follows the lanes that its caller names, and the host waits for the link.
TEST(LaneLink, FollowsNamedLanes) {
  RecordedDevice late({.late = 7, .far_behind = true});
  visit(late);
}

TEST(LaneLink, EachOfItsWaitsIsNeeded) {
  RecordedDevice whole({.far_behind = true});
  visit(whole);
  EXPECT_EQ(whole.waits().size(), 5U);
  for (std::size_t dropped = 0; dropped < whole.waits().size(); ++dropped) {
    RecordedDevice device({.on_race = OnRace::kList, .dropped_wait = dropped, .far_behind = true});
    visit(device);
    EXPECT_FALSE(device.races().empty()) << whole.waits()[dropped];
  }
}

TEST(LaneLink, ComesAfterNoOtherLane) {
  RecordedDevice device;
  const Allocation states = device.allocate(kBytes), others = device.allocate(kBytes);
  const Allocation tile = device.allocate_pinned(kBytes);
  LaneLink link(device, {.up = {Lane::kUpdate}, .down = {Lane::kUpdate}});
  device.fill(Lane::kCompute, others.bytes(), std::byte{1});
  const std::uint64_t computed = device.clocks().size();
  link.up(states.bytes(), tile.bytes()).wait();
  EXPECT_FALSE(device.clocks().back().covers(actor_of(Lane::kCompute), computed));
  device.join(device.mark(Lane::kCompute));
}

// This also holds if another link shares the device.
TEST(LaneLink, FollowsAllLanesByDefault) {
  for (const bool beside : {false, true}) {
    RecordedDevice device;
    const Allocation state = device.allocate(kBytes), tile = device.allocate_pinned(kBytes);
    LaneLink known(device, {.up = {}, .down = {}}), unknown(device);
    const std::unique_ptr<Link> other = beside ? known.beside() : unknown.beside();
    for (const Lane lane : {Lane::kCompute, Lane::kGather, Lane::kReduce, Lane::kUpdate}) {
      device.fill(lane, state.bytes(), std::byte{1});
      other->up(state.bytes(), tile.bytes()).wait();
      device.fill(lane, state.bytes(), std::byte{2});
      other->down(tile.bytes(), state.bytes()).wait();
    }
  }
}

// If source and destination are the same memory, the transfer waits for the earlier copy into it.
TEST(LaneLink, SameMemoryReturnsCopysMark) {
  RecordedDevice device({.late = 3, .far_behind = true});
  const Allocation state = device.allocate(kBytes), tile = device.allocate_pinned(kBytes);
  LaneLink link(device);
  device.fill(Lane::kDown, state.bytes(), std::byte{5});
  device.copy(Lane::kDown, tile.bytes(), state.bytes());
  Transfer down = link.down(tile.bytes(), tile.bytes());
  EXPECT_FALSE(down.done());
  down.wait();
  EXPECT_EQ(first_on_host(device, tile.bytes()), std::byte{5});
}

TEST(LaneLink, CountsOwnBytesByDirection) {
  RecordedDevice device;
  const Allocation state = device.allocate(kBytes), tile = device.allocate_pinned(kBytes);
  LaneLink link(device);
  const std::unique_ptr<Link> other = link.beside();
  link.up(state.bytes(), tile.bytes()).wait();
  other->down(tile.bytes().first(24), state.bytes().first(24)).wait();
  EXPECT_EQ(link.traffic().up_bytes, static_cast<std::int64_t>(kBytes));
  EXPECT_EQ(link.traffic().down_bytes, 0);
  EXPECT_EQ(other->traffic().down_bytes, 24);
}

// Each copy takes a millisecond on the clock of a RecordedDevice.
TEST(LaneLink, IsBusyWhileTheDeviceCopies) {
  RecordedDevice device;
  const Allocation state = device.allocate(kBytes), tile = device.allocate_pinned(kBytes);
  LaneLink link(device);
  device.fill(Lane::kUpdate, state.bytes(), std::byte{1});
  link.down(tile.bytes(), state.bytes()).wait();
  link.up(state.bytes(), tile.bytes()).wait();
  link.up(state.bytes(), tile.bytes()).wait();
  EXPECT_NEAR(link.traffic().up_busy_seconds, 2e-3, 1e-9);
  EXPECT_NEAR(link.traffic().down_busy_seconds(), 1e-3, 1e-9);
  EXPECT_EQ(link.traffic().waited_seconds, 0) << "each was done when it was asked for";
}

// The host waits for the copy in each case.
TEST(LaneLink, IdleDeviceWaitCounts) {
  int num_hidden = 0;
  for (unsigned seed = 0; seed < 20; ++seed) {
    RecordedDevice device({.late = seed, .far_behind = true});
    const Allocation state = device.allocate(kBytes), tile = device.allocate_pinned(kBytes);
    const Allocation operands = device.allocate(kBytes);
    LaneLink idle(device, {.up = {}, .down = {}});
    idle.up(state.bytes(), tile.bytes()).wait();
    EXPECT_NEAR(idle.traffic().up_waited_seconds, 1e-3, 1e-9);
    EXPECT_NEAR(idle.traffic().waited_seconds, idle.traffic().busy_seconds, 1e-9);
    EXPECT_GT(idle.waited_seconds(), 0);
    LaneLink busy(device, {.up = {}, .down = {}});
    device.fill(Lane::kCompute, operands.bytes(), std::byte{1});
    busy.up(state.bytes(), tile.bytes()).wait();
    join_all(device);
    EXPECT_LE(busy.traffic().waited_seconds, busy.traffic().busy_seconds + 1e-9);
    num_hidden += busy.traffic().waited_seconds < 1e-9 ? 1 : 0;
  }
  EXPECT_GT(num_hidden, 0) << "if operators end after it";
}

TEST(LaneLink, OperatorLaneWaitsHostDoesNot) {
  RecordedDevice device;
  const Allocation state = device.allocate(kBytes), tile = device.allocate_pinned(kBytes);
  LaneLink link(device, {.up = {}, .down = {}});
  Transfer early = link.up(state.bytes(), tile.bytes());
  link.compute_after(used_in(device, Lane::kUp));
  EXPECT_NEAR(link.traffic().waited_seconds, 0, 1e-9) << "the transfer ended before";
  device.fill(Lane::kCompute, state.bytes(), std::byte{1});
  link.compute_after(used_in(device, Lane::kCompute));
  EXPECT_EQ(link.waited_seconds(), 0) << "the host waits for nothing";
  early.wait();
  join_all(device);
}

TEST(LaneLink, TransfersOfOtherSizesAreRefused) {
  RecordedDevice device;
  const Allocation state = device.allocate(kBytes), tile = device.allocate_pinned(kBytes);
  LaneLink link(device);
  EXPECT_THROW(static_cast<void>(link.up(state.bytes(), tile.bytes().first(8))), InternalError);
}

}  // namespace
}  // namespace zero
