#include "zero/engine/gather/unit_uses.h"

#include <functional>
#include <vector>

#include <gtest/gtest.h>

#include "zero/base/error/error.h"

#include "tests/engine/scripted_model.h"
#include "tests/engine/thread_ranks.h"

namespace zero {
namespace {

// The uses of a small model's units, without a gatherer.
void with_uses(int world, const std::function<void(UnitUses&, ShardedState&)>& body) {
  on_ranks(world, [&](Communicator& comm) {
    const std::vector<Unit> units = make_units(small_specs(), {});
    Ledger ledger;
    ShardedState state(units, place(3, Reduce::kAuto, 1), moments(2), comm, ledger);
    const GatherBlocks blocks(state, comm, ledger);
    SecondaryParts parts;
    UnitUses uses(state, comm, blocks, parts);
    body(uses, state);
  });
}

std::byte* nowhere() {
  return nullptr;
}

TEST(UnitUses, LastUnpinReleasesAUnit) {
  with_uses(1, [](UnitUses& uses, ShardedState&) {
    uses.pin(1, nowhere());
    uses.pin(1, nowhere());
    uses.pin(2, nowhere());
    EXPECT_EQ(uses.pinned(), (std::vector<int>{1, 2}));
    uses.unpin(1);
    EXPECT_TRUE(uses.is_pinned(1));
    uses.unpin(1);
    EXPECT_EQ(uses.pinned(), std::vector<int>{2});
    EXPECT_THROW(uses.unpin(1), InternalError);
  });
}

// A unit without a pin is idle.
TEST(UnitUses, IdleAreLeastRecentFirst) {
  with_uses(1, [](UnitUses& uses, ShardedState&) {
    for (const int unit : {2, 0, 1, 2}) uses.note_access(unit);
    EXPECT_EQ(uses.idle_of({0, 1, 2}), (std::vector<int>{0, 1, 2}));
    uses.note_access(0);
    EXPECT_EQ(uses.idle_of({0, 1, 2}), (std::vector<int>{1, 2, 0}));
    uses.pin(2, nowhere());
    EXPECT_EQ(uses.idle_of({0, 1, 2}), (std::vector<int>{1, 0}));
  });
}

TEST(UnitUses, OnlyMarkedUnitsStoreOnce) {
  with_uses(1, [](UnitUses& uses, ShardedState& state) {
    std::vector<float> whole(static_cast<std::size_t>(state.unit(0).numel), 3.0F);
    auto* const data = reinterpret_cast<std::byte*>(whole.data());
    const auto stored = [&] { return load_element(state.parameter_shard(0).data(), DType::kFloat32, 0); };
    const float before = stored();
    ASSERT_NE(before, 3.0F);
    uses.pin(0, data);
    uses.unpin(0);
    EXPECT_EQ(stored(), before) << "the unit was only read";
    uses.pin(0, data);
    uses.mark_written(0);
    EXPECT_EQ(stored(), before) << "it is still being written";
    uses.unpin(0);
    EXPECT_EQ(stored(), 3.0F);
    whole[0] = 4.0F;
    uses.pin(0, data);
    uses.unpin(0);
    EXPECT_EQ(stored(), 3.0F) << "the last unpin clears the mark";
  });
}

}  // namespace
}  // namespace zero
