#include "zero/engine/reduce/reducer.h"

#include <cmath>
#include <limits>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "zero/base/error/error.h"
#include "zero/engine/wire/gradient_staging.h"

#include "tests/engine/scripted_model.h"
#include "tests/engine/thread_ranks.h"

namespace zero {
namespace {

const std::vector<ParamSpec> kSpecs{
    {.name = "h.0.a", .shape = {20}}, {.name = "h.0.b", .shape = {3}}, {.name = "h.1.c", .shape = {50}}};

std::vector<ParamSpec> in(DType dtype) {
  auto specs = kSpecs;
  for (ParamSpec& spec : specs) spec.dtype = dtype;
  return specs;
}

struct Fixture {
  std::vector<ParamSpec> specs;
  std::vector<Unit> units;
  Ledger ledger;
  ShardedState state;
  Reducer reducer;

  Fixture(Communicator& comm, const Placement& placement, std::vector<ParamSpec> wanted = kSpecs, bool minimum = false)
      : specs(std::move(wanted)),
        units(make_units(specs, {})),
        state(units, placement, moments(2), comm, ledger),
        reducer(state, specs.size(), minimum, comm, ledger) {}

  void add(int param, float value) {
    const ParamSpec& spec = specs[static_cast<std::size_t>(param)];
    std::vector<std::byte> gradient(static_cast<std::size_t>(spec.numel()) * size_of(spec.dtype));
    for (std::int64_t i = 0; i < spec.numel(); ++i) store_element(gradient.data(), spec.dtype, i, value);
    reducer.add(param, gradient.data());
  }
  void add_unit_0(float value) {
    add(0, value);
    add(1, value);
  }
  // Expects by_slice[s] in all elements of slice s in this rank's shard, and zero in gaps and padding.
  void expect_shard(int unit, const std::vector<float>& by_slice) const {
    const Shard own = state.shard(unit);
    std::vector<float> wanted(static_cast<std::size_t>(own.numel), 0.0F);
    const auto& slices = units[static_cast<std::size_t>(unit)].slices;
    for (std::size_t slice = 0; slice < slices.size(); ++slice) {
      const SlicePart part = overlap(slices[slice], own);
      for (std::int64_t i = 0; i < part.numel; ++i)
        wanted[static_cast<std::size_t>(part.offset - own.offset + i)] = by_slice[slice];
    }
    for (std::int64_t i = 0; i < own.numel; ++i) {
      EXPECT_EQ(load_element(state.gradient_shard(unit), state.gradient_dtype(unit), i),
                wanted[static_cast<std::size_t>(i)])
          << "element " << own.offset + i;
    }
  }
};

TEST(Reducer, RanksGetTheirSummedShard) {
  for (int stage = 0; stage <= 3; ++stage) {
    on_ranks(3, [&](Communicator& comm) {
      Fixture f(comm, place(stage, Reduce::kAuto, 1));
      f.add(1, static_cast<float>(comm.rank()));
      EXPECT_FALSE(f.reducer.arrivals().complete(0));
      f.add(0, static_cast<float>(10 * comm.rank()));
      EXPECT_TRUE(f.reducer.arrivals().complete(0));
      EXPECT_FALSE(f.reducer.arrivals().reduced(0));
      f.reducer.reduce(0);
      EXPECT_TRUE(f.reducer.arrivals().reduced(0));
      f.reducer.finish();
      f.expect_shard(0, {30, 3});
    });
  }
}

TEST(Reducer, MissingGradientsCountAsZeros) {
  for (int stage = 0; stage <= 3; ++stage) {
    on_ranks(2, [&](Communicator& comm) {
      Fixture f(comm, place(stage, Reduce::kAuto, 1));
      for (int step = 0; step < 2; ++step) {
        f.add_unit_0(100);  // leftovers of the last step must not be added in this one
        f.reducer.reduce(0);
        f.reducer.reduce(1);
        f.reducer.end_backward();
        f.reducer.finish();
        f.reducer.clear();
        if (comm.rank() == 0) f.add(1, 5);
        f.reducer.reduce(0);
        f.reducer.reduce(1);
        EXPECT_EQ(f.reducer.arrivals().present(), (std::vector<bool>{false, comm.rank() == 0, false}));
        f.reducer.end_backward();
        f.reducer.finish();
        f.expect_shard(0, {0, 5});
        f.expect_shard(1, {0});
        f.reducer.clear();
      }
    });
  }
}

TEST(Reducer, StatisticsAreOfTheOwnShard) {
  for (int stage = 0; stage <= 3; ++stage) {
    on_ranks(2, [&](Communicator& comm) {
      Fixture f(comm, place(stage, Reduce::kAuto, 1));
      f.add(2, 1.5F);
      f.reducer.reduce(1);
      f.reducer.finish();
      EXPECT_EQ(f.reducer.sums().stats(1).sum_squares.value(), 9.0 * (comm.rank() == 0 ? 32 : 18));
      EXPECT_EQ(f.reducer.sums().stats(1).num_non_finite, 0);
      EXPECT_EQ(f.reducer.sums().first_non_finite(1), -1);
    });
  }
}

// The error names the first parameter that is not finite.
TEST(Reducer, HoldingRankFindsNonFiniteParameters) {
  on_ranks(2, [](Communicator& comm) {
    Fixture f(comm, place(2, Reduce::kAuto, 1));
    f.add(0, 1);
    f.add(1, comm.rank() == 1 ? std::numeric_limits<float>::infinity() : 0.0F);
    f.reducer.reduce(0);
    f.reducer.finish();
    // Parameter b has the elements 32 to 34. Each of the two shards has 32 elements.
    EXPECT_EQ(f.reducer.sums().stats(0).num_non_finite, comm.rank() == 1 ? 3 : 0);
    EXPECT_EQ(f.reducer.sums().first_non_finite(0), comm.rank() == 1 ? 1 : -1);
  });
}

// A parameter gets its gradient twice in one backward pass.
TEST(Reducer, SumsRepeatedGradients) {
  for (const auto& placement : {place(1, Reduce::kAuto, 1), place(2, Reduce::kAuto, 1), place(1, Reduce::kLast, 2)}) {
    on_ranks(2, [&](Communicator& comm) {
      Fixture f(comm, placement);
      f.add(0, 1);
      f.add(0, 2);
      EXPECT_FALSE(f.reducer.arrivals().complete(0)) << "one parameter, not two";
      EXPECT_TRUE(f.reducer.arrivals().open(0));
      f.add(1, 4);
      f.reducer.reduce(0);
      EXPECT_FALSE(f.reducer.arrivals().open(0));
      f.reducer.finish();
      f.expect_shard(0, {6, 8});
    });
  }
}

// Both ways to reduce have the same sum over micro-batches.
TEST(Reducer, EachAndLastSumAlike) {
  for (const DType dtype : {DType::kFloat32, DType::kBFloat16}) {
    for (int stage = 0; stage <= 3; ++stage) {
      for (const Reduce reduce : {Reduce::kEach, Reduce::kLast}) {
        on_ranks(2, [&](Communicator& comm) {
          const Placement placement = place(stage, reduce, 3);
          Fixture f(comm, placement, in(dtype));
          for (int micro = 0; micro < 3; ++micro) {
            f.add_unit_0(static_cast<float>(1 + micro));
            if (placement.reduce_each || micro == 2) f.reducer.reduce(0);
            f.reducer.end_backward();
          }
          f.reducer.finish();
          f.expect_shard(0, {12, 12});
          EXPECT_EQ(f.reducer.sums().stats(0).sum_squares.value(), 144.0 * (comm.rank() == 0 ? 20 : 3));
        });
      }
    }
  }
}

// 1 + 2^-8 is a tie that bf16 rounds to 1. If each addition were rounded, both small terms would be lost.
TEST(Reducer, Bf16SumsRoundOnce) {
  on_ranks(1, [](Communicator& comm) {
    Fixture f(comm, place(2, Reduce::kEach, 3), in(DType::kBFloat16));
    const float small = std::ldexp(1.0F, -8);
    for (const float value : {1.0F, small, small}) {
      f.add_unit_0(value);
      f.reducer.reduce(0);
      f.reducer.end_backward();
    }
    f.reducer.finish();
    f.expect_shard(0, {1 + 2 * small, 1 + 2 * small});
    EXPECT_EQ(to_float(to_bfloat16(1 + small)), 1.0F) << "a single addition is lost in bf16";
  });
}

TEST(Reducer, WholeGradientsNeedNoStaging) {
  on_ranks(2, [](Communicator& comm) {
    Fixture f(comm, place(1, Reduce::kAuto, 1));
    f.add_unit_0(1);
    f.reducer.reduce(0);
    f.reducer.finish();
    EXPECT_EQ(f.ledger.peak(Tier::kDevice)[MemoryTag::kStaging], 0);
  });
}

// The first element of unit 0's sum on the host. Each rank's gradient is `rank + 1`.
float first_on_host(Fixture& f) {
  std::vector<float> shard(static_cast<std::size_t>(f.state.shard(0).numel), -1.0F);
  f.state.streams().fetch_gradient(0, reinterpret_cast<std::byte*>(shard.data()));
  return shard.front();
}

// A finished sum reaches its tier while other sums are still computed.
TEST(Reducer, FinishedSumsReachTheirTierEarly) {
  on_ranks(2, [&](Communicator& comm) {
    Placement placement = place(3, Reduce::kAuto, 1);
    spread_over_tiers(placement, make_units(kSpecs, {}), comm.world(), {.gradient = {.host = 1}});
    Fixture f(comm, placement);
    f.add_unit_0(static_cast<float>(comm.rank() + 1));
    f.reducer.reduce(0);
    EXPECT_EQ(first_on_host(f), 0) << "the sum is still under way";
    comm.barrier({}).wait();  // waits until every rank has begun
    f.reducer.pump();
    EXPECT_EQ(first_on_host(f), 3);
    f.reducer.pump();
    f.add(2, 5);
    f.reducer.reduce(1);
    f.reducer.finish();
    EXPECT_EQ(first_on_host(f), 3);
    EXPECT_GT(f.reducer.sums().stats(0).sum_squares.value(), 0);
  });
}

TEST(Reducer, MinimumStagesOneUnit) {
  on_ranks(2, [](Communicator& comm) {
    Fixture f(comm, place(2, Reduce::kAuto, 1), kSpecs, /*min_budget=*/true);
    for (int step = 0; step < 3; ++step) {
      f.add(2, 1);
      f.reducer.reduce(1);
      f.add_unit_0(1);
      f.reducer.reduce(0);
      f.reducer.end_backward();
      f.reducer.finish();
      f.reducer.clear();
    }
    EXPECT_EQ(f.ledger.peak(Tier::kDevice)[MemoryTag::kStaging], 64 * 4) << "the largest unit, padded";
  });
}

// The first unit has two parameters of `held` elements. Their gradients are the first and the last to complete. Four
// gradients of 80 elements complete between them.
std::vector<ParamSpec> held_and_passing(std::int64_t held) {
  std::vector<ParamSpec> specs{{.name = "h.0.first", .shape = {held}}, {.name = "h.0.last", .shape = {held}}};
  for (int unit = 1; unit <= 4; ++unit) specs.push_back({.name = "h." + std::to_string(unit) + ".a", .shape = {80}});
  return specs;
}

// One unit is held while other units pass.
TEST(Reducer, HeldUnitForcesEarlierWaits) {
  for (const std::int64_t held : {8, 40, 60}) {
    on_ranks(2, [held](Communicator& comm) {
      Fixture f(comm, place(2, Reduce::kAuto, 1), held_and_passing(held));
      for (int step = 0; step < 3; ++step) {
        f.add(0, 1);
        for (int unit = 1; unit <= 4; ++unit) {
          f.add(1 + unit, 1);
          f.reducer.reduce(unit);
        }
        f.add(1, 1);
        f.reducer.reduce(0);
        f.reducer.end_backward();
        f.reducer.finish();
        f.reducer.clear();
      }
      EXPECT_LE(f.ledger.peak(Tier::kDevice)[MemoryTag::kStaging], staging_limit(f.units, 2, false)) << held;
    });
  }
}

// Ranks that update everything get whole gradients back.
TEST(Reducer, WholeGradientReturnsToFullUpdates) {
  for (const DType dtype : {DType::kFloat32, DType::kBFloat16}) {
    for (const int accumulate : {1, 2}) {
      on_ranks(2, [&](Communicator& comm) {
        Fixture f(comm, place(0, Reduce::kLast, accumulate), in(dtype));
        for (int micro = 0; micro < accumulate; ++micro) {
          f.add(2, static_cast<float>(1 + comm.rank()));
          if (micro + 1 == accumulate) f.reducer.reduce(1);
          f.reducer.end_backward();
        }
        f.reducer.finish();
        f.reducer.sums().gather(1);
        for (std::int64_t i = 0; i < 50; ++i) {
          EXPECT_EQ(load_element(f.reducer.sums().for_update(1), f.reducer.sums().update_dtype(1), i),
                    3.0F * static_cast<float>(accumulate))
              << i;
        }
        f.reducer.sums().updated(1);
        f.reducer.clear();
      });
    }
  }
}

TEST(Reducer, SimultaneousUnitsDoNotMix) {
  on_ranks(2, [](Communicator& comm) {
    Fixture f(comm, place(3, Reduce::kAuto, 1));
    f.add(0, 1);
    f.add(2, 7);
    f.reducer.reduce(1);
    f.add(1, 2);
    f.reducer.reduce(0);
    f.reducer.finish();
    f.expect_shard(0, {2, 4});
    f.expect_shard(1, {14});
  });
}

TEST(Reducer, AFrozenParameterHasNoGradient) {
  on_ranks(1, [](Communicator& comm) {
    auto specs = kSpecs;
    specs[2].trainable = false;
    Fixture f(comm, place(2, Reduce::kAuto, 1), specs);
    EXPECT_THROW(f.add(2, 1), InternalError);
  });
}

TEST(Reducer, RejectsUnreducedGradients) {
  on_ranks(1, [](Communicator& comm) {
    Fixture f(comm, place(2, Reduce::kAuto, 1));
    f.add(0, 1);
    EXPECT_THROW(f.reducer.end_backward(), InternalError);
  });
}

TEST(Reducer, EmptyParametersAreNotWaitedFor) {
  on_ranks(2, [](Communicator& comm) {
    Fixture f(comm, place(2, Reduce::kAuto, 1), {{.name = "h.0.w", .shape = {4}}, {.name = "h.0.empty", .shape = {0}}});
    f.add(0, 1);
    EXPECT_TRUE(f.reducer.arrivals().complete(0));
    f.reducer.reduce(0);
    f.reducer.finish();
    f.expect_shard(0, {2, 0});
  });
}

}  // namespace
}  // namespace zero
