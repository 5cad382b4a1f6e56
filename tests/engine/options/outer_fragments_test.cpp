// Outer steps of one part of the model at a time, and outer steps whose sums are exchanged while copies take steps.
#include "zero/engine/options/outer_fragments.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "zero/engine/outer/outer_exchange.h"
#include "zero/engine/place/gather_budget.h"
#include "zero/plan/units/estimate.h"
#include "zero/plan/units/mesh.h"

#include "tests/engine/apart_run.h"
#include "tests/engine/block_specs.h"
#include "tests/support/message_of.h"
#include "tests/support/temporary_folder.h"
#include "tests/support/tier.h"

namespace zero {
namespace {

constexpr LocalSteps kNever{.steps = 1000};
constexpr LocalSteps kFragments{.steps = 4, .fragments = 2};
constexpr LocalSteps kOnTheirWay{.steps = 4, .fragments = 2, .overlap = 1, .mix = 0.25};

TEST(OuterFragments, EachStepsOncePerRound) {
  for (const auto& [steps, fragments] : {std::pair{1, 1}, {50, 1}, {50, 5}, {7, 3}, {5, 5}}) {
    const LocalSteps local{.steps = steps, .fragments = fragments};
    std::vector<int> begun(static_cast<std::size_t>(fragments), 0);
    for (int done = 0; done <= 3 * steps; ++done)
      if (const int fragment = fragment_that_begins(local, done); fragment >= 0)
        ++begun[static_cast<std::size_t>(fragment)];
    EXPECT_EQ(begun, std::vector<int>(static_cast<std::size_t>(fragments), 3)) << steps << ", " << fragments;
    EXPECT_EQ(fragment_that_begins(local, 2 * steps), fragments - 1);
    EXPECT_EQ(fragment_that_begins(local, steps / fragments), 0);
  }
}

TEST(OuterFragments, EndAfterTheOverlap) {
  const LocalSteps local{.steps = 50, .fragments = 5, .overlap = 4};
  EXPECT_EQ(fragment_that_ends(local, 14), 0);
  EXPECT_EQ(fragment_that_ends(local, 64), 0);
  EXPECT_EQ(fragment_that_ends(local, 24), 1);
  for (const int done : {0, 4, 10, 15}) EXPECT_EQ(fragment_that_ends(local, done), -1) << done;
}

TEST(OuterFragments, HaveEveryTrainableUnitOnce) {
  const std::vector<Unit> units = make_units(block_specs(DType::kFloat32), {});
  std::vector<int> seen(units.size(), 0);
  for (int fragment = 0; fragment < 3; ++fragment)
    for (const int unit : units_of_fragment(units, 3, fragment)) ++seen[static_cast<std::size_t>(unit)];
  for (const Unit& unit : units) EXPECT_EQ(seen[static_cast<std::size_t>(unit.index)], unit.trainable ? 1 : 0);
}

// For each element of apart_values(): whether it is in the first of two fragments.
std::vector<bool> in_first_fragment() {
  std::vector<bool> in_it;
  const auto units = make_units(small_specs(), {});
  const std::vector<int> first = units_of_fragment(units, 2, 0);
  for (const Unit& unit : units)
    in_it.insert(in_it.end(), static_cast<std::size_t>(unit.numel),
                 std::ranges::find(first, unit.index) != first.end());
  return in_it;
}

// After the differences are taken, copies take one step. Then each continues with `mix * own + (1 - mix) * merged`.
TEST(OuterFragments, MergeLikeStreamingDiLoCo) {
  const auto none = train_apart(2, small_specs(), {.stage = 2, .local = kNever}, 0);
  const auto taken = train_apart(2, small_specs(), {.stage = 2, .local = kNever}, 2);
  const auto before = train_apart(2, small_specs(), {.stage = 2, .local = kNever}, 3);
  const Apart merged = train_apart(2, small_specs(), {.stage = 3, .local = kOnTheirWay}, 3);
  const std::vector<double> first = apart_values(none.own[0]);
  const std::vector<bool> in_fragment = in_first_fragment();
  const double factor = kOnTheirWay.outer_lr * (1 + kOnTheirWay.outer_momentum);
  for (std::size_t copy = 0; copy < 2; ++copy) {
    std::vector<double> own = apart_values(before.own[copy]), shared = first;
    for (std::size_t i = 0; i < own.size(); ++i) {
      if (!in_fragment[i]) continue;
      const double mean = (apart_values(taken.own[0])[i] + apart_values(taken.own[1])[i]) / 2;
      shared[i] = first[i] - factor * (first[i] - mean);
      own[i] = 0.25 * own[i] + 0.75 * shared[i];
    }
    expect_apart_near(merged.own[copy], own, 1e-5, "own");
    expect_apart_near(merged.shared[copy], shared, 1e-5, "shared");
    EXPECT_FALSE(merged.steps[copy][1].merged);
    EXPECT_TRUE(merged.steps[copy][2].merged);
  }
  EXPECT_NE(merged.own[0], merged.own[1]);
}

TEST(OuterFragments, WithoutOverlapContinueMerged) {
  const auto before = train_apart(2, small_specs(), {.stage = 2, .local = kNever}, 2);
  const Apart merged = train_apart(2, small_specs(), {.stage = 3, .local = kFragments}, 2);
  const std::vector<bool> in_fragment = in_first_fragment();
  for (std::size_t i = 0; i < in_fragment.size(); ++i) {
    if (in_fragment[i]) {
      EXPECT_EQ(merged.own[0][i], merged.own[1][i]);
      EXPECT_EQ(merged.own[0][i], merged.shared[0][i]);
    } else {
      EXPECT_EQ(merged.own[0][i], before.own[0][i]);
    }
  }
}

// After the last step of a round, only the first of two fragments has steps since its outer step. Another outer step of
// the second fragment would move its anchor by the momentum.
TEST(OuterFragments, OnlyFragmentsWithStepsAreMerged) {
  const AttachOptions options{.stage = 3, .local = kFragments};
  const Apart before = train_apart(2, small_specs(), options, 4);
  const Apart merged = train_apart(2, small_specs(), options, 4, [](ScriptedModel& model, int step) {
    if (step == 3) model.engine().states().merge();
  });
  const std::vector<bool> in_first = in_first_fragment();
  for (std::size_t i = 0; i < in_first.size(); ++i) {
    if (!in_first[i]) {
      ASSERT_EQ(merged.own[0][i], before.own[0][i]) << i;
    }
  }
  EXPECT_EQ(merged.own[0], merged.own[1]);
  EXPECT_EQ(merged.own[0], merged.shared[0]);
  EXPECT_NE(merged.own[0], before.own[0]);
}

// The differences are taken after step 4. Their result is applied after step 6, or by an earlier merge. Expected: one
// outer step of the differences after step 4.
TEST(OuterFragments, UnmixedResultsAreMergedOnce) {
  const auto none = train_apart(2, small_specs(), {.stage = 2, .local = kNever}, 0);
  const auto taken = train_apart(2, small_specs(), {.stage = 2, .local = kNever}, 4);
  const LocalSteps local{.steps = 4, .overlap = 2, .mix = 0.25};
  std::vector<double> shared = apart_values(none.own[0]);
  for (std::size_t i = 0; i < shared.size(); ++i) {
    const double mean = (apart_values(taken.own[0])[i] + apart_values(taken.own[1])[i]) / 2;
    shared[i] -= local.outer_lr * (1 + local.outer_momentum) * (shared[i] - mean);
  }
  for (const int steps : {4, 5}) {
    const Apart merged =
        train_apart(2, small_specs(), {.stage = 3, .local = local}, steps, [steps](ScriptedModel& model, int step) {
          if (step == steps - 1) model.engine().states().merge();
        });
    for (std::size_t copy = 0; copy < 2; ++copy) {
      expect_apart_near(merged.own[copy], shared, 1e-5, fmt::format("own, {} steps", steps));
      expect_apart_near(merged.shared[copy], shared, 1e-5, fmt::format("shared, {} steps", steps));
    }
  }
}

// set_progress() is what load() calls. It knows the number of steps, but not that the copies were merged since.
TEST(OuterFragments, LoadedEqualCopiesStay) {
  for (const LocalSteps& local : {LocalSteps{.steps = 4}, kFragments, kOnTheirWay}) {
    for (const int steps : {1, 2, 3}) {
      const AttachOptions options{.stage = 1, .local = local};
      const auto merged_after = [&](bool loads) {
        return train_apart(2, small_specs(), options, steps, [&](ScriptedModel& model, int step) {
          if (step != steps - 1) return;
          StateAccess& states = model.engine().states();
          const auto load = [&] {
            states.pause();
            states.set_progress(states.progress());
          };
          if (loads) load();
          states.merge();
          if (loads) load();
          if (loads) states.merge();
        });
      };
      const Apart expected = merged_after(false), seen = merged_after(true);
      EXPECT_EQ(seen.own, expected.own) << steps << " steps, fragments " << local.fragments;
      EXPECT_EQ(seen.own[0], seen.own[1]);
    }
  }
}

// If gradients are 0 during the exchange, and the mix takes nothing of the copy's own weights, a late merge equals an
// immediate one. This holds for all codecs.
TEST(OuterFragments, InFlightMatchImmediateSums) {
  const auto stand_still = [](ScriptedModel& model, int step) {
    if (step == 2) model.edit = [](int, std::int64_t, float) { return 0.0F; };
  };
  const std::vector<WireCodecs> wires{
      {}, {.outer = WireCodec::kInt8}, {.outer = WireCodec::kInt4}, {.outer_topk = 0.1}};
  Sweep sweep(3);
  for (const WireCodecs& wire : wires) {
    for (const auto& [world, group] : {std::pair{2, 1}, {3, 1}, {4, 2}}) {
      for (const int stage : {0, 1, 3}) {
        if (!sweep.takes_next()) continue;
        AttachOptions options{
            .stage = stage, .group = group, .local = LocalSteps{.steps = 3}, .wire = wire, .optimizer = SgdOptions{}};
        const Apart at_once = train_apart(world, small_specs(), options, 5, stand_still);
        options.local->overlap = 2;
        options.local->mix = 0;
        const Apart late = train_apart(world, small_specs(), options, 5, stand_still);
        const std::string where = fmt::format("{} ranks in groups of {}, stage {}, {}", world, group, stage,
                                              wire.outer_topk > 0 ? "topk" : name_of(wire.outer));
        EXPECT_EQ(late.own, at_once.own) << where;
        EXPECT_EQ(late.shared, at_once.shared) << where;
        EXPECT_FALSE(late.steps[0][2].merged);
        EXPECT_TRUE(late.steps[0][4].merged);
      }
    }
  }
}

// The bits are equal at every stage, on every tier, with every codec.
TEST(OuterFragments, KeepBitsInEverySetting) {
  const TemporaryFolder disk;
  Sweep sweep(5);
  int which = 0;
  for (const WireCodecs& wire : {WireCodecs{}, {.outer = WireCodec::kInt8}, {.outer_topk = 0.1}}) {
    for (const LocalSteps& local : {kFragments, kOnTheirWay, LocalSteps{.steps = 3, .overlap = 3}}) {
      AttachOptions options{.stage = 3, .group = 2, .local = local, .wire = wire, .clip = 0.5, .accumulate = 2};
      std::optional<Apart> expected;
      std::vector<AttachOptions> places = at_all_stages(options);
      places.push_back(options);
      places.back().offload.disk = {disk.path().string()};
      places.back().offload.fractions = {.parameter = {.disk = 1}, .gradient = {.disk = 1}, .optimizer = {.disk = 1}};
      const DType dtype = which++ % 2 == 0 ? DType::kFloat32 : DType::kBFloat16;
      for (const AttachOptions& placed : places) {
        if (!sweep.takes_next()) continue;
        if (!expected) expected = train_apart(4, small_specs(dtype), options, 7);
        const Apart seen = train_apart(4, small_specs(dtype), placed, 7);
        EXPECT_EQ(seen.own, expected->own) << place_of(placed, dtype);
        EXPECT_EQ(seen.shared, expected->shared) << place_of(placed, dtype);
      }
    }
  }
}

// Shared weights are read while a fragment is exchanged.
TEST(OuterFragments, ReadingSharedWeightsKeepsBits) {
  const AttachOptions options{.stage = 2, .local = LocalSteps{.steps = 4, .fragments = 2, .overlap = 2}};
  const Apart expected = train_apart(2, small_specs(), options, 9);
  const Apart seen = train_apart(2, small_specs(), options, 9, [](ScriptedModel& model, int) {
    model.engine().states().exchange_averages();
    model.engine().states().exchange_averages();
  });
  EXPECT_EQ(seen.own, expected.own);
  EXPECT_EQ(seen.shared, expected.shared);
}

// The plan and the formula agree.
TEST(OuterFragments, SendPlannedBytes) {
  for (const WireCodecs& wire : {WireCodecs{}, {.outer = WireCodec::kInt4}, {.outer_topk = 0.1}}) {
    for (const LocalSteps& local : {kFragments, kOnTheirWay}) {
      for (const int stage : {0, 1, 3}) {
        const AttachOptions options{.stage = stage, .group = 2, .local = local, .wire = wire};
        std::vector<Unit> units;
        const auto all = make_units(small_specs(), {});
        for (const int unit : units_of_fragment(all, 2, 0)) units.push_back(all[static_cast<std::size_t>(unit)]);
        Placement placement = place(stage, Reduce::kAuto, 1);
        placement.wire = wire;
        const OuterBytes planned = outer_bytes(units, {.shard = 2, .copies = 2}, placement);
        for (const EngineReport& report : train_apart(4, small_specs(), options, 3).reports) {
          EXPECT_EQ(report.outer.steps, 1);
          EXPECT_EQ(report.outer.planned_sent_between_copies, planned.between_copies);
          EXPECT_EQ(report.outer.sent_between_copies, planned.between_copies) << stage << ", " << local.overlap;
          EXPECT_EQ(report.outer.sent_bytes, planned.total()) << stage;
        }
      }
    }
  }
}

TEST(OuterFragments, KeepByteBudgetsInFlight) {
  AttachOptions options{.stage = 3, .group = 2, .local = kOnTheirWay};
  options.offload.automatic = false;
  const auto units = make_units(small_specs(), {});
  Placement placement = place(3, Reduce::kAuto, 1);
  set_exchange(placement, {.shard = 2, .copies = 2}, options);
  EXPECT_GT(OuterExchange::bytes(units, 2, placement), 0);
  const std::int64_t least = working_bytes(units, 2, placement, /*min_budget=*/true) +
                             state_bytes(units, 2, placement, spec_of(*rule_of(options)), Tier::kDevice).total();
  for (int quarter = 0; quarter <= 4; ++quarter) {
    options.device_memory = {MemoryBudget::Kind::kBytes, least + least * quarter / 8};
    EXPECT_LE(train_apart(4, small_specs(), options, 5).reports[0].peak_memory_bytes.device,
              options.device_memory.bytes);
  }
}

TEST(OuterFragments, RefuseImpossibleOnesByName) {
  const auto end = [](const LocalSteps& local) {
    return ends_of_ranks(2, [&](Communicator& comm) { ScriptedModel model(comm, small_specs(), {.local = local}); })[0];
  };
  EXPECT_TRUE(says(end({.fragments = 0}), "sync.fragments = 0"));
  EXPECT_TRUE(says(end({.steps = 4, .fragments = 5}), "use 1 to 4"));
  EXPECT_TRUE(says(end({.steps = 50, .fragments = 50}), "sync.fragments = 50: the model has"));
  EXPECT_TRUE(says(end({.steps = 50, .fragments = 5, .overlap = 11}), "sync.overlap = 11"));
  EXPECT_TRUE(says(end({.overlap = -1}), "sync.overlap = -1"));
  EXPECT_TRUE(says(end({.overlap = 1, .mix = 1}), "sync.mix = 1"));
}

}  // namespace
}  // namespace zero
