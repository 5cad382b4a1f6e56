#include "zero/engine/sharded_state.h"

#include <bit>
#include <vector>

#include <gtest/gtest.h>

#include "zero/base/error.h"
#include "zero/plan/estimate.h"

#include "scripted_model.h"
#include "thread_ranks.h"

namespace zero {
namespace {

std::vector<float> ramp(const Unit& unit) {
  std::vector<float> whole(static_cast<std::size_t>(unit.numel), 0.0F);
  for (const Slice& slice : unit.slices) {
    for (std::int64_t i = 0; i < slice.numel; ++i) {
      whole[static_cast<std::size_t>(slice.offset + i)] = 1.0F + 0.001F * static_cast<float>(slice.offset + i);
    }
  }
  return whole;
}

const std::byte* bytes_of(const std::vector<float>& values) {
  return reinterpret_cast<const std::byte*>(values.data());
}

void load_ramps(ShardedState& state) {
  for (const Unit& unit : state.units()) state.load(unit.index, bytes_of(ramp(unit)), DType::kFloat32);
}

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
        const ShardedState state(units, placement, 2, comm, ledger);
        const StateBytes wanted = state_bytes(units, 3, placement, 2);
        EXPECT_EQ(ledger.held(Tier::kDevice, MemoryTag::kParameter), wanted.parameter);
        EXPECT_EQ(ledger.held(Tier::kDevice, MemoryTag::kGradient), wanted.gradient);
        EXPECT_EQ(ledger.held(Tier::kDevice, MemoryTag::kMaster), wanted.master);
        EXPECT_EQ(ledger.held(Tier::kDevice, MemoryTag::kMoment), wanted.moment);
      }
      EXPECT_EQ(ledger.held(Tier::kDevice).total(), 0) << "and gives it back";
    });
  }
}

TEST(ShardedState, KeepsThisRanksPartOfWhatIsLoaded) {
  for (const Case& c : kCases) {
    on_ranks(3, [&](Communicator& comm) {
      Ledger ledger;
      const auto units = make_units(small_specs(c.dtype), {});
      ShardedState state(units, place(c.stage, Reduce::kAuto, 1), 2, comm, ledger);
      load_ramps(state);
      for (const Unit& unit : units) {
        const auto whole = ramp(unit);
        const Shard own = state.shard(unit.index);
        std::vector<float> shard(static_cast<std::size_t>(own.numel), -1.0F);
        state.read_full_precision_shard(unit.index, shard);
        for (std::int64_t i = 0; i < own.numel; ++i) {
          const auto at = static_cast<std::size_t>(own.offset + i);
          const float value = at < whole.size() ? whole[at] : 0.0F;
          const float low = c.dtype == DType::kBFloat16 ? to_float(to_bfloat16(value)) : value;
          EXPECT_EQ(shard[static_cast<std::size_t>(i)], unit.trainable ? value : low)
              << "the master is exact, padding is zero";
          EXPECT_EQ(load_element(state.parameter_shard(unit.index).data(), c.dtype, i), low);
        }
      }
    });
  }
}

TEST(ShardedState, WholeParametersAreWholeOnEveryRank) {
  on_ranks(2, [](Communicator& comm) {
    Ledger ledger;
    const auto units = make_units(small_specs(), {});
    ShardedState whole(units, place(2, Reduce::kAuto, 1), 2, comm, ledger);
    load_ramps(whole);
    const auto wanted = ramp(units[0]);
    for (std::size_t i = 0; i < wanted.size(); ++i) {
      EXPECT_EQ(load_element(whole.whole_parameter(0), DType::kFloat32, static_cast<std::int64_t>(i)), wanted[i]);
    }
    ShardedState sharded(units, place(3, Reduce::kAuto, 1), 2, comm, ledger);
    EXPECT_EQ(sharded.whole_parameter(0), nullptr);
    EXPECT_EQ(sharded.whole_gradient(0), nullptr);
    EXPECT_NE(sharded.gradient_shard(0), nullptr);
  });
}

TEST(ShardedState, TheUpdateCoversTheShardWhereTheOptimizerIsSharded) {
  on_ranks(2, [](Communicator& comm) {
    Ledger ledger;
    const auto units = make_units(small_specs(), {});
    const ShardedState replicated(units, place(0, Reduce::kAuto, 1), 2, comm, ledger);
    EXPECT_EQ(replicated.update_range(0), (Shard{0, padded_numel(units[0], 2)}));
    const ShardedState sharded(units, place(1, Reduce::kAuto, 1), 2, comm, ledger);
    EXPECT_EQ(sharded.update_range(0), sharded.shard(0));
    EXPECT_EQ(sharded.updated_parameter(0), sharded.parameter_shard(0).data());
  });
}

TEST(ShardedState, FrozenUnitsHaveParametersOnly) {
  on_ranks(1, [](Communicator& comm) {
    Ledger ledger;
    const auto units = make_units(small_specs(DType::kBFloat16), {});
    const ShardedState state(units, place(2, Reduce::kAuto, 1), 2, comm, ledger);
    for (const Unit& unit : units) {
      EXPECT_EQ(state.master(unit.index) != nullptr, unit.trainable);
      EXPECT_EQ(state.moment(unit.index, 0) != nullptr, unit.trainable);
      EXPECT_EQ(state.gradient_shard(unit.index) != nullptr, unit.trainable);
      EXPECT_EQ(state.moment(unit.index, 2), nullptr) << "two moments were asked for";
    }
  });
}

TEST(ShardedState, StoringKeepsThePrecisionOfWhatWasNotWritten) {
  for (int stage = 0; stage <= 3; ++stage) {
    on_ranks(2, [&](Communicator& comm) {
      Ledger ledger;
      const auto units = make_units(small_specs(DType::kBFloat16), {});
      ShardedState state(units, place(stage, Reduce::kAuto, 1), 2, comm, ledger);
      load_ramps(state);
      const Unit& unit = units[1];
      const auto exact = ramp(unit);
      std::vector<BFloat16Bits> gathered(static_cast<std::size_t>(padded_numel(unit, 2)), 0);
      for (std::size_t i = 0; i < exact.size(); ++i) gathered[i] = to_bfloat16(exact[i]);
      for (std::size_t i = 0; i < exact.size(); i += 5) gathered[i] = to_bfloat16(-3.0F);
      std::byte* held = state.whole_parameter(unit.index);
      if (held != nullptr) std::copy(gathered.begin(), gathered.end(), reinterpret_cast<BFloat16Bits*>(held));
      state.store(unit.index, held != nullptr ? held : reinterpret_cast<const std::byte*>(gathered.data()));
      const Shard own = state.shard(unit.index);
      std::vector<float> shard(static_cast<std::size_t>(own.numel));
      state.read_full_precision_shard(unit.index, shard);
      for (std::int64_t i = 0; i < own.numel; ++i) {
        const auto at = static_cast<std::size_t>(own.offset + i);
        if (at >= exact.size()) continue;
        EXPECT_EQ(shard[static_cast<std::size_t>(i)], at % 5 == 0 ? -3.0F : exact[at])
            << "stage " << stage << " element " << at;
        EXPECT_EQ(load_element(state.parameter_shard(unit.index).data(), DType::kBFloat16, i), to_float(gathered[at]));
      }
    });
  }
}

TEST(ShardedState, AStoredNanReachesTheMaster) {
  on_ranks(1, [](Communicator& comm) {
    Ledger ledger;
    const auto units = make_units({{.name = "w", .shape = {4}, .dtype = DType::kBFloat16}}, {});
    ShardedState state(units, place(3, Reduce::kAuto, 1), 0, comm, ledger);
    load_ramps(state);
    std::vector<BFloat16Bits> gathered(32, to_bfloat16(std::nanf("")));
    state.store(0, reinterpret_cast<const std::byte*>(gathered.data()));
    EXPECT_TRUE(std::isnan(state.master(0)[3]));
  });
}

TEST(ShardedState, TheGradientsTypeFollowsTheNumberOfMicroBatches) {
  on_ranks(1, [](Communicator& comm) {
    Ledger ledger;
    const auto units = make_units(small_specs(DType::kBFloat16), {});
    EXPECT_EQ(ShardedState(units, place(2, Reduce::kEach, 1), 2, comm, ledger).gradient_dtype(0), DType::kBFloat16);
    EXPECT_EQ(ShardedState(units, place(2, Reduce::kEach, 2), 2, comm, ledger).gradient_dtype(0), DType::kFloat32);
  });
}

TEST(ShardedState, AShardReadIntoTheWrongSizeIsOurBug) {
  on_ranks(1, [](Communicator& comm) {
    Ledger ledger;
    ShardedState state(make_units(small_specs(), {}), place(3, Reduce::kAuto, 1), 2, comm, ledger);
    std::vector<float> shard(3);
    EXPECT_THROW(state.read_full_precision_shard(0, shard), InternalError);
  });
}

}  // namespace
}  // namespace zero
