// The bits of a pipeline over recipes. Any order of passes, optimizer, model, type, tier of states and number of lines
// gives the bits of stage 0 without a pipeline. These are losses, norms, weights and optimizer states. `./test.sh`
// takes a table in which each two levels of two factors meet, the full tier one for three (docs/decisions/0062). Only
// the full tier tries long lines: orders over more positions, in a table for two factors.
#include <algorithm>
#include <array>
#include <filesystem>
#include <iterator>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "zero/base/error/check.h"
#include "zero/torch/pipeline/attach_pipeline.h"

#include "tests/support/covering_table.h"
#include "tests/support/temporary_folder.h"
#include "tests/support/tier.h"
#include "tests/support/tried_rules.h"
#include "tests/torch/training_run.h"
#include "tests/train/tried_models.h"

namespace zero {
namespace {

using tests::TriedModel;

constexpr int kUpdates = 3;

struct TriedOrder {
  std::string_view name;
  PipelineOptions options;
  int sections;  // without lookups
};

// Orders of long lines follow the others.
constexpr int kShortOrders = 8;

const std::vector<TriedOrder>& orders() {
  static const std::vector<TriedOrder> all{
      {"1f1b_2", {.pipeline = 2}, 2},
      {"1f1b_3", {.pipeline = 3}, 3},
      {"deep_3", {.pipeline = 3, .depth = 1}, 3},
      {"gpipe_2", {.pipeline = 2, .schedule = PassOrder::kGpipe}, 2},
      {"interleaved_2", {.pipeline = 2, .sections = 4, .schedule = PassOrder::kInterleaved}, 4},
      {"zb_h1_3", {.pipeline = 3, .schedule = PassOrder::kZbH1}, 3},
      {"zb_h2_2", {.pipeline = 2, .schedule = PassOrder::kZbH2}, 2},
      {"zb_v_2", {.pipeline = 2, .schedule = PassOrder::kZbV}, 4},
      {"deep_4", {.pipeline = 4, .depth = 1}, 4},
      {"gpipe_4", {.pipeline = 4, .schedule = PassOrder::kGpipe}, 4},
      {"interleaved_4", {.pipeline = 4, .sections = 8, .schedule = PassOrder::kInterleaved}, 8},
      {"zb_h1_4", {.pipeline = 4, .schedule = PassOrder::kZbH1}, 4},
      {"zb_h2_3", {.pipeline = 3, .schedule = PassOrder::kZbH2}, 3},
      {"zb_v_3", {.pipeline = 3, .schedule = PassOrder::kZbV}, 6},
      {"zb_v_4", {.pipeline = 4, .schedule = PassOrder::kZbV}, 8}};
  return all;
}

// The parts of the small gpt2, llama and bert are operators; those of an LSTM are whole layers.
struct CutModel {
  TriedModel model;
  int most_sections;
};
const std::array kCutModels{
    CutModel{{"gpt2", "gpt2", tests::Reads::kText}, 8}, CutModel{{"llama", "llama", tests::Reads::kText}, 8},
    CutModel{{"lstm_lm", "lstm", tests::Reads::kText}, 3}, CutModel{{"bert", "bert", tests::Reads::kLabelledText}, 8},
    CutModel{{"mlp", "mlp", tests::Reads::kImages}, 2}};
constexpr std::array<std::string_view, 7> kRules{"momentum", "adamw", "adamw8bit", "lion", "lamb", "adafactor", "muon"};
constexpr std::array kTypes{DType::kFloat32, DType::kBFloat16, DType::kFloat16};
constexpr std::array<std::string_view, 7> kPlaces{"stage0", "stage1", "stage2", "stage3", "min", "host", "disk"};
constexpr std::array kCuts{Cut::kRange, Cut::kWhole, Cut::kHash, Cut::kWeighted};
constexpr std::array<std::string_view, 3> kGroups{"", "_groups", "_secondary"};
constexpr std::array kDataRanks{1, 2, 4};
struct Micros {
  std::string_view name;
  int count;
  Reduce reduce;
};
constexpr std::array kMicros{Micros{"one", 1, Reduce::kEach}, Micros{"four", 4, Reduce::kEach},
                             Micros{"four_last", 4, Reduce::kLast}};

// kResumed: a new process loads a checkpoint before the last update. kScale: as in tests/train/recipes.h.
enum Factor : std::size_t {
  kRule,
  kModel,
  kOrder,
  kPlace,
  kCut,
  kGroup,
  kType,
  kRanks,
  kMicro,
  kAverage,
  kResumed,
  kScale,
  kNumFactors
};
using Recipe = std::array<int, kNumFactors>;  // a level of each factor

template <typename Table>
const auto& level(const Table& table, const Recipe& recipe, Factor factor) {
  return table[static_cast<std::size_t>(recipe[factor])];
}

Recipe num_levels(int num_orders) {
  return {kRules.size(),
          kCutModels.size(),
          num_orders,
          kPlaces.size(),
          kCuts.size(),
          kGroups.size(),
          kTypes.size(),
          kDataRanks.size(),
          kMicros.size(),
          2,
          2,
          2};
}

int stage_of(const Recipe& recipe) {
  return std::min(recipe[kPlace], 3);  // the tiers and the min budget are those of stage 3
}

bool overflows(const Recipe& recipe) {
  return recipe[kScale] == 1;
}

bool is_possible(const Recipe& recipe) {
  const TriedOrder& order = level(orders(), recipe, kOrder);
  const Cut cut = level(kCuts, recipe, kCut);
  const std::string_view group = level(kGroups, recipe, kGroup);
  if (order.sections > level(kCutModels, recipe, kModel).most_sections) return false;
  if (order.options.schedule == PassOrder::kInterleaved && level(kMicros, recipe, kMicro).count == 1) return false;
  if (cut != Cut::kRange && (stage_of(recipe) == 0 || !group.empty())) return false;
  if (cut == Cut::kHash && (stage_of(recipe) < 3 || level(kRules, recipe, kRule) == "muon")) return false;
  if (!group.empty() && (level(kDataRanks, recipe, kRanks) != 4 || stage_of(recipe) == 0)) return false;
  if (group == "_secondary" && stage_of(recipe) < 3) return false;
  return !overflows(recipe) || level(kTypes, recipe, kType) == DType::kFloat16;
}

std::string text_of(const Recipe& recipe) {
  const std::string run =
      fmt::format("{}_{}_{}{}{}{}", level(kRules, recipe, kRule), level(kCutModels, recipe, kModel).model.name,
                  name_of(level(kTypes, recipe, kType)), overflows(recipe) ? "_overflowing" : "",
                  recipe[kAverage] == 1 ? "_ema" : "", recipe[kResumed] == 1 ? "_resumed" : "");
  const std::string place = fmt::format("{}_{}{}", level(kPlaces, recipe, kPlace), name_of(level(kCuts, recipe, kCut)),
                                        level(kGroups, recipe, kGroup));
  return fmt::format("{}_{}_{}_{}lines_{}", run, place, level(orders(), recipe, kOrder).name,
                     level(kDataRanks, recipe, kRanks), level(kMicros, recipe, kMicro).name);
}

std::vector<Recipe> pairs_of_short_lines() {
  return tests::covering_table<2>(num_levels(kShortOrders), is_possible);
}

std::vector<Recipe> pairs_of_long_lines() {
  const auto is_long = [](const Recipe& recipe) { return recipe[kOrder] >= kShortOrders && is_possible(recipe); };
  return tests::covering_table<2>(num_levels(static_cast<int>(orders().size())), is_long);
}

std::vector<Recipe> recipes() {
  std::vector<Recipe> table = pairs_of_short_lines();
  if (!in_full_tier()) return table;
  table = tests::covering_table<3>(num_levels(kShortOrders), is_possible, table);
  std::ranges::copy(pairs_of_long_lines(), std::back_inserter(table));
  return table;
}

OptimizerOptions rule_of(const Recipe& recipe) {
  const std::string_view name = level(kRules, recipe, kRule);
  const auto found = std::ranges::find(tried_rules(), name, &TriedRule::name);
  ZERO_CHECK(found != tried_rules().end(), "no rule {}", name);
  return found->options;
}

AttachOptions reference_of(const Recipe& recipe) {
  AttachOptions options{.stage = 0,
                        .optimizer = rule_of(recipe),
                        .clip = 0.5,
                        .reduce = level(kMicros, recipe, kMicro).reduce,
                        .accumulate = level(kMicros, recipe, kMicro).count,
                        .ema = recipe[kAverage] == 1 ? 0.9 : 0.0,
                        .dtype = level(kTypes, recipe, kType)};
  if (options.dtype == DType::kFloat16) options.loss_scale = LossScaleOptions::fixed(256);
  if (overflows(recipe)) options.loss_scale = LossScaleOptions{.value = 512, .growth_interval = kUpdates};
  return options;
}

AttachOptions options_of(const Recipe& recipe, const std::string& disk) {
  AttachOptions options = reference_of(recipe);
  const std::string_view place = level(kPlaces, recipe, kPlace);
  const std::string_view group = level(kGroups, recipe, kGroup);
  options.stage = stage_of(recipe);
  options.shards = level(kCuts, recipe, kCut);
  if (place == "min") options.device_memory = MemoryBudget::parse("min");
  if (group == "_groups") options.group = 2;
  if (group == "_secondary") options.secondary_group = 2;
  if (options.shards == Cut::kWeighted)
    for (int rank = 0; rank < level(kDataRanks, recipe, kRanks); ++rank) options.shard_weights.push_back(5 - rank);
  if (place == "host" || place == "disk") {
    options.offload.disk = {disk};
    TierFractions all;
    all[place == "host" ? Tier::kHost : Tier::kDisk] = 1;
    options.offload.fractions = {.parameter = all, .optimizer = all};
    // With kLast, micro-batches are first summed on this rank, so the gradient is whole and stays on the device.
    if (options.reduce != Reduce::kLast) options.offload.fractions.gradient = {.host = 1};
  }
  return options;
}

struct Step {
  std::optional<double> norm;  // only of a step that updates
  std::optional<double> loss_scale;
  bool operator==(const Step&) const = default;
};

// Results of the ranks of line 0. `states`: every saved state of every parameter, in full precision.
struct Left {
  std::vector<double> losses;
  std::vector<Step> steps;
  std::vector<torch::Tensor> states;
};

// The loss of one micro-batch. If the recipe overflows, that of the last line is too large in step -1.
torch::Tensor loss_of(Task& task, const Recipe& recipe, const torch::Tensor& factor, int step, int micro, int line) {
  const torch::Tensor loss = tests::tried_loss(task, level(kCutModels, recipe, kModel).model, step, micro, line);
  return loss.to(torch::kFloat) / level(kMicros, recipe, kMicro).count * factor;
}

torch::Tensor factor_of(const Recipe& recipe, int step, int line) {
  const bool is_large = step == -1 && line == level(kDataRanks, recipe, kRanks) - 1;
  return torch::full({}, is_large ? 0x1p20 : 1.0);
}

int first_step(const Recipe& recipe) {
  return overflows(recipe) ? -1 : 0;
}

Step step_of(const StepReport& report) {
  return {report.skipped ? std::nullopt : std::optional(report.grad_norm), report.loss_scale};
}

std::vector<torch::Tensor> states_of(Engine& engine) {
  std::vector<torch::Tensor> states;
  for (const ParamSpec& spec : engine.parameters())
    for (const std::string& state : engine.state_names(spec.name))
      states.push_back(engine.full_state(spec.name, state));
  return states;
}

std::vector<std::unique_ptr<Task>> tasks_of(const Recipe& recipe, int world) {
  std::vector<std::unique_ptr<Task>> tasks;
  for (int rank = 0; rank < world; ++rank)
    tasks.push_back(tests::make_tried_task(level(kCutModels, recipe, kModel).model));
  return tasks;
}

Left train_plain(const Recipe& recipe) {
  Left left;
  const int world = level(kDataRanks, recipe, kRanks);
  const auto tasks = tasks_of(recipe, world);
  tests::on_every_rank(world, [&](World& ranks) {
    Left mine;
    Task& task = *tasks[static_cast<std::size_t>(ranks.rank())];
    Engine engine = attach(task.module(), ranks, reference_of(recipe));
    for (int step = first_step(recipe); step < kUpdates; ++step) {
      const torch::Tensor factor = factor_of(recipe, step, ranks.rank());
      for (int micro = 0; micro < level(kMicros, recipe, kMicro).count; ++micro) {
        const torch::Tensor loss = loss_of(task, recipe, factor, step, micro, ranks.rank());
        mine.losses.push_back(loss.item<double>());
        engine.scaled(loss).backward();
      }
      mine.steps.push_back(step_of(engine.step(1e-2)));
    }
    mine.states = states_of(engine);
    if (ranks.rank() == 0) left = std::move(mine);
  });
  return left;
}

void take_steps(PipelineEngine& engine, Task& task, const Recipe& recipe, int line, int first, int end, Left& left) {
  for (int step = first; step < end; ++step) {
    const torch::Tensor factor = factor_of(recipe, step, line);
    const std::vector<double> losses =
        engine.passes([&](int micro) { return loss_of(task, recipe, factor, step, micro, line); });
    left.losses.insert(left.losses.end(), losses.begin(), losses.end());
    left.steps.push_back(step_of(engine.step(1e-2)));
  }
}

// The states come from the last checkpoint, which one rank without a pipeline loads.
Left train_in_sections(const Recipe& recipe, const std::filesystem::path& folder) {
  Left left;
  const PipelineOptions& pipeline = level(orders(), recipe, kOrder).options;
  const int lines = level(kDataRanks, recipe, kRanks), world = lines * pipeline.pipeline;
  const AttachOptions options = options_of(recipe, (folder / "disk").string());
  const auto tasks = tasks_of(recipe, world), second_tasks = tasks_of(recipe, world);
  tests::on_every_rank(world, [&](World& ranks) {
    Left mine;
    const auto rank = static_cast<std::size_t>(ranks.rank());
    const int line = ranks.rank() % lines;
    Task* task = tasks[rank].get();
    auto engine = std::make_optional(attach_pipeline(task->module(), ranks, options, pipeline));
    const int saved = recipe[kResumed] == 1 ? kUpdates - 1 : kUpdates;
    take_steps(*engine, *task, recipe, line, first_step(recipe), saved, mine);
    if (saved < kUpdates) {  // a new model, as in a new process
      engine->save(folder / "middle");
      engine.reset();
      task = second_tasks[rank].get();
      engine.emplace(attach_pipeline(task->module(), ranks, options, pipeline));
      const torch::Tensor factor = factor_of(recipe, saved, line);
      engine->prepare([&](int micro) { return loss_of(*task, recipe, factor, saved, micro, line); });
      engine->load(folder / "middle");
      take_steps(*engine, *task, recipe, line, saved, kUpdates, mine);
    }
    engine->save(folder / "end");
    engine.reset();
    if (ranks.rank() == world - lines) left = std::move(mine);
  });
  const auto whole = tasks_of(recipe, 1);
  tests::on_every_rank(1, [&](World& ranks) {
    Engine engine = attach(whole.front()->module(), ranks, reference_of(recipe));
    engine.load(folder / "end");
    left.states = states_of(engine);
  });
  return left;
}

class PipelineRecipesSlow : public ::testing::TestWithParam<Recipe> {};

TEST_P(PipelineRecipesSlow, HaveBitsOfStageZero) {
  const Recipe& recipe = GetParam();
  const TemporaryFolder folder;
  std::filesystem::create_directory(folder.path() / "disk");
  const Left expected = train_plain(recipe);
  const Left seen = train_in_sections(recipe, folder.path());
  ASSERT_EQ(expected.steps.size(), kUpdates + (overflows(recipe) ? 1U : 0U));
  EXPECT_EQ(expected.steps.front().norm.has_value(), !overflows(recipe));
  EXPECT_GT(expected.steps.back().norm.value_or(0), 0);
  EXPECT_EQ(seen.losses, expected.losses);
  EXPECT_EQ(seen.steps, expected.steps);
  EXPECT_GT(expected.states.size(), 0U);
  EXPECT_TRUE(tests::same_bits(seen.states, expected.states));
}

INSTANTIATE_TEST_SUITE_P(Recipes, PipelineRecipesSlow, ::testing::ValuesIn(recipes()),
                         [](const auto& info) { return text_of(info.param); });

// A table has every order with every optimizer, place, type and number of lines that are possible together.
// `num_models`: models with too few parts, added over the orders. `num_micros`: orders that need several micro-batches.
void expect_pairs(const std::vector<Recipe>& table, std::size_t num_orders, std::size_t num_models,
                  std::size_t num_micros) {
  for (std::size_t other = 0; other < kNumFactors; ++other) {
    if (other == kOrder) continue;
    std::set<std::pair<int, int>> seen;
    for (const Recipe& recipe : table) {
      EXPECT_TRUE(is_possible(recipe)) << text_of(recipe);
      seen.emplace(recipe[kOrder], recipe[other]);
    }
    const std::size_t impossible = other == kModel ? num_models : other == kMicro ? num_micros : 0;
    EXPECT_EQ(seen.size() + impossible, num_orders * static_cast<std::size_t>(num_levels(0)[other])) << other;
  }
}

// Lines of two or three have four sections in two orders and three sections in three.
TEST(PipelineRecipeTable, CoversPairs) {
  expect_pairs(pairs_of_short_lines(), kShortOrders, /*num_models=*/2 * 2 + 3, /*num_micros=*/1);
}

// Only the MLP has too few parts for three sections. The LSTM also has too few in the other six orders.
TEST(PipelineRecipeTable, CoversPairsOfLongLines) {
  expect_pairs(pairs_of_long_lines(), orders().size() - kShortOrders, /*num_models=*/1 + 6 * 2, /*num_micros=*/1);
}

}  // namespace
}  // namespace zero
