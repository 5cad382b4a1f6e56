#include "zero/engine/states/state_streams.h"

#include <algorithm>
#include <functional>
#include <vector>

#include <gtest/gtest.h>

#include "zero/base/error/error.h"
#include "zero/memory/disk/disk_seam.h"

#include "tests/engine/ramps.h"
#include "tests/engine/scripted_model.h"
#include "tests/engine/thread_ranks.h"
#include "tests/memory/scripted_queue.h"
#include "tests/support/temporary_folder.h"

namespace zero {
namespace {

// One rank with parameters and gradients on a simulated disk. The values of each unit are ramps.
struct OnDisk {
  ScriptedDisk script;
  std::vector<Unit> units = make_units(small_specs(), {});
  TemporaryFolder folder;
  Ledger ledger;
  DiskTier disk;
  ShardedState state;

  OnDisk(Communicator& comm, int depth)
      : disk({.paths = {folder.path()}, .bytes = 64 * DiskTier::kPageBytes}, seam(script)),
        state(units, placement(units), moments(2), comm, ledger, {.disk = &disk, .depth = depth}) {
    load_ramps(state);
  }
  static DiskSeam seam(ScriptedDisk& script) {
    DiskSeam seam;
    seam.make_queue = [&script](std::span<const int>, int) { return script.queue(); };
    return seam;
  }
  static Placement placement(const std::vector<Unit>& units) {
    Placement placement = place(3, Reduce::kAuto, 1);
    spread_over_tiers(placement, units, 1, {.parameter = {.disk = 1}, .gradient = {.disk = 1}});
    return placement;
  }
  StateStreams& streams() { return state.streams(); }
  std::int64_t num_reads() const { return std::ranges::count(script.asked, IoOperation::kRead, &IoRequest::operation); }
  std::vector<float> fetched(int unit) {
    std::vector<float> values(static_cast<std::size_t>(state.shard(unit).numel));
    streams().fetch_parameter(unit, reinterpret_cast<std::byte*>(values.data()), std::ssize(values));
    values.resize(static_cast<std::size_t>(units[static_cast<std::size_t>(unit)].numel));  // removes the padding
    return values;
  }
};

void with_states_on_disk(const std::function<void(OnDisk&)>& body, int depth = OffloadTiers::kDefaultDepth) {
  on_ranks(1, [&](Communicator& comm) {
    OnDisk on_disk(comm, depth);
    body(on_disk);
  });
}

TEST(StateStreams, WhatComesAheadIsReadOnce) {
  with_states_on_disk([](OnDisk& on_disk) {
    for (const int unit : {0, 1}) EXPECT_TRUE(on_disk.streams().begin_prefetch(unit));
    EXPECT_TRUE(on_disk.streams().prefetches(1));
    EXPECT_FALSE(on_disk.streams().begin_prefetch(1)) << "the read is in flight";
    for (const int unit : {0, 1}) EXPECT_EQ(on_disk.fetched(unit), ramp(on_disk.units[static_cast<std::size_t>(unit)]));
    EXPECT_FALSE(on_disk.streams().prefetches(1));
    EXPECT_EQ(on_disk.num_reads(), 2);
  });
}

TEST(StateStreams, OneTilePrefetchesNothing) {
  with_states_on_disk(
      [](OnDisk& on_disk) {
        EXPECT_TRUE(on_disk.streams().begin_prefetch(0));
        EXPECT_EQ(on_disk.num_reads(), 0);
        EXPECT_EQ(on_disk.fetched(0), ramp(on_disk.units[0]));
      },
      /*depth=*/1);
}

TEST(StateStreams, OffloadedGradientReturns) {
  with_states_on_disk([](OnDisk& on_disk) {
    const auto numel = static_cast<std::size_t>(on_disk.state.shard(0).numel);
    std::vector<float> gradient(numel, 2.5F), back(numel, 0.0F);
    on_disk.streams().offload_gradient(0, bytes_of(gradient));
    std::ranges::fill(gradient, 0.0F);  // the buffer may be used again
    on_disk.streams().fetch_gradient(0, reinterpret_cast<std::byte*>(back.data()));
    EXPECT_EQ(back, std::vector<float>(numel, 2.5F));
    EXPECT_TRUE(on_disk.streams().may_offload());
  });
}

TEST(StateStreams, FinishDropsPrefetchesAndStaging) {
  with_states_on_disk([](OnDisk& on_disk) {
    for (const int unit : {0, 1}) on_disk.streams().begin_prefetch(unit);
    EXPECT_GT(on_disk.ledger.held(Tier::kHost, MemoryTag::kStaging), 0);
    on_disk.streams().finish();
    EXPECT_FALSE(on_disk.streams().prefetches(0));
    EXPECT_EQ(on_disk.ledger.held(Tier::kHost, MemoryTag::kStaging), 0);
    EXPECT_EQ(on_disk.fetched(0), ramp(on_disk.units[0]));
  });
}

TEST(StateStreams, ResidentParametersAreNotFetched) {
  on_ranks(1, [](Communicator& comm) {
    Ledger ledger;
    ShardedState state(make_units(small_specs(), {}), place(3, Reduce::kAuto, 1), moments(2), comm, ledger);
    std::byte nowhere{};
    EXPECT_THROW(state.streams().fetch_parameter(0, &nowhere, 1), InternalError);
    EXPECT_TRUE(state.streams().begin_prefetch(0)) << "no transfer is left to wait for";
    EXPECT_FALSE(state.streams().moves_parameters());
  });
}

}  // namespace
}  // namespace zero
