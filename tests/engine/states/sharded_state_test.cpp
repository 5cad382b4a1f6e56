#include "zero/engine/states/sharded_state.h"

#include <vector>

#include <gtest/gtest.h>

#include "zero/plan/units/estimate.h"

#include "tests/engine/ramps.h"
#include "tests/engine/scripted_model.h"
#include "tests/engine/thread_ranks.h"
#include "tests/support/fp32_states.h"

namespace zero {
namespace {

struct Case {
  int stage;
  DType dtype;
};
constexpr Case kCases[] = {{0, DType::kFloat32},  {1, DType::kFloat32},  {2, DType::kFloat32},  {3, DType::kFloat32},
                           {0, DType::kBFloat16}, {1, DType::kBFloat16}, {2, DType::kBFloat16}, {3, DType::kBFloat16}};

TEST(ShardedState, ChargesExactlyWhatTheEstimateSays) {
  for (const Case& c : kCases) {
    on_ranks(3, [&](Communicator& comm) {
      Ledger ledger;
      const auto units = make_units(small_specs(c.dtype), {});
      const Placement placement = place(c.stage, Reduce::kAuto, 1);
      {
        const ShardedState state(units, placement, moments(2), comm, ledger);
        const StateBytes wanted = state_bytes(units, 3, placement, fp32_states(2));
        EXPECT_EQ(ledger.held(Tier::kDevice, MemoryTag::kParameter), wanted.parameter);
        EXPECT_EQ(ledger.held(Tier::kDevice, MemoryTag::kGradient), wanted.gradient);
        EXPECT_EQ(ledger.held(Tier::kDevice, MemoryTag::kMaster), wanted.master);
        EXPECT_EQ(ledger.held(Tier::kDevice, MemoryTag::kMoment), wanted.moment);
      }
      EXPECT_EQ(ledger.held(Tier::kDevice).total(), 0) << "the memory is released";
    });
  }
}

TEST(ShardedState, WholeParametersAreWholeEverywhere) {
  on_ranks(2, [](Communicator& comm) {
    Ledger ledger;
    const auto units = make_units(small_specs(), {});
    ShardedState whole(units, place(2, Reduce::kAuto, 1), moments(2), comm, ledger);
    load_ramps(whole);
    const auto wanted = ramp(units[0]);
    for (std::size_t i = 0; i < wanted.size(); ++i) {
      EXPECT_EQ(load_element(whole.whole_parameter(0), DType::kFloat32, static_cast<std::int64_t>(i)), wanted[i]);
    }
    ShardedState sharded(units, place(3, Reduce::kAuto, 1), moments(2), comm, ledger);
    EXPECT_EQ(sharded.whole_parameter(0), nullptr);
    EXPECT_EQ(sharded.whole_gradient(0), nullptr);
    EXPECT_NE(sharded.gradient_shard(0), nullptr);
  });
}

TEST(ShardedState, UpdateCoversTheOptimizerShard) {
  on_ranks(2, [](Communicator& comm) {
    Ledger ledger;
    const auto units = make_units(small_specs(), {});
    const ShardedState replicated(units, place(0, Reduce::kAuto, 1), moments(2), comm, ledger);
    EXPECT_EQ(replicated.update_range(0), (Shard{0, padded_numel(units[0], 2)}));
    const ShardedState sharded(units, place(1, Reduce::kAuto, 1), moments(2), comm, ledger);
    EXPECT_EQ(sharded.update_range(0), sharded.shard(0));
  });
}

TEST(ShardedState, FrozenUnitsHaveParametersOnly) {
  on_ranks(1, [](Communicator& comm) {
    Ledger ledger;
    const auto units = make_units(small_specs(DType::kBFloat16), {});
    const ShardedState state(units, place(2, Reduce::kAuto, 1), moments(2), comm, ledger);
    for (const Unit& unit : units) {
      EXPECT_EQ(state.arrays().master.on_device(unit.index) != nullptr, unit.trainable);
      for (const auto& [moment, array, scales] : state.arrays().optimizer)
        EXPECT_EQ(array.on_device(unit.index) != nullptr, unit.trainable) << moment.name;
      EXPECT_EQ(state.gradient_shard(unit.index) != nullptr, unit.trainable);
    }
  });
}

TEST(ShardedState, MicroBatchesDecideTheGradientType) {
  on_ranks(1, [](Communicator& comm) {
    Ledger ledger;
    const auto units = make_units(small_specs(DType::kBFloat16), {});
    EXPECT_EQ(ShardedState(units, place(2, Reduce::kEach, 1), moments(2), comm, ledger).gradient_dtype(0),
              DType::kBFloat16);
    EXPECT_EQ(ShardedState(units, place(2, Reduce::kEach, 2), moments(2), comm, ledger).gradient_dtype(0),
              DType::kFloat32);
  });
}

}  // namespace
}  // namespace zero
