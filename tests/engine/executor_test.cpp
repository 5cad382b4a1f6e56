#include "zero/engine/executor.h"

#include <memory>
#include <vector>

#include <gtest/gtest.h>

#include "zero/engine/step_passes.h"

#include "tests/engine/scripted_model.h"
#include "tests/engine/thread_ranks.h"

namespace zero {
namespace {

struct Observer final : UnitObserver {
  void bind(int, std::byte*) override {}
};

// Four units of equal size, and an executor without an engine.
struct Fixture {
  std::vector<ParamSpec> specs;
  std::vector<Unit> units;
  Ledger ledger;
  ShardedState state;
  Observer observer;
  SecondaryParts parts;
  Gatherer gatherer;
  Reducer reducer;
  std::unique_ptr<UpdateRule> rule;
  Updater updater;
  Executor executor;
  StepPasses passes;

  static std::vector<ParamSpec> four() {
    std::vector<ParamSpec> specs;
    for (int i = 0; i < 4; ++i) specs.push_back({.name = "h." + std::to_string(i) + ".w", .shape = {32}});
    return specs;
  }
  Fixture(Communicator& comm, const Placement& placement, GatherBudget budget)
      : specs(four()),
        units(make_units(specs, {})),
        state(units, placement, moments(2), comm, ledger),
        gatherer(state, comm, ledger, observer, parts),
        reducer(state, specs.size(), budget.is_min(), comm, ledger),
        rule(rule_of({})),
        updater(state, *rule, specs, {}, comm, ledger, comm),
        executor(state, budget, gatherer, parts, reducer, updater),
        passes(state, gatherer, reducer, executor) {}

  void gradient(int unit) {
    const std::vector<float> ones(32, 1.0F);
    passes.begin_backward();
    reducer.add(unit, reinterpret_cast<const std::byte*>(ones.data()));
    passes.gradient_arrived(unit);
  }
  // A forward pass over `order`, a backward pass in reverse, and the end of a step.
  void step(const std::vector<int>& order, bool same_everywhere = true) {
    for (const int unit : order) passes.access(unit);
    passes.begin_backward();
    for (auto unit = order.rbegin(); unit != order.rend(); ++unit) {
      passes.access(*unit);
      gradient(*unit);
    }
    passes.end_backward();
    passes.end();
    gatherer.finish();
    reducer.finish();
    reducer.clear();
    passes.close_step(same_everywhere);
  }
  std::int64_t one() const { return gathered_bytes(units[0], state.world()); }
};

constexpr GatherBudget kMinBudget{GatherBudget::kMin};

// Consecutive operators on one unit are one access.
TEST(Executor, OperatorsOnAUnitShareAccess) {
  on_ranks(1, [](Communicator& comm) {
    Fixture f(comm, place(3, Reduce::kAuto, 1), {});
    for (const int unit : {0, 0, 1, 1, 0}) f.passes.access(unit);
    EXPECT_EQ(f.executor.replay().trace().events.size(), 3u);
  });
}

TEST(Executor, RecordsWhatHappened) {
  on_ranks(1, [](Communicator& comm) {
    Fixture f(comm, place(3, Reduce::kAuto, 1), {});
    f.passes.access(2);
    f.gatherer.uses().pin(2, f.gatherer.data(2));
    f.passes.access(3);
    f.gatherer.uses().unpin(2);
    f.gradient(3);
    f.passes.end_backward();
    const std::vector<Event> wanted{{EventKind::kAccess, 2, {}},    {EventKind::kAccess, 3, {2}},
                                    {EventKind::kBackward, -1, {}}, {EventKind::kGradient, 3, {}},
                                    {EventKind::kGradient, 2, {}},  {EventKind::kGradient, 1, {}},
                                    {EventKind::kGradient, 0, {}},  {EventKind::kEndBackward, -1, {}}};
    EXPECT_EQ(f.executor.replay().trace().events, wanted);
    EXPECT_EQ(f.executor.finished_backwards(), 1);
  });
}

TEST(Executor, TheSecondStepReplaysTheFirst) {
  on_ranks(2, [](Communicator& comm) {
    Fixture f(comm, place(3, Reduce::kAuto, 1), kMinBudget);
    EXPECT_TRUE(f.executor.schedule().entries.empty());
    f.step({0, 1, 2, 3});
    const std::size_t recorded = f.executor.schedule().entries.size();
    EXPECT_EQ(recorded, 4u + 1 + 8 + 1 + 1);
    const std::int64_t before = comm.traffic().sent_bytes;
    f.step({0, 1, 2, 3});
    EXPECT_FALSE(f.executor.replay().mismatched());
    EXPECT_EQ(comm.traffic().sent_bytes - before, 3 * 4 * f.one() / 2);
    EXPECT_EQ(f.executor.schedule().entries.size(), recorded);
  });
}

TEST(Executor, MinDemandHoldsOneUnit) {
  on_ranks(2, [](Communicator& comm) {
    Fixture f(comm, place(3, Reduce::kAuto, 1), kMinBudget);
    f.step({0, 1, 2, 3});
    EXPECT_EQ(f.ledger.peak(Tier::kDevice)[MemoryTag::kGathered], f.one());
  });
}

// Demand evicts units when the budget is exceeded.
TEST(Executor, DemandEvictsLeastRecentlyUsed) {
  on_ranks(2, [](Communicator& comm) {
    Fixture f(comm, place(3, Reduce::kAuto, 1), {2 * 32 * 4});
    ASSERT_EQ(f.one(), 32 * 4);
    for (const int unit : {0, 1, 0, 2}) f.passes.access(unit);
    EXPECT_EQ(f.gatherer.resident().units(), (std::vector<int>{0, 2}));
    f.passes.end();
    f.passes.close_step(true);
  });
}

TEST(Executor, MinDemandEvictsUnpinnedUnits) {
  on_ranks(1, [](Communicator& comm) {
    Fixture f(comm, place(3, Reduce::kAuto, 1), kMinBudget);
    f.passes.access(0);
    f.gatherer.uses().pin(0, f.gatherer.data(0));
    f.passes.access(1);
    EXPECT_EQ(f.gatherer.resident().units(), (std::vector<int>{0, 1}));
    f.gatherer.uses().unpin(0);
    f.passes.access(0);
    EXPECT_EQ(f.gatherer.resident().units(), std::vector<int>{0});
  });
}

TEST(Executor, UpdateInvalidatesGatheredCopies) {
  on_ranks(2, [](Communicator& comm) {
    Fixture f(comm, place(3, Reduce::kAuto, 1), {});
    for (int step = 0; step < 2; ++step) {
      f.step({0, 1, 2, 3});
      EXPECT_TRUE(f.gatherer.resident().units().empty());
    }
  });
}

TEST(Executor, MismatchFallsBackForTheStep) {
  on_ranks(2, [](Communicator& comm) {
    Fixture f(comm, place(3, Reduce::kAuto, 1), kMinBudget);
    f.step({0, 1, 2, 3});
    f.passes.access(0);
    EXPECT_FALSE(f.executor.replay().mismatched());
    f.passes.access(2);
    EXPECT_TRUE(f.executor.replay().mismatched());
    f.passes.access(1);
    EXPECT_EQ(f.gatherer.resident().units(), std::vector<int>{1});
    f.passes.end();
    f.passes.close_step(true);
    EXPECT_FALSE(f.executor.replay().mismatched()) << "the next step has its own schedule";
    EXPECT_EQ(f.executor.schedule().entries.size(), 4u);
  });
}

// The next step works on demand.
TEST(Executor, MissingCommonTraceMeansDemand) {
  on_ranks(2, [](Communicator& comm) {
    Fixture f(comm, place(2, Reduce::kAuto, 1), {});
    f.step({0, 1, 2, 3});
    f.step({3, 2, 1, 0}, /*same_everywhere=*/false);
    EXPECT_TRUE(f.executor.schedule().entries.empty());
    EXPECT_EQ(f.executor.schedule().reduce_order, (std::vector<int>{3, 2, 1, 0}));
    f.step({0, 1, 2, 3});
    EXPECT_FALSE(f.executor.schedule().entries.empty());
  });
}

// Gradients are complete in different orders on each rank. All ranks must begin the same collectives in the same order.
TEST(Executor, DemandReducesInOneOrder) {
  on_ranks(2, [](Communicator& comm) {
    Fixture f(comm, place(2, Reduce::kAuto, 1), {});
    const std::vector<int> order = comm.rank() == 0 ? std::vector<int>{0, 1, 2, 3} : std::vector<int>{2, 0};
    for (const int unit : order) {
      f.gradient(unit);
      // Units are reduced in reverse order. Unit 3 is first, and rank 1 never has it.
      EXPECT_EQ(f.reducer.arrivals().reduced(unit), unit == 3);
    }
    f.passes.end_backward();
    f.reducer.finish();
    for (int unit = 0; unit < 4; ++unit) {
      EXPECT_EQ(load_element(f.state.gradient_shard(unit), DType::kFloat32, 0), unit % 2 == 0 ? 2.0F : 1.0F);
    }
  });
}

TEST(Executor, ReduceLastAwaitsLastMicroBatch) {
  on_ranks(2, [](Communicator& comm) {
    Fixture f(comm, place(2, Reduce::kLast, 2), {});
    for (int step = 0; step < 2; ++step) {  // on demand and replayed
      const std::int64_t before = comm.traffic().sent_bytes;
      for (int unit = 3; unit >= 0; --unit) f.gradient(unit);
      f.passes.end_backward();
      EXPECT_EQ(comm.traffic().sent_bytes, before);
      for (int unit = 3; unit >= 0; --unit) f.gradient(unit);
      f.passes.end_backward();
      EXPECT_EQ(comm.traffic().sent_bytes - before, 4 * f.one() / 2);
      f.passes.end();
      f.reducer.finish();
      f.reducer.clear();
      f.passes.close_step(true);
    }
  });
}

TEST(Executor, LaterGradientIsReducedAgain) {
  on_ranks(2, [](Communicator& comm) {
    Fixture f(comm, place(2, Reduce::kAuto, 1), {});
    f.gradient(3);
    EXPECT_TRUE(f.reducer.arrivals().reduced(3));
    f.gradient(3);
    f.passes.end_backward();
    f.reducer.finish();
    EXPECT_EQ(load_element(f.state.gradient_shard(3), DType::kFloat32, 0), 4.0F);
  });
}

// Stage 0 gathers gradients before the update. Stage 2 gathers parameters after it.
TEST(Executor, UpdatesAreActionsLikeAnyOther) {
  on_ranks(2, [](Communicator& comm) {
    for (const int stage : {0, 2}) {
      Fixture f(comm, place(stage, Reduce::kAuto, 1), {});
      for (int unit = 3; unit >= 0; --unit) f.gradient(unit);
      f.passes.end_backward();
      f.passes.end();
      f.reducer.finish();
      const std::int64_t before = comm.traffic().sent_bytes;
      f.executor.begin_updates({.present = std::vector<bool>(4, true), .rates = {.lr = 0.5}},
                               updated_units(f.executor.schedule()));
      f.executor.update_all();
      f.gatherer.finish();
      EXPECT_EQ(comm.traffic().sent_bytes - before, 4 * f.one() / 2) << "stage " << stage;
      for (int unit = 0; unit < 4; ++unit) {
        EXPECT_TRUE(f.updater.current(unit));
        for (const std::int64_t element : {0, 31})  // one in each shard: Adam first moves by the rate
          EXPECT_NEAR(load_element(f.gatherer.data(unit), DType::kFloat32, element), -0.5F, 1e-6F);
      }
      f.reducer.clear();
      f.passes.close_step(true);
    }
  });
}

TEST(Executor, EvaluationLeavesNoTrace) {
  on_ranks(2, [](Communicator& comm) {
    Fixture f(comm, place(3, Reduce::kAuto, 1), {});
    f.step({0, 1});
    f.passes.use_untraced(3);
    EXPECT_TRUE(f.executor.replay().trace().events.empty());
    EXPECT_TRUE(f.gatherer.ready(3));
    f.passes.access(0);
    EXPECT_FALSE(f.gatherer.ready(3)) << "a schedule begins with no gathered unit";
    EXPECT_FALSE(f.executor.replay().mismatched());
  });
}

TEST(Executor, EndOutsideABackwardDoesNothing) {
  on_ranks(1, [](Communicator& comm) {
    Fixture f(comm, place(2, Reduce::kAuto, 1), {});
    f.passes.end_backward();
    EXPECT_TRUE(f.executor.replay().trace().events.empty());
    EXPECT_EQ(f.executor.finished_backwards(), 0);
  });
}

}  // namespace
}  // namespace zero
