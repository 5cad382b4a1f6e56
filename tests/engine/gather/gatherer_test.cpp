#include "zero/engine/gather/gatherer.h"

#include <algorithm>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include "zero/base/error/error.h"
#include "zero/memory/disk/disk_seam.h"
#include "zero/plan/schedule/schedule.h"

#include "tests/engine/scripted_model.h"
#include "tests/engine/thread_ranks.h"
#include "tests/memory/scripted_queue.h"
#include "tests/support/temporary_folder.h"

namespace zero {
namespace {

struct Observer final : UnitObserver {
  std::vector<std::byte*> data = std::vector<std::byte*>(256, nullptr);
  int num_binds = 0;
  void bind(int unit, std::byte* where) override {
    data[static_cast<std::size_t>(unit)] = where;
    ++num_binds;
  }
};

// A gatherer. Element i of unit u's parameters is 100 u + i.
struct Fixture {
  std::vector<Unit> units;
  Ledger ledger;
  ShardedState state;
  Observer observer;
  SecondaryParts parts;
  Gatherer gatherer;

  Fixture(Communicator& comm, int stage, std::vector<ParamSpec> specs = small_specs())
      : Fixture(comm, place(stage, Reduce::kAuto, 1), nullptr, std::move(specs)) {}
  Fixture(Communicator& comm, const Placement& placement, DiskTier* disk, std::vector<ParamSpec> specs)
      : units(make_units(specs, {})),
        state(units, placement, moments(2), comm, ledger, {.disk = disk}),
        gatherer(state, comm, ledger, observer, parts) {
    for (const Unit& unit : units) {
      std::vector<float> whole(static_cast<std::size_t>(unit.numel));
      for (std::size_t i = 0; i < whole.size(); ++i) whole[i] = value(unit.index, static_cast<std::int64_t>(i));
      state.contents().load(unit.index, reinterpret_cast<const std::byte*>(whole.data()), DType::kFloat32);
    }
  }
  static float value(int unit, std::int64_t i) { return 100.0F * static_cast<float>(unit) + static_cast<float>(i); }
  void expect_readable(int unit) const {
    const Unit& description = units[static_cast<std::size_t>(unit)];
    ASSERT_NE(observer.data[static_cast<std::size_t>(unit)], nullptr);
    ASSERT_EQ(observer.data[static_cast<std::size_t>(unit)], gatherer.data(unit));
    for (std::int64_t i = 0; i < description.numel; ++i) {
      ASSERT_EQ(load_element(gatherer.data(unit), description.dtype, i), value(unit, i))
          << "unit " << unit << " element " << i;
    }
  }
};

TEST(Gatherer, WholeParametersStartBound) {
  on_ranks(2, [](Communicator& comm) {
    Fixture f(comm, 2);
    for (const Unit& unit : f.units) f.expect_readable(unit.index);
    EXPECT_EQ(f.gatherer.resident().bytes(), 0) << "no unit could be released";
    f.gatherer.begin(0);
    f.gatherer.ensure(0);
    f.gatherer.release(0);
    f.expect_readable(0);
    EXPECT_EQ(comm.traffic().sent_bytes, 0);
  });
}

TEST(Gatherer, GathersFromEveryRanksShard) {
  for (const int world : {1, 2, 3}) {
    on_ranks(world, [](Communicator& comm) {
      Fixture f(comm, 3);
      for (const Unit& unit : f.units) {
        EXPECT_FALSE(f.gatherer.ready(unit.index));
        f.gatherer.ensure(unit.index);
        EXPECT_TRUE(f.gatherer.ready(unit.index));
        f.expect_readable(unit.index);
      }
    });
  }
}

TEST(Gatherer, BindsOnlyArrivedBytes) {
  on_ranks(2, [](Communicator& comm) {
    Fixture f(comm, 3);
    f.gatherer.begin(1);
    EXPECT_EQ(f.observer.data[1], nullptr);
    EXPECT_TRUE(f.gatherer.resident().holds(1));
    f.gatherer.ensure(1);
    f.expect_readable(1);
  });
}

TEST(Gatherer, GatheringTwiceSendsOnce) {
  on_ranks(2, [](Communicator& comm) {
    Fixture f(comm, 3);
    f.gatherer.begin(1);
    f.gatherer.begin(1);
    f.gatherer.ensure(1);
    f.gatherer.ensure(1);
    EXPECT_EQ(comm.traffic().sent_bytes, gathered_bytes(f.units[1], 2) / 2);
    EXPECT_EQ(f.observer.num_binds, 1);
  });
}

TEST(Gatherer, ReleaseUnbindsAndReusesTheBlock) {
  on_ranks(2, [](Communicator& comm) {
    Fixture f(comm, 3);
    f.gatherer.ensure(0);
    f.gatherer.release(0);
    EXPECT_EQ(f.observer.data[0], nullptr);
    EXPECT_EQ(f.gatherer.data(0), nullptr);
    f.gatherer.release(0);
    EXPECT_EQ(f.observer.num_binds, 2) << "the second release has no effect";
    f.gatherer.ensure(1);
    f.expect_readable(1);
    EXPECT_EQ(f.ledger.held(Tier::kDevice, MemoryTag::kGathered), gathered_bytes(f.units[0], 2));
  });
}

TEST(Gatherer, FinishesAGatherBeforeRelease) {
  on_ranks(2, [](Communicator& comm) {
    Fixture f(comm, 3);
    f.gatherer.begin(2);
    f.gatherer.release(2);
    f.gatherer.ensure(0);  // the ranks still begin the same collectives
    f.expect_readable(0);
  });
}

TEST(Gatherer, WhatIsPinnedIsNotReleased) {
  on_ranks(1, [](Communicator& comm) {
    Fixture f(comm, 3);
    f.gatherer.ensure(0);
    f.gatherer.ensure(1);
    f.gatherer.uses().pin(0, f.gatherer.data(0));
    f.gatherer.uses().pin(0, f.gatherer.data(0));
    EXPECT_EQ(f.gatherer.uses().pinned(), std::vector<int>{0});
    EXPECT_EQ(f.gatherer.releasable(), std::vector<int>{1});
    EXPECT_THROW(f.gatherer.release(0), InternalError);
    f.gatherer.uses().unpin(0);
    EXPECT_THROW(f.gatherer.release(0), InternalError) << "pinned twice";
    f.gatherer.uses().unpin(0);
    EXPECT_NO_THROW(f.gatherer.release(0));
    EXPECT_THROW(f.gatherer.uses().unpin(0), InternalError);
  });
}

TEST(Gatherer, ReleasesLeastRecentlyUsedFirst) {
  on_ranks(1, [](Communicator& comm) {
    Fixture f(comm, 3);
    for (const int unit : {2, 0, 1, 2}) f.gatherer.ensure(unit);
    EXPECT_EQ(f.gatherer.releasable(), (std::vector<int>{0, 1, 2}));
  });
}

// The last unpin stores written values in the shards.
TEST(Gatherer, LastUnpinStoresWrites) {
  on_ranks(2, [](Communicator& comm) {
    Fixture f(comm, 3);
    f.gatherer.ensure(0);
    f.gatherer.uses().pin(0, f.gatherer.data(0));
    f.gatherer.uses().pin(0, f.gatherer.data(0));
    f.gatherer.uses().mark_written(0);
    for (std::int64_t i = 0; i < f.units[0].numel; ++i) store_element(f.gatherer.data(0), DType::kFloat32, i, -1.0F);
    f.gatherer.uses().unpin(0);
    EXPECT_NE(load_element(f.state.parameter_shard(0).data(), DType::kFloat32, 0), -1.0F) << "still being written";
    f.gatherer.uses().unpin(0);
    f.gatherer.release(0);
    f.gatherer.ensure(0);
    for (std::int64_t i = 0; i < f.units[0].numel; ++i)
      EXPECT_EQ(load_element(f.gatherer.data(0), DType::kFloat32, i), -1.0F);
  });
}

TEST(Gatherer, ReadOnlyUseStoresNothing) {
  on_ranks(1, [](Communicator& comm) {
    Fixture f(comm, 3);
    f.gatherer.ensure(0);
    f.gatherer.uses().pin(0, f.gatherer.data(0));
    store_element(f.gatherer.data(0), DType::kFloat32, 0, -1.0F);
    f.gatherer.uses().unpin(0);
    EXPECT_EQ(load_element(f.state.parameter_shard(0).data(), DType::kFloat32, 0), Fixture::value(0, 0));
  });
}

TEST(Gatherer, ARefreshBringsWhatOthersUpdated) {
  on_ranks(3, [](Communicator& comm) {
    Fixture f(comm, 1);
    const auto shard = f.state.parameter_shard(0);
    auto* own = reinterpret_cast<float*>(shard.data());
    std::fill(own, own + shard.size() / 4, static_cast<float>(comm.rank()));
    f.gatherer.refresh(0);
    EXPECT_FALSE(f.gatherer.ready(0)) << "the unit must not be read before ensure()";
    EXPECT_EQ(f.observer.data[0], nullptr) << "nor by a reader that does not ask";
    f.gatherer.ensure(0);
    for (std::int64_t i = 0; i < f.units[0].numel; ++i) {
      EXPECT_EQ(load_element(f.gatherer.data(0), DType::kFloat32, i), static_cast<float>(i / f.state.shard(0).numel));
    }
  });
}

// ---- shards on disk

// Calls `body` with the fixture and a function that returns the number of read requests so far. Each shard is one
// request.
void with_parameters_on_disk(const std::function<void(Fixture&, const std::function<std::int64_t()>&)>& body) {
  on_ranks(2, [&](Communicator& comm) {
    const TemporaryFolder folder;
    Placement placement = place(3, Reduce::kAuto, 1);
    spread_over_tiers(placement, make_units(small_specs(), {}), comm.world(), {.parameter = {.disk = 1}});
    ScriptedDisk script;
    DiskSeam seam;
    seam.make_queue = [&script](std::span<const int>, int) { return script.queue(); };
    DiskTier disk({.paths = {folder.path()}, .bytes = 64 * DiskTier::kPageBytes}, seam);
    Fixture f(comm, placement, &disk, small_specs());
    body(f, [&] { return std::ranges::count(script.asked, IoOperation::kRead, &IoRequest::operation); });
  });
}

// A shard is read once, however many shards are prefetched before it.
TEST(GathererFromDisk, ReadsAnEarlyShardOnce) {
  with_parameters_on_disk([](Fixture& f, const auto& num_reads) {
    for (const int unit : {0, 1, 2}) f.gatherer.prefetches().want(unit);
    EXPECT_EQ(num_reads(), 3) << "all are in transfer";
    for (const int unit : {0, 1, 2}) {
      f.gatherer.ensure(unit);
      f.expect_readable(unit);
    }
    EXPECT_EQ(num_reads(), 3);
  });
}

TEST(GathererFromDisk, OutOfOrderGatherIsCorrect) {
  with_parameters_on_disk([](Fixture& f, const auto&) {
    for (const int unit : {0, 1, 2}) f.gatherer.prefetches().want(unit);
    for (const int unit : {1, 2, 0}) {
      f.gatherer.ensure(unit);
      f.expect_readable(unit);
    }
  });
}

// A gathered unit is prefetched only after its release.
TEST(GathererFromDisk, PrefetchWaitsForTheRelease) {
  with_parameters_on_disk([](Fixture& f, const auto& num_reads) {
    f.gatherer.ensure(0);
    for (const int unit : {1, 0, 2}) f.gatherer.prefetches().want(unit);
    EXPECT_EQ(num_reads(), 2) << "1 is read; 2 must not be read before 0";
    f.gatherer.release(0);
    f.gatherer.ensure(1);
    EXPECT_EQ(num_reads(), 4) << "0 and 2 are read while 1 is used";
    for (const int unit : {0, 2}) {
      f.gatherer.ensure(unit);
      f.expect_readable(unit);
    }
    EXPECT_EQ(num_reads(), 4);
  });
}

// A unit that is gathered twice in the window is read twice.
TEST(GathererFromDisk, RepeatedGatherReadsEachTime) {
  with_parameters_on_disk([](Fixture& f, const auto& num_reads) {
    for (const int unit : {0, 1, 0, 2}) f.gatherer.prefetches().want(unit);
    f.gatherer.ensure(0);
    f.gatherer.release(0);
    for (const int unit : {1, 0, 2}) {
      f.gatherer.ensure(unit);
      f.expect_readable(unit);
    }
    EXPECT_EQ(num_reads(), 4);
  });
}

TEST(GathererFromDisk, ContentsMayChangeAfterCancel) {
  with_parameters_on_disk([](Fixture& f, const auto& num_reads) {
    for (const int unit : {0, 1}) f.gatherer.prefetches().want(unit);
    f.gatherer.prefetches().cancel();
    for (const int unit : {0, 1}) {
      f.gatherer.ensure(unit);
      f.expect_readable(unit);
    }
    EXPECT_EQ(num_reads(), 4) << "the shards that were read were dropped";
  });
}

TEST(Gatherer, FinishWaitsForEverythingBegun) {
  for (const int stage : {2, 3}) {
    on_ranks(2, [&](Communicator& comm) {
      Fixture f(comm, stage);
      for (const Unit& unit : f.units) stage == 3 ? f.gatherer.begin(unit.index) : f.gatherer.refresh(unit.index);
      f.gatherer.finish();
      for (const Unit& unit : f.units) EXPECT_TRUE(f.gatherer.ready(unit.index));
    });
  }
}

// Frozen units are not refreshed, so refreshes of earlier units must not stay open until a frozen unit.
TEST(Gatherer, OpenRefreshesFitTheTransport) {
  on_ranks(2, [](Communicator& comm) {
    std::vector<ParamSpec> specs;
    for (int i = 0; i < 200; ++i) specs.push_back({.name = "h." + std::to_string(i) + ".w", .shape = {4}});
    Fixture f(comm, 1, specs);
    for (int round = 0; round < 3; ++round) {
      for (int unit = 0; unit < 200; ++unit) {
        if (unit < 32 || unit >= 64) f.gatherer.refresh(unit);
      }
      f.gatherer.finish();
    }
    f.expect_readable(199);
  });
}

}  // namespace
}  // namespace zero
