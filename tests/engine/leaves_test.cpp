// A step in leaves has the same bits for every number of ranks, stage, tier and time of reductions.
#include "zero/plan/units/leaves.h"

#include <array>
#include <bit>
#include <string>
#include <string_view>
#include <tuple>
#include <vector>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "zero/plan/units/estimate.h"

#include "tests/engine/leaf_steps.h"
#include "tests/engine/scripted_run.h"
#include "tests/support/covering_table.h"
#include "tests/support/fp32_states.h"
#include "tests/support/temporary_folder.h"
#include "tests/support/tier.h"
#include "tests/support/tried_rules.h"

namespace zero {
namespace {

constexpr int kSteps = 3;

struct LeafRun {
  std::vector<std::uint32_t> weights;
  std::vector<double> norms, losses;
  std::vector<EngineReport> reports;  // of each rank
  bool operator==(const LeafRun& other) const {
    return weights == other.weights && norms == other.norms && losses == other.losses;
  }
};

LeafRun train_leaves(int world, const std::vector<ParamSpec>& specs, const AttachOptions& options) {
  LeafRun run;
  run.reports.resize(static_cast<std::size_t>(world));
  on_ranks(world, [&](Communicator& comm) {
    ScriptedModel model(comm, specs, options);
    for (const StepReport& report : train_in_leaves(model, comm, options, 0, kSteps)) {
      if (comm.rank() != 0) continue;
      run.norms.push_back(report.grad_norm);
      run.losses.push_back(report.loss);
    }
    run.reports[static_cast<std::size_t>(comm.rank())] = model.engine().report();
    const auto bits = model.weight_bits();
    if (comm.rank() == 0) run.weights = bits;
  });
  return run;
}

std::string text_of(int world, const AttachOptions& options, DType dtype) {
  return fmt::format("{} ranks, stage {}{}, {}, reduce {}, {}", world, options.stage,
                     options.device_memory.kind == MemoryBudget::Kind::kMin ? " min" : "", name_of(dtype),
                     static_cast<int>(options.reduce), name_of(options.optimizer));
}

// Any optimizer, type, world, place of states, time of reductions and number of leaves, as levels of factors.
// `./test.sh` takes a table in which each two levels of two factors meet, the full tier one for three.
enum Factor : std::size_t { kRule, kWorld, kPlace, kReduce, kType, kCount, kAverage, kSum, kNumFactors };
using LeafRecipe = std::array<int, kNumFactors>;
constexpr std::array kWorlds{1, 2, 3, 4, 6, 8};
constexpr std::array<std::string_view, 10> kPlaces{"stage0", "stage1", "stage2", "stage3", "min",
                                                   "host",   "disk",   "whole",  "hash",   "weighted"};
constexpr std::array kReduces{Reduce::kAuto, Reduce::kEach, Reduce::kLast};
constexpr std::array<std::string_view, 3> kReduceNames{"auto", "each", "last"};
constexpr std::array kTypes{DType::kFloat32, DType::kBFloat16, DType::kFloat16};
constexpr std::array kCounts{8, 7, 6};

template <typename Table>
const auto& level(const Table& table, const LeafRecipe& recipe, Factor factor) {
  return table[static_cast<std::size_t>(recipe[factor])];
}

LeafRecipe num_levels() {
  return {static_cast<int>(kNumTriedRules),
          kWorlds.size(),
          kPlaces.size(),
          kReduces.size(),
          kTypes.size(),
          kCounts.size(),
          2,
          2};
}

bool is_possible(const LeafRecipe& recipe) {
  const int world = level(kWorlds, recipe, kWorld), count = level(kCounts, recipe, kCount);
  const bool has_each = std::has_single_bit(static_cast<unsigned>(world)) && count % world == 0;
  if (world > count || (level(kReduces, recipe, kReduce) == Reduce::kEach && !has_each)) return false;
  const bool is_muon = tried_rules()[static_cast<std::size_t>(recipe[kRule])].name == "muon";
  if (is_muon && level(kPlaces, recipe, kPlace) == "hash") return false;        // hashed blocks cut matrices
  return recipe[kSum] == 0 || level(kTypes, recipe, kType) != DType::kFloat32;  // fp32 sums need 16-bit gradients
}

std::string text_of(const LeafRecipe& recipe) {
  return fmt::format("{}{}_{}{}_{}_{}ranks_{}leaves_{}", tried_rules()[static_cast<std::size_t>(recipe[kRule])].name,
                     recipe[kAverage] == 1 ? "_ema" : "", name_of(level(kTypes, recipe, kType)),
                     recipe[kSum] == 1 ? "_fp32_sums" : "", level(kPlaces, recipe, kPlace),
                     level(kWorlds, recipe, kWorld), level(kCounts, recipe, kCount),
                     level(kReduceNames, recipe, kReduce));
}

AttachOptions options_of(const LeafRecipe& recipe, const std::string& disk) {
  AttachOptions options{.optimizer = tried_rules()[static_cast<std::size_t>(recipe[kRule])].options,
                        .clip = 0.5,
                        .reduce = level(kReduces, recipe, kReduce),
                        .leaves = level(kCounts, recipe, kCount),
                        .ema = recipe[kAverage] == 1 ? 0.9 : 0.0};
  if (recipe[kSum] == 1) options.reduce_dtype = DType::kFloat32;
  const int world = level(kWorlds, recipe, kWorld);
  const std::string_view place = level(kPlaces, recipe, kPlace);
  options.stage = place == "stage0" ? 0 : place == "stage1" ? 1 : place == "stage2" || place == "whole" ? 2 : 3;
  if (place == "min") options.device_memory = MemoryBudget::parse("min");
  if (place == "whole") options.shards = Cut::kWhole;
  if (place == "hash") options.shards = Cut::kHash;
  if (place == "weighted") {
    options.shards = Cut::kWeighted;
    for (int rank = 0; rank < world; ++rank) options.shard_weights.push_back(rank + 1);
  }
  if (place == "host" || place == "disk") {
    TierFractions all;
    all[place == "host" ? Tier::kHost : Tier::kDisk] = 1;
    options.offload.disk = {disk};
    options.offload.fractions = {.parameter = all, .optimizer = all};
    // With kLast the gradient is whole, and stays on the device.
    const bool is_each = Leaves(options.leaves, world, options.reduce).reduce() == Reduce::kEach;
    if (is_each) options.offload.fractions.gradient = all;
  }
  return options;
}

AttachOptions of_one_rank(const LeafRecipe& recipe) {
  AttachOptions options = options_of(recipe, "");
  options.stage = 0;
  options.reduce = Reduce::kAuto;
  options.device_memory = {};
  options.shards = Cut::kRange;
  options.shard_weights.clear();
  options.offload = {};
  return options;
}

class LeafRecipesSlow : public ::testing::TestWithParam<LeafRecipe> {};

TEST_P(LeafRecipesSlow, HaveBitsOfOneRank) {
  const LeafRecipe& recipe = GetParam();
  const TemporaryFolder folder;
  const std::vector<ParamSpec> specs = small_specs(level(kTypes, recipe, kType));
  const LeafRun one = train_leaves(1, specs, of_one_rank(recipe));
  EXPECT_GT(one.norms.back(), 0);
  EXPECT_EQ(train_leaves(level(kWorlds, recipe, kWorld), specs, options_of(recipe, folder.path().string())), one);
}

INSTANTIATE_TEST_SUITE_P(Recipes, LeafRecipesSlow, ::testing::ValuesIn([] {
                           const auto pairs = tests::covering_table<2>(num_levels(), is_possible);
                           return in_full_tier() ? tests::covering_table<3>(num_levels(), is_possible, pairs) : pairs;
                         }()),
                         [](const auto& info) { return text_of(info.param); });

TEST(Leaves, SmallWorldsKeepBits) {
  for (const DType dtype : {DType::kFloat32, DType::kBFloat16, DType::kFloat16}) {
    AttachOptions options{.stage = 3, .clip = 0.5, .leaves = 8};
    const LeafRun one = train_leaves(1, small_specs(dtype), options);
    for (const auto& [world, stage, reduce] :
         {std::tuple(1, 0, Reduce::kLast), std::tuple(2, 1, Reduce::kEach), std::tuple(2, 3, Reduce::kLast),
          std::tuple(3, 2, Reduce::kAuto), std::tuple(4, 0, Reduce::kEach)}) {
      options.stage = stage;
      options.reduce = reduce;
      EXPECT_EQ(train_leaves(world, small_specs(dtype), options), one) << text_of(world, options, dtype);
    }
  }
}

// Six leaves are no power of two: 4 + 2.
TEST(Leaves, AnyNumberOfLeavesKeepsBits) {
  for (const int count : {3, 6, 7}) {
    AttachOptions options{.stage = 2, .leaves = count};
    const LeafRun one = train_leaves(1, small_specs(), options);
    for (const int world : {2, 3}) EXPECT_EQ(train_leaves(world, small_specs(), options), one) << count << world;
  }
}

TEST(Leaves, MinBudgetAndTiersKeepBits) {
  const TemporaryFolder folder;
  AttachOptions options{.stage = 3, .clip = 0.5, .leaves = 8};
  const LeafRun one = train_leaves(1, small_specs(), options);
  for (const int world : {1, 2}) {
    AttachOptions placed = options;
    placed.device_memory = MemoryBudget::parse("min");
    EXPECT_EQ(train_leaves(world, small_specs(), placed), one);
    for (const Tier tier : {Tier::kHost, Tier::kDisk}) {
      TierFractions all;
      all[tier] = 1;
      placed.offload.fractions = {.parameter = all, .gradient = all, .optimizer = all};
      placed.offload.disk = {folder.path().string()};
      EXPECT_EQ(train_leaves(world, small_specs(), placed), one) << world << " ranks";
    }
  }
}

// Whole parameters, hashed blocks and ranges by weight: which rank owns an element decides no sum.
TEST(Leaves, CutsKeepBits) {
  AttachOptions options{.stage = 2, .clip = 0.5, .leaves = 8};
  const LeafRun one = train_leaves(1, small_specs(), options);
  for (const Cut cut : {Cut::kWhole, Cut::kHash, Cut::kWeighted}) {
    for (const auto& [world, stage] : {std::pair(2, 3), std::pair(3, 1), std::pair(4, 2)}) {
      AttachOptions divided = options;
      divided.stage = cut == Cut::kHash ? 3 : stage;
      divided.shards = cut;
      if (cut == Cut::kWeighted)
        for (int rank = 0; rank < world; ++rank) divided.shard_weights.push_back(rank + 1);
      EXPECT_EQ(train_leaves(world, small_specs(), divided), one) << world << " ranks, " << name_of(cut);
    }
  }
}

// Secondary parts of weights decide no sum. On 6 ranks some micro-batches are idle.
TEST(Leaves, SecondaryGroupsKeepBits) {
  for (const DType dtype : {DType::kFloat32, DType::kBFloat16}) {
    AttachOptions options{.stage = 3, .clip = 0.5, .leaves = 8};
    const LeafRun one = train_leaves(1, small_specs(dtype), options);
    options.device_memory = MemoryBudget::parse("min");
    for (const auto& [world, group] : {std::pair(4, 2), std::pair(6, 3), std::pair(8, 2)}) {
      options.secondary_group = group;
      const LeafRun seen = train_leaves(world, small_specs(dtype), options);
      EXPECT_EQ(seen, one) << text_of(world, options, dtype);
      for (const EngineReport& report : seen.reports) {
        EXPECT_GT(report.secondary.sent_bytes_per_step, 0);
        EXPECT_EQ(report.sent_bytes_per_step, report.planned_sent_bytes) << text_of(world, options, dtype);
      }
    }
  }
}

TEST(Leaves, Fp32SumsOf16BitsKeepBits) {
  AttachOptions options{.stage = 2, .leaves = 4, .reduce_dtype = DType::kFloat32};
  const LeafRun one = train_leaves(1, small_specs(DType::kBFloat16), options);
  for (const Reduce reduce : {Reduce::kEach, Reduce::kLast}) {
    options.reduce = reduce;
    for (options.stage = 0; options.stage < 4; ++options.stage)
      EXPECT_EQ(train_leaves(2, small_specs(DType::kBFloat16), options), one) << options.stage;
  }
}

TEST(Leaves, UpdateDividesByTheirNumber) {
  const AttachOptions mean{.stage = 2, .leaves = 1}, plain{.stage = 2};
  const LeafRun one = train_leaves(1, small_specs(), mean);
  const ScriptedRun same = scripted_run(1, small_specs(), plain, {.steps = kSteps});
  EXPECT_EQ(one.weights, same.weights);
  AttachOptions options{.stage = 2, .leaves = 4};
  const LeafRun four = train_leaves(1, small_specs(), options);
  EXPECT_EQ(four.losses[0], ((0.1 * 1 + 0.1 * 2) + (0.1 * 3 + 0.1 * 4)) / 4);
}

TEST(Leaves, RanksHoldAndSendPlannedBytes) {
  for (const DType dtype : {DType::kFloat32, DType::kBFloat16}) {
    for (const Reduce reduce : {Reduce::kEach, Reduce::kLast}) {
      for (int stage = 0; stage < 4; ++stage) {
        const AttachOptions options{.stage = stage, .reduce = reduce, .leaves = 16};
        Placement placement = place(stage, reduce, 8);
        placement.leaves = 16;
        const auto units = make_units(small_specs(dtype), {});
        const StateBytes held = state_bytes(units, 2, placement, fp32_states(2));
        for (const EngineReport& report : train_leaves(2, small_specs(dtype), options).reports) {
          EXPECT_EQ(report.sent_bytes_per_step, report.planned_sent_bytes) << text_of(2, options, dtype);
          EXPECT_EQ(report.memory.device[MemoryTag::kGradient], held.gradient) << text_of(2, options, dtype);
        }
      }
    }
  }
}

TEST(Leaves, OptionsOfRanksAreRefused) {
  const auto refusal = [](AttachOptions options, int world = 1) {
    options.leaves = 4;
    std::string said;
    for (const std::string& end :
         ends_of_ranks(world, [&](Communicator& comm) { const ScriptedModel model(comm, small_specs(), options); }))
      said = end;
    return said;
  };
  const auto says = [](const std::string& text, const std::string& part) {
    return text.starts_with("train.leaves = 4") && text.find(part) != std::string::npos;
  };
  EXPECT_TRUE(says(refusal({.delayed_update = true}), "zero.delayed_update"));
  EXPECT_TRUE(says(refusal({.group = 1}, 2), "zero.group"));
  EXPECT_TRUE(says(refusal({.wire = {.gather = WireCodec::kInt8}}, 2), "comm.gather_wire"));
  EXPECT_TRUE(says(refusal({.local = LocalSteps{}}, 2), "sync.mode"));
  EXPECT_TRUE(says(refusal({.accumulate = 3}), "train.accumulate is 3"));
  EXPECT_TRUE(says(refusal({.reduce = Reduce::kEach}, 3), "train.reduce"));
}

TEST(Leaves, RanksWithOtherLeavesAreNamed) {
  const auto ends = ends_of_ranks(2, [](Communicator& comm) {
    const ScriptedModel model(comm, small_specs(), {.leaves = comm.rank() == 0 ? 2 : 4});
  });
  for (const std::string& end : ends)
    EXPECT_NE(end.find("rank 1: differs from rank 0's: leaves = 4, not 2"), std::string::npos) << end;
}

TEST(Leaves, ShortStepsAreRefused) {
  on_ranks(1, [](Communicator& comm) {
    ScriptedModel model(comm, small_specs(), {.leaves = 4});
    model.forward(model.all_units());
    model.backward(model.all_units(), 0, 0);
    EXPECT_THROW(model.engine().step(0.01, {.fewer_micro_batches = true}), ConfigError);
    EXPECT_THROW(model.engine().step(0.01), ConfigError);
  });
}

}  // namespace
}  // namespace zero
