// Replicas: states that every rank holds whole are compared. A changed bit is found, and its rank is named. There are
// no other alarms.
//
// ZERO_FLIPS=1000 sets the number of random flips per test. The default is small.
#include "zero/engine/states/replicas.h"

#include <cstdlib>
#include <mutex>
#include <random>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "zero/engine/states/sharded_state.h"

#include "tests/engine/corrupting_communicator.h"
#include "tests/engine/scripted_model.h"
#include "tests/engine/thread_ranks.h"
#include "tests/support/temporary_folder.h"
#include "tests/support/tier.h"

namespace zero {
namespace {

// Two bf16 elements share a word of four bytes. A bit of each half is flipped.
constexpr DType kDTypes[] = {DType::kFloat32, DType::kBFloat16};

int num_flips() {
  return num_trials("ZERO_FLIPS", 24, 1000);
}

// ---- the differing ranks
// ---------------------------------------------------------------------------------------------

std::vector<Unit> units_named(const std::vector<std::string>& names) {
  std::vector<Unit> units;
  for (const std::string& name : names) units.push_back({.index = static_cast<int>(units.size()), .name = name});
  return units;
}

// The check also names the first unit that differs.
TEST(Replicas, MajorityNamesTheDifferingRank) {
  const ReplicaCheck check = compare_hashes({{1, 2, 3}, {1, 2, 3}, {1, 9, 8}}, units_named({"wte", "h.0", "h.1"}));
  EXPECT_TRUE(check.compared);
  EXPECT_EQ(check.ranks, std::vector<int>{2});
  EXPECT_EQ(check.describe(), "rank 2 differs in unit 1 (h.0)");
}

TEST(Replicas, TwoRanksCannotBeJudged) {
  const ReplicaCheck check = compare_hashes({{1, 2}, {1, 3}}, units_named({"wte", "h.0"}));
  EXPECT_EQ(check.ranks, (std::vector<int>{0, 1}));
  EXPECT_EQ(check.describe(), "ranks 0, 1 differ, first in unit 1 (h.0)");
}

TEST(Replicas, EqualHalvesNameAllRanks) {
  EXPECT_EQ(compare_hashes({{1}, {2}, {1}, {2}}, units_named({"a"})).ranks, (std::vector<int>{0, 1, 2, 3}));
  EXPECT_EQ(compare_hashes({{1}, {2}, {1}, {3}}, units_named({"a"})).ranks, (std::vector<int>{1, 3}));
}

TEST(Replicas, OtherUnitsNameTheirRanks) {
  const ReplicaCheck check = compare_hashes({{1, 7}, {1, 2}, {5, 2}, {1, 2}}, units_named({"a", "b"}));
  EXPECT_EQ(check.ranks, (std::vector<int>{0, 2}));
  EXPECT_EQ(check.unit, 0);
}

TEST(Replicas, LocalCopiesCompareWithin) {
  const Mesh mesh{.shard = 2, .copies = 2};
  const HeldHash first{.whole = 1, .sharded = 2, .apart = 3}, second{.whole = 1, .sharded = 2, .apart = 4};
  EXPECT_TRUE(compare_hashes({{first}, {first}, {second}, {second}}, mesh, units_named({"a"})).same());
  EXPECT_EQ(compare_hashes({{first}, {first}, {first}, {second}}, mesh, units_named({"a"})).ranks, (std::vector{2, 3}));
}

TEST(Replicas, ThatAreEqualAreSo) {
  const ReplicaCheck check = compare_hashes({{1, 2}, {1, 2}}, units_named({"a", "b"}));
  EXPECT_TRUE(check.compared);
  EXPECT_TRUE(check.same());
}

// ---- hashes
// -----------------------------------------------------------------------------------------------------------

class ReplicaHash : public testing::Test {
 protected:
  std::vector<std::uint64_t> hashes(int stage, DType dtype, const StateFractions& fractions, float moment = 0.25F) {
    std::vector<std::uint64_t> hashes;
    on_ranks(2, [&](Communicator& comm) {
      Ledger ledger;
      const auto units = make_units(small_specs(dtype), {});
      Placement placement = place(stage, Reduce::kAuto, 1);
      spread_over_tiers(placement, units, comm.world(), fractions);
      DiskTier disk({.paths = {folder_.path().string()}, .bytes = 1 << 20});
      ShardedState state(units, placement, moments(2), comm, ledger, {.disk = &disk});
      for (const Unit& unit : units) {
        std::vector<float> whole(static_cast<std::size_t>(unit.numel), 0.0F);
        for (const Slice& slice : unit.slices)
          std::fill_n(whole.begin() + slice.offset, slice.numel, 1.0F / static_cast<float>(2 + slice.param));
        state.contents().load(unit.index, reinterpret_cast<const std::byte*>(whole.data()), DType::kFloat32);
        for (int which = 1; which < state.contents().num_saved_states(unit.index); ++which)
          state.contents().write_held(unit.index, which, [&](std::int64_t, std::span<float> out) {
            std::fill(out.begin(), out.end(), moment);
          });
        if (comm.rank() == 1) hashes.push_back(replica_hash(state, unit.index));
      }
    });
    return hashes;
  }
  TemporaryFolder folder_;
};

TEST_F(ReplicaHash, IsTheSameWhereverStatesLie) {
  for (const DType dtype : kDTypes) {
    const auto on_device = hashes(0, dtype, {});
    for (const TierFractions& optimizer :
         {TierFractions{.host = 1}, TierFractions{.disk = 1}, TierFractions{.host = 0.3, .disk = 0.5}})
      EXPECT_EQ(hashes(0, dtype, {.optimizer = optimizer}), on_device) << name_of(dtype);
  }
}

TEST_F(ReplicaHash, CoversMomentsOnlyAtStage0) {
  for (const DType dtype : kDTypes) {
    const auto units = make_units(small_specs(dtype), {});
    const auto before = hashes(0, dtype, {}), after = hashes(0, dtype, {}, 0.5F);
    for (const Unit& unit : units)
      EXPECT_EQ(before[static_cast<std::size_t>(unit.index)] != after[static_cast<std::size_t>(unit.index)],
                unit.trainable)
          << unit.name;
    EXPECT_EQ(hashes(1, dtype, {}), hashes(1, dtype, {}, 0.5F));
    EXPECT_EQ(hashes(1, dtype, {}), hashes(2, dtype, {}));
    EXPECT_NE(hashes(1, dtype, {}), before);
  }
}

// ---- in a run -------------------------------------------------------------------------------------------------------

struct Run {
  std::vector<std::uint32_t> weights;
  std::vector<double> norms;
  std::int64_t sent_bytes = 0;
  bool operator==(const Run&) const = default;
};

Run train(int world, AttachOptions options, DType dtype, bool compares) {
  Run run;
  on_ranks(world, [&](Communicator& comm) {
    ScriptedModel model(comm, small_specs(dtype), options);
    for (int step = 0; step < 5; ++step) {
      const StepReport report = model.train(step, options.accumulate);
      if (comm.rank() == 0) run.norms.push_back(report.grad_norm);
      if (!compares) continue;
      const ReplicaCheck check = model.engine().states().compare_replicas();
      EXPECT_EQ(check.compared, world > 1 && options.stage < 3);
      EXPECT_TRUE(check.same()) << check.describe();
    }
    const std::int64_t sent = model.engine().report().sent_bytes_per_step;
    const auto bits = model.weight_bits();
    if (comm.rank() == 0) run.weights = bits;
    if (comm.rank() == 0) run.sent_bytes = sent;
  });
  return run;
}

// Comparing changes no bit. A run without flips raises no alarm.
TEST(Replicas, ComparingChangesNothing) {
  for (const int world : {1, 2, 3}) {
    for (int stage = 0; stage <= 3; ++stage) {
      for (const DType dtype : kDTypes) {
        for (const int accumulate : {1, 2}) {
          const AttachOptions options{.stage = stage, .clip = 1.5, .accumulate = accumulate};
          EXPECT_EQ(train(world, options, dtype, true), train(world, options, dtype, false))
              << world << " ranks, stage " << stage << ", " << name_of(dtype);
        }
      }
    }
  }
}

TEST(Replicas, ComparingLeavesADelayedGradientWaiting) {
  const AttachOptions options{.stage = 2, .delayed_update = true, .exact_steps = 1};
  EXPECT_EQ(train(2, options, DType::kFloat32, true), train(2, options, DType::kFloat32, false));
}

TEST(Replicas, AreNotComparedWhileGradientsWait) {
  const auto ends = ends_of_ranks(2, [](Communicator& comm) {
    ScriptedModel model(comm, small_specs(), {.stage = 1});
    model.forward(model.all_units());
    model.backward(model.all_units(), 0, 0);
    model.engine().states().compare_replicas();
  });
  for (const std::string& end : ends)
    EXPECT_NE(end.find("compared between a backward pass and its step()"), std::string::npos) << end;
}

// ---- flips ----------------------------------------------------------------------------------------------------------

struct Trial {
  int stage = 0;
  DType dtype = DType::kFloat32;
  int victim = 0;
  int steps = 1;  // before the flip
  std::uint64_t random = 0;
};

constexpr int kWorld = 3;  // the smallest world with a majority

Trial draw(std::mt19937_64& random, int stages) {
  return {.stage = static_cast<int>(random() % static_cast<unsigned>(stages)),
          .dtype = random() % 2 == 0 ? DType::kFloat32 : DType::kBFloat16,
          .victim = static_cast<int>(random() % kWorld),
          .steps = 1 + static_cast<int>(random() % 3),
          .random = random()};
}

std::string name_of(const Trial& trial) {
  return fmt::format("stage {}, {}, rank {}, after {} steps, {}", trial.stage, name_of(trial.dtype), trial.victim,
                     trial.steps, trial.random);
}

TEST(BitFlips, ParameterFlipsAreNamed) {
  std::mt19937_64 random(1);
  for (int i = 0; i < num_flips(); ++i) {
    const Trial trial = draw(random, 3);
    on_ranks(kWorld, [&](Communicator& comm) {
      ScriptedModel model(comm, small_specs(trial.dtype), {.stage = trial.stage});
      for (int step = 0; step < trial.steps; ++step) model.train(step);
      EXPECT_TRUE(model.engine().states().compare_replicas().same()) << name_of(trial);
      const auto unit = static_cast<int>(trial.random % model.units().size());
      {
        const GatheredUnit in_use = model.engine().use(unit, Use::kUntraced);
        if (comm.rank() == trial.victim) {
          const Unit& description = model.units()[static_cast<std::size_t>(unit)];
          const std::uint64_t bits = static_cast<std::uint64_t>(description.numel) * size_of(trial.dtype) * 8;
          const std::uint64_t bit = trial.random / 8 % bits;
          in_use.data()[bit / 8] ^= std::byte{1} << (bit % 8);
          in_use.mark_written();
        }
      }
      const ReplicaCheck check = model.engine().states().compare_replicas();
      EXPECT_EQ(check.ranks, std::vector<int>{trial.victim}) << name_of(trial);
      EXPECT_EQ(check.unit, unit) << name_of(trial);
    });
  }
}

// The shards of all ranks in order. At stage 0 each rank holds all of them.
class Whole {
 public:
  void take(RankEngine& engine, int unit, int state) {
    engine.states().read_shard(unit, state, [&](std::int64_t first, std::span<const std::byte> elements) {
      const std::scoped_lock lock(mutex_);
      const std::size_t end = static_cast<std::size_t>(first) * 4 + elements.size();
      if (bytes_.size() < end) bytes_.resize(end);
      std::memcpy(bytes_.data() + first * 4, elements.data(), elements.size());
    });
  }
  void flip(std::uint64_t bit) { bytes_[bit / 8] ^= std::byte{1} << (bit % 8); }
  void give(RankEngine& engine, int unit, int state) const {
    engine.states().write_held(unit, state, [&](std::int64_t first, std::span<float> out) {
      std::memcpy(out.data(), bytes_.data() + first * 4, out.size_bytes());
    });
  }

 private:
  std::mutex mutex_;
  std::vector<std::byte> bytes_;
};

// At stage 0, flips in masters and moments are named.
TEST(BitFlips, MasterAndMomentFlipsAreNamed) {
  std::mt19937_64 random(2);
  for (int i = 0; i < num_flips(); ++i) {
    const Trial trial = draw(random, 1);
    Whole whole;
    on_ranks(kWorld, [&](Communicator& comm) {
      ScriptedModel model(comm, small_specs(trial.dtype, /*with_frozen=*/false), {.stage = 0});
      for (int step = 0; step < trial.steps; ++step) model.train(step);
      const auto unit = static_cast<int>(trial.random % model.units().size());
      const auto state = static_cast<int>(trial.random / 8 % 3);
      model.engine().states().pause();
      whole.take(model.engine(), unit, state);
      comm.barrier({.control = true}).wait();
      if (comm.rank() == trial.victim) {
        whole.flip(trial.random / 32 % static_cast<std::uint64_t>(model.units()[static_cast<std::size_t>(unit)].numel) *
                       32 +
                   trial.random % 32);
        whole.give(model.engine(), unit, state);
      }
      const ReplicaCheck check = model.engine().states().compare_replicas();
      EXPECT_EQ(check.ranks, std::vector<int>{trial.victim}) << name_of(trial) << ", state " << state;
      EXPECT_EQ(check.unit, unit) << name_of(trial);
    });
  }
}

struct Seen {
  bool flipped = false;
  std::vector<ReplicaCheck> checks;   // after each step, on rank 0
  std::vector<bool> same_parameters;  // whether the bytes are equal, after each step
};

// Trains while one bit flips in the data that the victim receives. Compares all replicas after every step.
Seen with_flip(const Trial& trial, const BitFlip& flip, int steps) {
  Seen seen;
  std::mutex mutex;
  std::vector<std::vector<std::vector<std::byte>>> bytes(static_cast<std::size_t>(steps));  // by step and rank
  for (auto& step : bytes) step.resize(kWorld);
  on_ranks(kWorld, [&](Communicator& real) {
    CorruptingCommunicator comm(real, real.rank() == trial.victim ? std::optional(flip) : std::nullopt);
    ScriptedModel model(comm, small_specs(trial.dtype), {.stage = trial.stage, .clip = 1.0, .max_skipped_steps = 100});
    for (int step = 0; step < steps; ++step) {
      model.train(step);
      const ReplicaCheck check = model.engine().states().compare_replicas();
      if (comm.rank() == 0) seen.checks.push_back(check);
      for (const Unit& unit : model.units()) {
        const GatheredUnit in_use = model.engine().use(unit.index, Use::kUntraced);
        const std::byte* data = in_use.data();
        auto& mine = bytes[static_cast<std::size_t>(step)][static_cast<std::size_t>(comm.rank())];
        mine.insert(mine.end(), data, data + unit.numel * static_cast<std::int64_t>(size_of(unit.dtype)));
      }
    }
    if (comm.rank() == trial.victim) {
      const std::scoped_lock lock(mutex);
      seen.flipped = comm.flipped();
    }
  });
  for (const auto& step : bytes) seen.same_parameters.push_back(step[0] == step[1] && step[1] == step[2]);
  return seen;
}

TEST(BitFlips, GatheredFlipsAreNamedAfterwards) {
  std::mt19937_64 random(3);
  int flipped = 0;
  for (int i = 0; i < num_flips(); ++i) {
    const Trial trial = draw(random, 3);
    const int units = static_cast<int>(make_units(small_specs(trial.dtype), {}).size()) - 1;  // trained units
    const int number = static_cast<int>(random() % static_cast<unsigned>(3 * units));
    const Seen seen = with_flip(trial, {.number = number, .random = trial.random, .high_half = trial.stage == 0}, 3);
    if (!seen.flipped) continue;  // only zeros were received
    ++flipped;
    const auto step = static_cast<std::size_t>(number / units);
    for (std::size_t before = 0; before < step; ++before) EXPECT_TRUE(seen.checks[before].same()) << name_of(trial);
    EXPECT_EQ(seen.checks[step].ranks, std::vector<int>{trial.victim}) << name_of(trial) << ", number " << number;
    for (std::size_t after = step; after < seen.checks.size(); ++after) {
      // Equal hashes mean equal bytes. Above stage 0, different hashes mean different parameters.
      if (seen.checks[after].same()) {
        EXPECT_TRUE(seen.same_parameters[after]) << name_of(trial);
      } else if (trial.stage > 0) {
        EXPECT_FALSE(seen.same_parameters[after]) << name_of(trial);
      }
    }
  }
  EXPECT_GT(flipped, num_flips() / 2);
}

// The next update overwrites the flip.
TEST(BitFlips, Stages1And2OverwriteThem) {
  for (const int stage : {1, 2}) {
    const Seen seen = with_flip({.stage = stage, .victim = 1}, {.number = 2, .random = 99}, 2);
    ASSERT_TRUE(seen.flipped);
    EXPECT_FALSE(seen.checks[0].same());
    EXPECT_TRUE(seen.checks[1].same()) << "parameters come from the shards again; only a gradient was wrong";
  }
}

// The flip is in an fp32 replica.
TEST(BitFlips, Stage0KeepsThemUntilSeen) {
  std::mt19937_64 random(4);
  for (int i = 0; i < num_flips(); ++i) {
    Trial trial = draw(random, 1);
    trial.dtype = DType::kFloat32;
    const Seen seen = with_flip(trial, {.number = 0, .random = trial.random, .high_half = true}, 5);
    ASSERT_TRUE(seen.flipped);
    for (const ReplicaCheck& check : seen.checks) EXPECT_EQ(check.ranks, std::vector<int>{trial.victim});
  }
}

// A limit of the comparison: every rank has the same wrong sum, so no comparison finds it.
TEST(BitFlips, SumFlipsReachEveryRank) {
  for (int stage = 0; stage <= 2; ++stage) {
    const Seen seen =
        with_flip({.stage = stage, .victim = 1},
                  {.operation = Operation::kReduceScatter, .number = 1, .random = 5, .high_half = true}, 2);
    ASSERT_TRUE(seen.flipped);
    for (const ReplicaCheck& check : seen.checks) EXPECT_TRUE(check.same());
    EXPECT_TRUE(seen.same_parameters.back());
  }
}

}  // namespace
}  // namespace zero
