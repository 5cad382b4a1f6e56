#include "zero/engine/gather/shard_prefetches.h"

#include <algorithm>
#include <functional>
#include <vector>

#include <gtest/gtest.h>

#include "zero/memory/disk/disk_seam.h"

#include "tests/engine/scripted_model.h"
#include "tests/engine/thread_ranks.h"
#include "tests/memory/scripted_queue.h"
#include "tests/support/temporary_folder.h"

namespace zero {
namespace {

// The shards of one rank of two, on a disk that counts its requests. Units are gathered only when a test says so.
class Shards {
 public:
  explicit Shards(Communicator& comm, const StateFractions& fractions)
      : units_(make_units(small_specs(), {})),
        disk_({.paths = {folder_.path()}, .bytes = 64 * DiskTier::kPageBytes}, seam()),
        state_(units_, placed(fractions), moments(2), comm, ledger_, {.disk = &disk_}),
        blocks_(state_, comm, ledger_),
        gathered(units_, 2),
        prefetches(state_.streams(), blocks_, gathered, [this](int unit) { return unit != outdated; }) {
    for (const Unit& unit : units_) {
      const std::vector<float> whole(static_cast<std::size_t>(unit.numel), 1.0F);
      state_.contents().load(unit.index, reinterpret_cast<const std::byte*>(whole.data()), DType::kFloat32);
    }
  }
  std::int64_t num_reads() const {
    return std::ranges::count(script_.asked, IoOperation::kRead, &IoRequest::operation);
  }

 private:
  DiskSeam seam() {
    DiskSeam seam;
    seam.make_queue = [this](std::span<const int>, int) { return script_.queue(); };
    return seam;
  }
  Placement placed(const StateFractions& fractions) const {
    Placement placement = place(3, Reduce::kAuto, 1);
    spread_over_tiers(placement, units_, 2, fractions);
    return placement;
  }

  TemporaryFolder folder_;
  ScriptedDisk script_;
  std::vector<Unit> units_;
  Ledger ledger_;
  DiskTier disk_;
  ShardedState state_;
  GatherBlocks blocks_;

 public:
  int outdated = -1;  // a unit with a pending update
  Residency gathered;
  ShardPrefetches prefetches;
};

constexpr StateFractions kOnDisk{.parameter = {.disk = 1}};

void with_shards(const StateFractions& fractions, const std::function<void(Shards&)>& body) {
  on_ranks(2, [&](Communicator& comm) {
    Shards shards(comm, fractions);
    body(shards);
  });
}

TEST(ShardPrefetches, HintReadsItsShard) {
  with_shards(kOnDisk, [](Shards& s) {
    s.prefetches.want(0);
    EXPECT_EQ(s.num_reads(), 1);
    s.prefetches.want(1);
    EXPECT_EQ(s.num_reads(), 2);
  });
}

// All parameters are on the device, so nothing is read.
TEST(ShardPrefetches, NothingComesFromTheDevice) {
  with_shards({.optimizer = {.disk = 1}}, [](Shards& s) {
    const std::int64_t before = s.num_reads();
    s.prefetches.want(0);
    s.prefetches.pump();
    EXPECT_EQ(s.num_reads(), before);
  });
}

TEST(ShardPrefetches, PendingUpdateHoldsBackLaterShards) {
  with_shards(kOnDisk, [](Shards& s) {
    s.outdated = 1;
    for (const int unit : {0, 1, 2}) s.prefetches.want(unit);
    EXPECT_EQ(s.num_reads(), 1);
    s.prefetches.pump();
    EXPECT_EQ(s.num_reads(), 1);
    s.outdated = -1;
    s.prefetches.pump();
    EXPECT_EQ(s.num_reads(), 3);
  });
}

TEST(ShardPrefetches, GatheredUnitHoldsBackLaterShards) {
  with_shards(kOnDisk, [](Shards& s) {
    s.gathered.add(0);
    for (const int unit : {0, 1}) s.prefetches.want(unit);
    EXPECT_EQ(s.num_reads(), 0);
    s.gathered.remove(0);
    s.prefetches.pump();
    EXPECT_EQ(s.num_reads(), 2);
  });
}

TEST(ShardPrefetches, GatherDropsEarlierHints) {
  with_shards(kOnDisk, [](Shards& s) {
    s.outdated = 0;
    for (const int unit : {0, 1, 2}) s.prefetches.want(unit);
    s.prefetches.gather_begins(1);  // although 0 was not gathered
    s.prefetches.pump();
    EXPECT_EQ(s.num_reads(), 1) << "only unit 2";
  });
}

TEST(ShardPrefetches, NothingComesAfterCancel) {
  with_shards(kOnDisk, [](Shards& s) {
    s.outdated = 0;
    for (const int unit : {0, 1}) s.prefetches.want(unit);
    s.prefetches.cancel();
    s.outdated = -1;
    s.prefetches.pump();
    EXPECT_EQ(s.num_reads(), 0);
  });
}

}  // namespace
}  // namespace zero
