// Law 2 over recipes (recipes.h): any optimizer, model and type, averaged or not, gives the bits of stage 0 wherever
// its states are. This also holds if the run is resumed midway, or if an fp16 gradient overflows.
#include <array>
#include <optional>
#include <set>
#include <vector>

#include <gtest/gtest.h>

#include "app/train/tasks/model_kind.h"
#include "tests/support/temporary_folder.h"
#include "tests/torch/training_run.h"
#include "tests/train/recipes.h"

namespace zero {
namespace {

using namespace tests;

constexpr int kUpdates = 3;

AttachOptions options_of(const Recipe& recipe, const std::string& disk) {
  AttachOptions options{.stage = 3,
                        .optimizer = rule_of(recipe).options,
                        .clip = 0.5,
                        .reduce = micro_of(recipe) == "last" ? Reduce::kLast : Reduce::kEach,
                        .accumulate = micro_of(recipe) == "one" ? 1 : 2,
                        .ema = recipe[kAverage] == 1 ? 0.9 : 0.0,
                        .dtype = type_of(recipe)};
  if (options.dtype == DType::kFloat16) options.loss_scale = LossScaleOptions::fixed(256);
  if (has_dynamic_scale(recipe)) options.loss_scale = LossScaleOptions{.value = 512, .growth_interval = kUpdates};
  if (recipe[kSum] == 1) options.reduce_dtype = DType::kFloat32;
  options.threads = num_threads(recipe);
  const std::string_view place = place_of(recipe);
  if (place == "stage1") options.stage = 1;
  if (place == "stage2") options.stage = 2;
  if (place == "weighted") {
    options.shards = Cut::kWeighted;
    for (int rank = 0; rank < num_ranks(recipe); ++rank) options.shard_weights.push_back(kMostRanks - rank);
  }
  if (place == "min") options.device_memory = MemoryBudget::parse("min");
  if (place == "offloaded") {
    options.offload.disk = {disk};
    options.offload.fractions = {.parameter = {.disk = 0.5}, .optimizer = {.host = 0.3, .disk = 0.7}};
    // With kLast, micro-batches are first summed on this rank, so the gradient is whole and stays on the device.
    if (options.reduce != Reduce::kLast) options.offload.fractions.gradient = {.host = 1};
  }
  return options;
}

AttachOptions reference_of(const Recipe& recipe) {
  AttachOptions options = options_of(recipe, "");
  options.stage = 0;
  options.shards = Cut::kRange;
  options.shard_weights.clear();
  options.device_memory = {};
  options.offload = {};
  options.threads = 1;
  return options;
}

struct Step {
  std::optional<double> norm;  // only of a step that updates
  std::optional<double> loss_scale;
  bool operator==(const Step&) const = default;
};

// Results after kUpdates updates. On rank 0 they hold each step's report, the loss scale of the next step, and each
// saved state of every parameter in full precision.
struct Left {
  std::vector<Step> steps;
  std::optional<double> loss_scale;
  std::vector<torch::Tensor> states;
};

// With a dynamic scale there is a step -1, in which the last rank's loss is so large that gradients overflow in fp16.
void take_updates(Engine& engine, Task& task, const Recipe& recipe, int rank, int first, int last, Left& left) {
  const int accumulate = micro_of(recipe) == "one" ? 1 : 2;
  for (int step = first == 0 && has_dynamic_scale(recipe) ? -1 : first; step < last; ++step) {
    const bool overflows = step == -1 && rank == num_ranks(recipe) - 1;
    for (int micro = 0; micro < accumulate; ++micro) {
      const torch::Tensor loss = tried_loss(task, model_of(recipe), step, micro, rank) / accumulate;
      engine.scaled(overflows ? loss.to(torch::kFloat) * 0x1p20 : loss).backward();
    }
    const StepReport report = engine.step(1e-2);
    left.steps.push_back({report.skipped ? std::nullopt : std::optional(report.grad_norm), report.loss_scale});
  }
}

Left train(const Recipe& recipe, const AttachOptions& options, const std::string& checkpoint) {
  Left left;
  const int world = num_ranks(recipe);
  std::vector<std::unique_ptr<Task>> tasks;
  for (int rank = 0; rank < world; ++rank) tasks.push_back(make_tried_task(model_of(recipe)));
  on_every_rank(world, [&](World& ranks) {
    Left mine;
    auto task = std::move(tasks[static_cast<std::size_t>(ranks.rank())]);
    auto engine = std::make_optional(attach(task->module(), ranks, options));
    take_updates(*engine, *task, recipe, ranks.rank(), 0, checkpoint.empty() ? kUpdates : kUpdates - 1, mine);
    if (!checkpoint.empty()) {  // a new model, as in a new process
      engine->save(checkpoint);
      engine.reset();
      task = make_tried_task(model_of(recipe));
      engine.emplace(attach(task->module(), ranks, options));
      engine->load(checkpoint);
      take_updates(*engine, *task, recipe, ranks.rank(), kUpdates - 1, kUpdates, mine);
    }
    mine.loss_scale = engine->report().loss_scale;
    for (const ParamSpec& spec : engine->parameters())
      for (const std::string& state : engine->state_names(spec.name))
        mine.states.push_back(engine->full_state(spec.name, state));
    engine.reset();
    if (ranks.rank() == 0) left = std::move(mine);
  });
  return left;
}

class RecipeBits : public ::testing::TestWithParam<Recipe> {};
using RecipeBitsSlow = RecipeBits;

TEST_P(RecipeBitsSlow, AreThoseOfStageZero) {
  const Recipe& recipe = GetParam();
  const TemporaryFolder folder;
  const std::string checkpoint = place_of(recipe) == "resumed" ? (folder.path() / "checkpoint").string() : "";
  std::filesystem::create_directory(folder.path() / "disk");
  const Left expected = train(recipe, reference_of(recipe), "");
  const Left seen = train(recipe, options_of(recipe, (folder.path() / "disk").string()), checkpoint);
  ASSERT_EQ(expected.steps.size(), kUpdates + (has_dynamic_scale(recipe) ? 1U : 0U));
  EXPECT_EQ(expected.steps.front().norm.has_value(), !has_dynamic_scale(recipe));
  EXPECT_GT(expected.steps.back().norm.value_or(0), 0);
  EXPECT_EQ(seen.steps, expected.steps);
  EXPECT_EQ(seen.loss_scale, expected.loss_scale);
  EXPECT_TRUE(same_bits(seen.states, expected.states));
}

INSTANTIATE_TEST_SUITE_P(Recipes, RecipeBitsSlow, ::testing::ValuesIn(recipes()),
                         [](const auto& info) { return name_of(info.param); });

// Some recipe has any three levels of three factors.
TEST(RecipesOfTheFullTier, CoverAnyThreeFactorsLevels) {
  const std::vector<Recipe> table = threewise();
  for (std::size_t a = 0; a < kNumFactors; ++a) {
    for (std::size_t b = a + 1; b < kNumFactors; ++b) {
      for (std::size_t c = b + 1; c < kNumFactors; ++c) {
        std::set<std::array<int, 3>> missing;
        for (int i = 0; i < kNumLevels[a]; ++i)
          for (int j = 0; j < kNumLevels[b]; ++j)
            for (int k = 0; k < kNumLevels[c]; ++k) {
              Recipe recipe{};
              recipe[kType] = 2;  // every level of the other factors is possible with fp16
              recipe[a] = i;
              recipe[b] = j;
              recipe[c] = k;
              if (possible(recipe)) missing.insert({i, j, k});
            }
        for (const Recipe& recipe : table) missing.erase({recipe[a], recipe[b], recipe[c]});
        EXPECT_TRUE(missing.empty()) << "factors " << a << ", " << b << ", " << c;
      }
    }
  }
}

}  // namespace
}  // namespace zero
