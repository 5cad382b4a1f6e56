#include "zero/plan/placement/best_placement.h"

#include <limits>
#include <regex>

#include <fmt/format.h>
#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include "zero/base/error/error.h"
#include "zero/base/text/bytes.h"
#include "zero/plan/placement/placement_programme.h"
#include "zero/plan/units/estimate.h"

#include "tests/plan/gpt_like.h"
#include "tests/plan/one_unit.h"
#include "tests/plan/random_step_model.h"
#include "tests/support/fp32_states.h"
#include "tests/support/message_of.h"

namespace zero {
namespace {

constexpr std::int64_t kGib = std::int64_t{1} << 30;

StepModel gpt2_model(int stage, DType dtype = DType::kBFloat16) {
  return {.units = gpt_units({.layers = 12, .width = 768, .vocab = 50304, .context = 1024, .dtype = dtype}),
          .world = 2,
          .placement = place(stage, Reduce::kAuto, 1),
          .rates = {.link_up = 10e9,
                    .link_down = 10e9,
                    .requests = {.disk = {.read = 2e9, .write = 1e9}},
                    .update_numel = 1e9},
          .profile = {.forward_seconds = 0.2, .backward_seconds = 0.4}};
}

std::int64_t bytes_on(const StepModel& model, const std::vector<UnitTiers>& tiers, Tier tier) {
  Placement placement = model.placement;
  placement.tiers = tiers;
  return state_bytes(model.units, model.world, placement, model.optimizer, tier).total();
}

std::int64_t all_bytes(const StepModel& model) {
  return state_bytes(model.units, model.world, model.placement, model.optimizer).total();
}

TierSplit sum(const std::vector<UnitTiers>& tiers, TierSplit UnitTiers::*state) {
  TierSplit sum;
  for (const UnitTiers& unit : tiers) {
    sum.device += (unit.*state).device;
    sum.host += (unit.*state).host;
    sum.disk += (unit.*state).disk;
  }
  return sum;
}

void expect_within(const StepModel& model, const std::vector<UnitTiers>& tiers, const TierBudgets& budgets) {
  EXPECT_LE(bytes_on(model, tiers, Tier::kDevice), budgets.device);
  EXPECT_LE(bytes_on(model, tiers, Tier::kHost), budgets.host);
  EXPECT_LE(bytes_on(model, tiers, Tier::kDisk), budgets.disk);
}

TEST(BestPlacement, FittingStatesStayOnDevice) {
  for (int stage = 0; stage <= 3; ++stage) {
    const StepModel model = gpt2_model(stage);
    const TierBudgets budgets{.device = all_bytes(model), .host = kGib, .disk = kGib};
    for (const UnitTiers& unit : best_placement(model, budgets).tiers) {
      EXPECT_TRUE(unit.parameter.on_device() && unit.gradient.on_device() && unit.optimizer.on_device()) << stage;
    }
  }
}

TEST(BestPlacement, UsesAndKeepsEveryBudget) {
  for (int stage = 0; stage <= 3; ++stage) {
    const StepModel model = gpt2_model(stage);
    const std::int64_t movable_and_more = all_bytes(model);
    const TierBudgets budgets{
        .device = movable_and_more * 6 / 10, .host = movable_and_more * 3 / 10, .disk = movable_and_more * 3 / 10};
    const BestPlacement best = best_placement(model, budgets);
    expect_within(model, best.tiers, budgets);
    // The faster tiers are full up to one or two blocks of each state.
    EXPECT_GT(bytes_on(model, best.tiers, Tier::kDevice), budgets.device - (1 << 20)) << stage;
    EXPECT_GT(bytes_on(model, best.tiers, Tier::kHost), budgets.host - (1 << 20)) << stage;
  }
}

TEST(BestPlacement, UsesSlowerDiskLast) {
  const StepModel model = gpt2_model(2);
  const std::int64_t half = all_bytes(model) / 2;
  const BestPlacement best = best_placement(model, {.device = half, .host = half + kGib / 64, .disk = kGib * 100});
  EXPECT_EQ(bytes_on(model, best.tiers, Tier::kDisk), 0);
  // If neither tier costs anything, the placement also uses the host first.
  StepModel free = model;
  free.rates = {};
  const BestPlacement any = best_placement(free, {.device = half, .host = half + kGib / 64, .disk = kGib * 100});
  EXPECT_EQ(bytes_on(free, any.tiers, Tier::kDisk), 0);
}

TEST(BestPlacement, MomentsLeaveFirstLikeZeroOffload) {
  // The device has room for parameters and gradients: 2 + 2 / N bytes each. Every state on the host costs 4 bytes a
  // parameter over the link.
  StepModel model = gpt2_model(2);
  model.profile = {};  // no transfer overlaps with computation
  model.rates.update_numel = 0;
  const StateBytes bytes = state_bytes(model.units, model.world, model.placement, model.optimizer);
  const BestPlacement best =
      best_placement(model, {.device = bytes.parameter + bytes.gradient, .host = kGib * 10, .disk = 0});
  EXPECT_EQ(sum(best.tiers, &UnitTiers::parameter).host, 0);
  EXPECT_EQ(sum(best.tiers, &UnitTiers::gradient).host, 0);
  EXPECT_EQ(sum(best.tiers, &UnitTiers::optimizer).device, 0);
}

TEST(BestPlacement, WholeStatesNeverLeaveTheDevice) {
  for (int stage = 0; stage <= 3; ++stage) {
    const StepModel model = gpt2_model(stage, DType::kFloat32);
    const StateBytes bytes = state_bytes(model.units, model.world, model.placement, model.optimizer);
    const std::int64_t fixed = (stage < 3 ? bytes.parameter : 0) + (stage < 2 ? bytes.gradient : 0);
    const BestPlacement best = best_placement(model, {.device = fixed, .host = 0, .disk = kGib * 20});
    EXPECT_EQ(sum(best.tiers, &UnitTiers::parameter).disk > 0, stage >= 3);
    EXPECT_EQ(sum(best.tiers, &UnitTiers::gradient).disk > 0, stage >= 2);
    EXPECT_EQ(sum(best.tiers, &UnitTiers::optimizer).device, 0);
  }
}

TEST(BestPlacement, WhatHidesBehindComputeGoesFirst) {
  // The backward pass has time to offload gradients and to fetch parameters. The update has none, and the link bounds
  // it.
  StepModel model = gpt2_model(3);
  model.rates.update_numel = 0;
  model.profile = {.forward_seconds = 100, .backward_seconds = 100};
  const std::int64_t all = all_bytes(model);
  const BestPlacement best = best_placement(model, {.device = all * 15 / 16, .host = all, .disk = 0});
  // If a parameter and its gradient move with their moments, the update sends no byte over the link.
  EXPECT_NEAR(best.least_seconds, 200, 1e-6);
  EXPECT_NEAR(best.predicted.total(), 200, 0.01);
}

TEST(BestPlacement, HostAndDeviceUpdateTogether) {
  // The device has its own cores and is three times as fast as the host, and the link costs nothing. The host then
  // makes a quarter of the update.
  StepModel model = gpt2_model(2);
  model.rates = {.update_numel = 1e9, .device_update_numel = 3e9};
  const BestPlacement best = best_placement(model, {.device = kGib * 10, .host = kGib * 10, .disk = 0});
  const TierSplit optimizer = sum(best.tiers, &UnitTiers::optimizer);
  EXPECT_NEAR(static_cast<double>(optimizer.host), 0.25 * static_cast<double>(optimizer.numel()), 100 * kBlockNumel);
}

// Plain SGD has no moments, so only gradients and parameters can move.
TEST(BestPlacement, PlainSgdMovesNoMoments) {
  StepModel model = gpt2_model(3, DType::kFloat32);
  model.optimizer = fp32_states(0);
  const std::int64_t all = all_bytes(model);
  const TierBudgets budgets{.device = all / 4, .host = all / 2, .disk = all / 2};
  const BestPlacement best = best_placement(model, budgets);
  expect_within(model, best.tiers, budgets);
  EXPECT_EQ(sum(best.tiers, &UnitTiers::optimizer).disk, 0) << "there are no moments to put on disk";
}

TEST(BestPlacement, SameProblemHasSameAnswer) {
  const StepModel model = gpt2_model(3);
  const std::int64_t all = all_bytes(model);
  const TierBudgets budgets{.device = all / 3, .host = all / 3, .disk = all / 2};
  const BestPlacement first = best_placement(model, budgets);
  const BestPlacement second = best_placement(model, budgets);
  EXPECT_EQ(first.tiers, second.tiers);
  EXPECT_EQ(first.predicted.total(), second.predicted.total());
}

// Ten thousand units take no longer than ten.
TEST(BestPlacement, ManyUnitsCostNoMoreWork) {
  StepModel model = gpt2_model(3);
  model.units.clear();
  for (int i = 0; i < 10000; ++i) model.units.push_back(one_unit(1000 + 7 * i, DType::kBFloat16, i, i % 9 != 0));
  const std::int64_t all = all_bytes(model);
  const TierBudgets budgets{.device = all / 3, .host = all / 3, .disk = all};
  expect_within(model, best_placement(model, budgets).tiers, budgets);
}

TEST(BestPlacement, NoUnitsNeedNothing) {
  StepModel model = gpt2_model(3);
  model.units.clear();
  const BestPlacement best = best_placement(model, {});
  EXPECT_TRUE(best.tiers.empty());
  EXPECT_DOUBLE_EQ(best.predicted.total(), 0.6);
}

// ---- budgets that hold too little ---------------------------------------------------------------------------------

struct Growth {
  std::string option;
  std::int64_t by = 0;
  std::int64_t to = 0;
};

// Parses "raise zero.disk_memory by 12 B (12 B), so states get 34 B there".
std::vector<Growth> growths(const std::string& message) {
  static const std::regex kPattern(R"((zero\.\w+) by (\d+) B \([^)]*\), so states get (\d+) B)");
  std::vector<Growth> found;
  for (std::sregex_iterator match(message.begin(), message.end(), kPattern), end; match != end; ++match)
    found.push_back({(*match)[1], std::stoll((*match)[2]), std::stoll((*match)[3])});
  return found;
}

TierBudgets grown(TierBudgets budgets, const Growth& growth) {
  (growth.option == "zero.disk_memory"   ? budgets.disk
   : growth.option == "zero.host_memory" ? budgets.host
                                         : budgets.device) = growth.to;
  return budgets;
}

std::string refusal(const StepModel& model, const TierBudgets& budgets) {
  try {
    best_placement(model, budgets);
  } catch (const ConfigError& error) {
    EXPECT_EQ(error.key(), "zero.placement");
    return error.what();
  }
  return "";
}

TEST(BestPlacement, RefusalNamesSufficientBudgets) {
  const StepModel model = gpt2_model(3);
  const std::int64_t all = all_bytes(model);
  const TierBudgets budgets{.device = all / 4, .host = all / 4, .disk = all / 4};
  const std::string message = refusal(model, budgets);
  const std::int64_t lacking = all - 3 * (all / 4);
  EXPECT_NE(message.find("have " + std::to_string(lacking) + " B too little room"), std::string::npos) << message;
  const std::vector<Growth> ways = growths(message);
  ASSERT_EQ(ways.size(), 3u) << message;
  EXPECT_EQ(ways[0].option, "zero.disk_memory");
  EXPECT_EQ(ways[1].option, "zero.host_memory");
  EXPECT_EQ(ways[2].option, "zero.device_memory");
  for (const Growth& way : ways) {
    EXPECT_GE(way.by, lacking);
    EXPECT_LE(way.by, lacking + all / 100) << "rounding takes little";
    EXPECT_EQ(way.to, all / 4 + way.by);
    expect_within(model, best_placement(model, grown(budgets, way)).tiers, grown(budgets, way));
    EXPECT_NE(refusal(model, grown(budgets, {way.option, 0, all / 4 + lacking - 1})), "") << "one byte is missing";
    const double seconds = PlacementProgramme(model).solve(grown(budgets, way))->seconds;
    const std::string cost = fmt::format("{} B there ({{}} of {})", way.to, format_seconds(seconds));
    EXPECT_NE(message.find(fmt::format(fmt::runtime(cost), "a step")), message.npos) << message;
    StepModel unknown = model;
    unknown.profile = {};
    EXPECT_NE(refusal(unknown, budgets).find("there (transfers and updates of "), message.npos);
  }
}

// Each array of each unit takes whole pages of a disk. These arrays are as short as a page.
TEST(BestPlacement, RefusalCountsPagesOfCodes) {
  StepModel eight_bit{.placement = place(3, Reduce::kAuto, 1)};
  eight_bit.optimizer.states = {{.name = "exp_avg", .code = StateCode::kSigned8},
                                {.name = "exp_avg_sq", .code = StateCode::kUnsigned8}};
  StepModel delayed{.placement = place(3, Reduce::kAuto, 1, /*delayed_update=*/true)};
  for (StepModel* model : {&eight_bit, &delayed}) {
    for (int i = 0; i < 200; ++i) model->units.push_back(one_unit(1025, DType::kFloat32, i));
    const TierBudgets budgets{.device = all_bytes(*model) / 32, .host = 0, .disk = kGib / 1024};
    const std::vector<Growth> ways = growths(refusal(*model, budgets));
    ASSERT_FALSE(ways.empty());
    EXPECT_EQ(ways[0].option, "zero.disk_memory");
    expect_within(*model, best_placement(*model, grown(budgets, ways[0])).tiers, grown(budgets, ways[0]));
  }
}

// The message names the bytes to free for all ranks of the machine.
TEST(BestPlacement, FullDiskErrorCountsAllRanks) {
  const StepModel model = gpt2_model(3);
  const std::int64_t all = all_bytes(model), free_bytes = all / 2;
  const FreeDisk disk{.folders = "/nvme0", .ranks = 3};
  const TierBudgets budgets{.device = all / 2, .host = 0, .disk = disk.share(free_bytes)};
  const std::string message = message_of<ConfigError>([&] { best_placement(model, budgets, disk); });
  const std::regex words(
      "zero.disk /nvme0: a rank may take ([0-9]+) B there .* divided among 3 ranks\\) and needs "
      "([0-9]+) B: free ([0-9]+) B more there");
  std::smatch said;
  ASSERT_TRUE(std::regex_search(message, said, words)) << message;
  EXPECT_EQ(std::stoll(said[1]), budgets.disk);
  const TierBudgets enough{.device = all / 2, .host = 0, .disk = disk.share(free_bytes + std::stoll(said[3]))};
  EXPECT_GE(enough.disk, std::stoll(said[2]));
  expect_within(model, best_placement(model, enough, disk).tiers, enough);
}

// The device is too small for the gathered units.
TEST(BestPlacement, TooSmallDeviceShowsPositiveSizes) {
  const std::string message = refusal(gpt2_model(3), {-1000, kGib, 100 * kGib});
  EXPECT_NE(message.find("leave the device 1000 B short"), std::string::npos) << message;
  EXPECT_EQ(message.find('-' + std::string("1000")), std::string::npos) << message;
}

// If whole states do not fit, only a larger device helps.
TEST(BestPlacement, WholeStatesNeedTheDevice) {
  const StepModel model = gpt2_model(1);
  const StateBytes bytes = state_bytes(model.units, model.world, model.placement, model.optimizer);
  const std::int64_t fixed = bytes.parameter + bytes.gradient;
  const TierBudgets budgets{.device = fixed - 10, .host = 100 * kGib, .disk = 100 * kGib};
  const std::string message = refusal(model, budgets);
  EXPECT_NE(message.find("the device, which lacks 10 B"), std::string::npos) << message;
  const std::vector<Growth> ways = growths(message);
  ASSERT_EQ(ways.size(), 1u) << message;
  EXPECT_EQ(ways[0].option, "zero.device_memory");
  EXPECT_EQ(ways[0].to, fixed);
  EXPECT_EQ(refusal(model, grown(budgets, ways[0])), "");
}

TEST(BestPlacement, ReportsNarrowShortageForBlocks) {
  // The unit is a single block, which is never split. Each tier has room for only half of its states.
  const StepModel model{.units = {one_unit(4096, DType::kFloat32)}, .placement = place(3, Reduce::kAuto, 1)};
  const std::string message = refusal(model, {.device = 16 * 2048, .host = 16 * 2048, .disk = 0});
  EXPECT_NE(message.find("whole blocks and pages"), std::string::npos) << message;
  EXPECT_NE(message.find("set zero.disk to a disk with room for"), std::string::npos) << message;
  EXPECT_NE(message.find(", or raise zero.host_memory by"), std::string::npos) << message;
}

// ---- against everything there is ----------------------------------------------------------------------------------

std::vector<TierSplit> splits_at(std::int64_t numel, int steps) {
  std::vector<TierSplit> splits;
  for (int device = 0; device <= steps; ++device) {
    for (int host = 0; device + host <= steps; ++host)
      splits.push_back({numel * device / steps, numel * host / steps, numel * (steps - device - host) / steps});
  }
  return splits;
}

// The shortest step of all placements with fractions k / steps that are within the budgets.
class BruteForce {
 public:
  BruteForce(const StepModel& model, const TierBudgets& budgets, int steps)
      : model_(model), budgets_(budgets), steps_(steps), tiers_(model.units.size()) {
    for (std::size_t i = 0; i < tiers_.size(); ++i) {
      const std::int64_t shard = model.units[i].numel / model.world;
      const auto held = [&](bool sharded) { return TierSplit{.device = sharded ? shard : model.units[i].numel}; };
      tiers_[i].parameter = held(model.placement.parameter_sharded);
      if (!model.units[i].trainable) continue;
      tiers_[i].gradient = held(model.placement.gradient_sharded);
      tiers_[i].optimizer = held(model.placement.optimizer_sharded);
      add(&tiers_[i].gradient, model.placement.gradient_sharded);
      add(&tiers_[i].optimizer, true);
    }
    for (UnitTiers& unit : tiers_) add(&unit.parameter, model.placement.parameter_sharded);
    visit(0);
  }
  double seconds() const { return best_; }
  int num_feasible() const { return num_feasible_; }

 private:
  void add(TierSplit* split, bool moves) {
    if (moves) choices_.push_back(split);
  }
  void visit(std::size_t choice) {
    if (choice < choices_.size()) {
      for (const TierSplit& split : splits_at(choices_[choice]->numel(), steps_)) {
        *choices_[choice] = split;
        visit(choice + 1);
      }
      *choices_[choice] = {.device = choices_[choice]->numel()};
      return;
    }
    if (bytes_on(model_, tiers_, Tier::kDevice) > budgets_.device ||
        bytes_on(model_, tiers_, Tier::kHost) > budgets_.host || bytes_on(model_, tiers_, Tier::kDisk) > budgets_.disk)
      return;
    ++num_feasible_;
    best_ = std::min(best_, predict(model_, tiers_).total());
  }

  const StepModel& model_;
  TierBudgets budgets_;
  int steps_;
  std::vector<UnitTiers> tiers_;
  std::vector<TierSplit*> choices_;
  double best_ = std::numeric_limits<double>::infinity();
  int num_feasible_ = 0;
};

// Extra seconds for `num_blocks` blocks on disk instead of on the device, if no transfer overlaps.
double block_seconds(const StepModel& model, int num_blocks) {
  StepModel one = model;
  one.units = {one_unit(kBlockNumel * num_blocks * model.world, DType::kFloat32)};
  one.profile = {};
  const TierSplit away{.disk = kBlockNumel * num_blocks};
  double seconds = 0;
  for (const auto& phase : predict(one, {{away, away, away}}).busy) {
    for (const double busy : phase) seconds += busy;
    seconds -= phase[static_cast<std::size_t>(requests_of(Tier::kDisk))];  // at most the disk reads and writes together
  }
  // If states are on different tiers, all blocks cross the link once more in each direction.
  if (model.rates.link_up > 0) seconds += 16.0 * kBlockNumel * num_blocks / model.rates.link_up;
  if (model.rates.link_down > 0) seconds += 16.0 * kBlockNumel * num_blocks / model.rates.link_down;
  return seconds;
}

struct GridCase {
  int stage;
  std::vector<std::int64_t> blocks;  // of each unit
  int steps;
  int accumulate = 1;
};

void expect_no_better_on_the_grid(const GridCase& grid, DType dtype, const TierBudgets& parts, const TierRates& rates,
                                  double compute) {
  StepModel model{.placement = place(grid.stage, Reduce::kAuto, grid.accumulate), .rates = rates};
  for (std::size_t i = 0; i < grid.blocks.size(); ++i)
    model.units.push_back(one_unit(grid.blocks[i] * kBlockNumel, dtype, static_cast<int>(i)));
  const std::int64_t all = all_bytes(model);
  const TierBudgets budgets{
      .device = all * parts.device / 100, .host = all * parts.host / 100, .disk = all * parts.disk / 100};
  model.profile = {.forward_seconds = compute, .backward_seconds = 2 * compute};
  const BruteForce brute_force(model, budgets, grid.steps);
  ASSERT_GT(brute_force.num_feasible(), 0);
  const BestPlacement best = best_placement(model, budgets);
  expect_within(model, best.tiers, budgets);
  EXPECT_LE(best.least_seconds, brute_force.seconds() * (1 + 1e-6));
  EXPECT_LE(best.predicted.total(), brute_force.seconds() + block_seconds(model, 4));
  EXPECT_GE(best.predicted.total(), best.least_seconds * (1 - 1e-6));
}

TEST(BestPlacementSlow, NoGridPlacementIsFaster) {
  const TierRates slow_disk{
      .link_up = 8e9, .link_down = 6e9, .requests = {.disk = {.read = 2e9, .write = 1e9}}, .update_numel = 1e9};
  const TierRates slow_link{
      .link_up = 1e9, .link_down = 1e9, .requests = {.disk = {.read = 8e9, .write = 8e9}}, .update_numel = 1e9};
  const TierRates two_ways{.link_up = 8e9,
                           .link_down = 6e9,
                           .requests = {.disk = {.read = 2e9, .write = 1e9, .share = 0.5}},
                           .update_numel = 1e9};
  const TierRates fast_device{.link_up = 5e9,
                              .link_down = 5e9,
                              .requests = {.disk = {.read = 2e9, .write = 1e9, .share = 0.8}},
                              .update_numel = 1e9,
                              .device_update_numel = 2e9};
  for (const GridCase& grid : {GridCase{1, {64, 48, 16}, 4}, GridCase{2, {64, 48}, 4}, GridCase{2, {64, 48}, 4, 3},
                               GridCase{3, {64}, 8}, GridCase{3, {64, 48}, 2, 2}}) {
    for (const DType dtype : {DType::kFloat32, DType::kBFloat16}) {
      for (const TierRates& rates : {slow_disk, two_ways, slow_link, fast_device}) {
        for (const double compute : {0.0, 0.0005}) {
          SCOPED_TRACE(::testing::Message() << "stage " << grid.stage << " " << name_of(dtype) << " accumulate "
                                            << grid.accumulate << " link " << rates.link_up << " share "
                                            << rates.requests.disk.share << " compute " << compute);
          expect_no_better_on_the_grid(grid, dtype, {70, 25, 60}, rates, compute);
        }
      }
    }
  }
}

// ---- whatever is asked ----------------------------------------------------------------------------------------------

void check_split(const TierSplit& split, std::int64_t numel) {
  RC_ASSERT(split.numel() == numel);
  for (const Tier tier : kAllTiers) {
    RC_ASSERT(split.numel(tier) >= 0);
    RC_ASSERT(split.begin(tier) % kBlockNumel == 0 || split.begin(tier) == numel);
  }
}

RC_GTEST_PROP(BestPlacement, KeepsBudgetsOrNamesSufficientOnes, ()) {
  const StepModel model = random_step_model();
  const TierBudgets budgets = random_budgets(all_bytes(model));
  BestPlacement best;
  try {
    best = best_placement(model, budgets);
  } catch (const ConfigError& error) {
    const std::vector<Growth> ways = growths(error.what());
    RC_ASSERT(!ways.empty());
    for (const Growth& way : ways) {
      RC_ASSERT(way.by > 0);
      best_placement(model, grown(budgets, way));
    }
    return;
  }
  RC_ASSERT(bytes_on(model, best.tiers, Tier::kDevice) <= budgets.device);
  RC_ASSERT(bytes_on(model, best.tiers, Tier::kHost) <= budgets.host);
  RC_ASSERT(bytes_on(model, best.tiers, Tier::kDisk) <= budgets.disk);
  for (const Unit& unit : model.units) {
    const UnitTiers& tiers = best.tiers[static_cast<std::size_t>(unit.index)];
    const UnitTiers held = tiers_of(model.placement, unit, model.world);
    check_split(tiers.parameter, held.parameter.numel());
    check_split(tiers.gradient, held.gradient.numel());
    check_split(tiers.optimizer, held.optimizer.numel());
    RC_ASSERT(model.placement.parameter_sharded || tiers.parameter.on_device());
    RC_ASSERT(model.placement.gradient_sharded || tiers.gradient.on_device());
  }
  RC_ASSERT(best.predicted.total() == predict(model, best.tiers).total());
  RC_ASSERT(best.predicted.total() >= best.least_seconds * (1 - 1e-6) - 1e-12);
}

RC_GTEST_PROP(BestPlacement, ALargerBudgetIsNeverSlower, ()) {
  const StepModel model = random_step_model();
  const std::int64_t all = all_bytes(model);
  TierBudgets budgets = random_budgets(all);
  budgets.disk += 2 * all + (1 << 20);
  budgets.device = std::max(budgets.device, all / 2);
  const auto least_seconds = [&](const TierBudgets& of) {
    try {
      return best_placement(model, of).least_seconds;
    } catch (const ConfigError&) {  // whole states do not fit
      return std::numeric_limits<double>::infinity();
    }
  };
  const double before = least_seconds(budgets);
  const auto tier = *rc::gen::element(&TierBudgets::device, &TierBudgets::host, &TierBudgets::disk);
  budgets.*tier += *rc::gen::inRange<std::int64_t>(0, all);
  const double after = least_seconds(budgets);
  RC_ASSERT(after <= before * (1 + 1e-6));
}

}  // namespace
}  // namespace zero
