#include "zero/engine/states/state_contents.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <vector>

#include <gtest/gtest.h>

#include "zero/base/error/error.h"
#include "zero/memory/disk/disk_tier.h"
#include "zero/optim/rule_registry.h"
#include "zero/plan/units/estimate.h"

#include "tests/engine/ramps.h"
#include "tests/engine/scripted_model.h"
#include "tests/engine/thread_ranks.h"
#include "tests/support/temporary_folder.h"

namespace zero {
namespace {

struct Case {
  int stage;
  DType dtype;
};
constexpr Case kCases[] = {{0, DType::kFloat32},  {1, DType::kFloat32},  {2, DType::kFloat32},  {3, DType::kFloat32},
                           {0, DType::kBFloat16}, {1, DType::kBFloat16}, {2, DType::kBFloat16}, {3, DType::kBFloat16},
                           {0, DType::kFloat16},  {3, DType::kFloat16}};

TEST(StateContentsOnAnyDevice, LoadsOnlyTheOwnPart) {
  for (const Case& c : kCases) {
    on_ranks(3, [&](Communicator& comm) {
      Ledger ledger;
      const auto units = make_units(small_specs(c.dtype), {});
      ShardedState state(units, place(c.stage, Reduce::kAuto, 1), moments(2), comm, ledger);
      load_ramps(state);
      for (const Unit& unit : units) {
        const auto whole = ramp(unit);
        const Shard own = state.shard(unit.index);
        std::vector<float> shard(static_cast<std::size_t>(own.numel), -1.0F);
        state.contents().read_full_precision_shard(unit.index, shard);
        for (std::int64_t i = 0; i < own.numel; ++i) {
          const auto at = static_cast<std::size_t>(own.offset + i);
          const float value = at < whole.size() ? whole[at] : 0.0F;
          const float low =
              with_type_of(c.dtype, [&]<typename T>(std::type_identity<T>) { return to_float(rounded_to<T>(value)); });
          EXPECT_EQ(shard[static_cast<std::size_t>(i)], unit.trainable ? value : low)
              << "the master is exact, padding is zero";
          EXPECT_EQ(load_element(state.parameter_shard(unit.index).data(), c.dtype, i), low);
        }
      }
    });
  }
}

TEST(StateContents, StoreKeepsUnwrittenPrecision) {
  for (int stage = 0; stage <= 3; ++stage) {
    on_ranks(2, [&](Communicator& comm) {
      Ledger ledger;
      const auto units = make_units(small_specs(DType::kBFloat16), {});
      ShardedState state(units, place(stage, Reduce::kAuto, 1), moments(2), comm, ledger);
      load_ramps(state);
      const Unit& unit = units[1];
      const auto exact = ramp(unit);
      std::vector<BFloat16Bits> gathered(static_cast<std::size_t>(padded_numel(unit, 2)));
      for (std::size_t i = 0; i < exact.size(); ++i) gathered[i] = to_bfloat16(exact[i]);
      for (std::size_t i = 0; i < exact.size(); i += 5) gathered[i] = to_bfloat16(-3.0F);
      std::byte* held = state.whole_parameter(unit.index);
      if (held != nullptr) std::copy(gathered.begin(), gathered.end(), reinterpret_cast<BFloat16Bits*>(held));
      state.contents().store(unit.index, held != nullptr ? held : reinterpret_cast<const std::byte*>(gathered.data()));
      const Shard own = state.shard(unit.index);
      std::vector<float> shard(static_cast<std::size_t>(own.numel));
      state.contents().read_full_precision_shard(unit.index, shard);
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

TEST(StateContents, AStoredNanReachesTheMaster) {
  on_ranks(1, [](Communicator& comm) {
    Ledger ledger;
    const auto units = make_units({{.name = "w", .shape = {4}, .dtype = DType::kBFloat16}}, {});
    ShardedState state(units, place(3, Reduce::kAuto, 1), moments(0), comm, ledger);
    load_ramps(state);
    std::vector<BFloat16Bits> gathered(32, to_bfloat16(std::nanf("")));
    state.contents().store(0, reinterpret_cast<const std::byte*>(gathered.data()));
    EXPECT_TRUE(std::isnan(reinterpret_cast<const float*>(state.arrays().master.on_device(0))[3]));
  });
}

TEST(StateContents, OptimizerNamesItsStatesFreely) {
  on_ranks(2, [](Communicator& comm) {
    Ledger ledger;
    const auto units = make_units(small_specs(), {});
    const std::vector<StateSpec> wanted{{.name = "momentum"}, {.name = "second"}, {.name = "last"}};
    ShardedState state(units, place(3, Reduce::kAuto, 1), wanted, comm, ledger);
    StateContents& contents = state.contents();
    ASSERT_EQ(contents.num_saved_states(0), 4);
    contents.write_held(0, 2, [](std::int64_t, std::span<float> out) { std::ranges::fill(out, 1.5F); });
    std::int64_t numel = 0;
    contents.read_shard(0, 2, [&](std::int64_t, std::span<const std::byte> elements) {
      numel += std::ssize(elements) / 4;
      EXPECT_EQ(load_element(elements.data(), DType::kFloat32, 0), 1.5F);
    });
    EXPECT_EQ(numel, state.shard(0).numel);
    EXPECT_EQ(state.arrays().optimizer[2].state.name, "last");
  });
}

// Magnitudes differ widely, and neighbouring elements have different codes.
float moment_at(std::int64_t element) {
  return element % 7 == 0
             ? 0.0F
             : std::ldexp(1.0F + 0.001F * static_cast<float>(element % 997), -static_cast<int>(element % 12));
}

// Reads all elements of a state that this rank holds. Elements that it does not hold are -1.
std::vector<float> read_state(ShardedState& state, int unit, int which) {
  std::vector<float> all(static_cast<std::size_t>(padded_numel(state.unit(unit), state.world())), -1.0F);
  state.contents().read_shard(unit, which, [&](std::int64_t first, std::span<const std::byte> elements) {
    std::memcpy(all.data() + first, elements.data(), elements.size());
  });
  return all;
}

// Reading as fp32 and writing back loses nothing.
TEST(StateContents, EightBitStateRoundTrips) {
  const std::vector<ParamSpec> specs{{.name = "a", .shape = {300, 50}, .dtype = DType::kBFloat16},
                                     {.name = "b", .shape = {70}, .dtype = DType::kBFloat16}};
  const TemporaryFolder folder;
  for (const int stage : {0, 1, 2, 3}) {
    for (const StateFractions& fractions :
         {StateFractions{}, StateFractions{.optimizer = {.host = 0.3, .disk = 0.7}}}) {
      on_ranks(2, [&](Communicator& comm) {
        Ledger ledger;
        DiskTier disk({.paths = {folder.path().string()}, .bytes = 4 << 20});
        const auto rule = make_update_rule(AdamW8bitOptions{});
        const auto units = make_units(specs, {}, spec_of(*rule).grain());
        Placement placement = place(stage, Reduce::kAuto, 1);
        spread_over_tiers(placement, units, 2, fractions);
        ShardedState state(units, placement, rule->states(), comm, ledger, {.disk = &disk});
        for (const Tier tier : kAllTiers)
          EXPECT_EQ(ledger.held(tier, MemoryTag::kMoment),
                    state_bytes(units, 2, placement, spec_of(*rule), tier).moment)
              << name_of(tier);
        ASSERT_EQ(state.contents().num_saved_states(0), 3);
        for (const int which : {1, 2}) {
          EXPECT_EQ(state.contents().saved_dtype(0, which), DType::kFloat32);
          const auto fill = [&](std::int64_t first, std::span<float> out) {
            for (std::size_t i = 0; i < out.size(); ++i) {
              const std::int64_t element = first + static_cast<std::int64_t>(i);
              out[i] = element < units[0].numel ? moment_at(element) : 0.0F;
            }
          };
          state.contents().write_held(0, which, fill);
          const std::vector<float> once = read_state(state, 0, which);
          state.contents().write_held(0, which, [&](std::int64_t first, std::span<float> out) {
            for (std::size_t i = 0; i < out.size(); ++i) {
              const float known = once[static_cast<std::size_t>(first) + i];
              const std::int64_t element = first + static_cast<std::int64_t>(i);
              // Elements of another rank's shard were not read. They are written as the first time.
              out[i] = known >= 0 ? known : element < units[0].numel ? moment_at(element) : 0.0F;
            }
          });
          EXPECT_EQ(read_state(state, 0, which), once);
          const Shard own = state.shard(0);
          std::int64_t compared = 0;
          for (std::int64_t i = own.offset; i < std::min(own.offset + own.numel, units[0].numel); ++i, ++compared)
            EXPECT_NEAR(once[static_cast<std::size_t>(i)], moment_at(i), 0.2 * moment_at(i)) << i;
          EXPECT_GT(compared, 3000);
        }
      });
    }
  }
}

TEST(StateContents, RejectsReadsOfWrongSize) {
  on_ranks(1, [](Communicator& comm) {
    Ledger ledger;
    ShardedState state(make_units(small_specs(), {}), place(3, Reduce::kAuto, 1), moments(2), comm, ledger);
    std::vector<float> shard(3);
    EXPECT_THROW(state.contents().read_full_precision_shard(0, shard), InternalError);
  });
}

}  // namespace
}  // namespace zero
