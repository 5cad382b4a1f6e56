// Law 2 over recipes: any optimizer, model and type, averaged or not, leaves the bits of stage 0 wherever its states lie,
// also when it is resumed on the way.
//
// Nine factors have 144,144 possible combinations. `./test.sh` takes a table that has every pair of levels of any two
// factors, found by a greedy search with a fixed seed; the full tier takes all of them but for worlds, threads and the type
// of sums, which it takes in turn.
#include <algorithm>
#include <array>
#include <random>
#include <set>
#include <vector>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "zero/optim/rule_registry.h"
#include "zero/train/model_kind.h"

#include "tests/temporary_folder.h"
#include "tests/tier.h"
#include "tests/torch/training_run.h"

namespace zero {
namespace {

enum Factor : std::size_t { kRule, kModel, kType, kPlace, kAverage, kWorld, kMicro, kThreads, kSum, kNumFactors };
constexpr std::array<int, kNumFactors> kNumLevels{static_cast<int>(kRuleTable.size()) + 2, 10, 3, 7, 2, 4, 3, 2, 2};
using Recipe = std::array<int, kNumFactors>;  // a level of each

constexpr std::array kModels{"gpt2", "llama", "lstm_lm", "bert", "mlp", "cnn", "lstm", "rnn", "gru", "linear"};
constexpr std::array kTypes{DType::kFloat32, DType::kBFloat16, DType::kFloat16};
constexpr std::array kPlaces{"stage1", "stage2", "stage3", "min", "offloaded", "resumed", "weighted"};
constexpr std::array kMicros{"one", "each", "last"};

struct TriedRule {
  std::string name;
  OptimizerOptions options;
};

// Each rule of the registry, and the forms of sgd.
const std::vector<TriedRule>& tried_rules() {
  static const std::vector<TriedRule> tried = [] {
    std::vector<TriedRule> rules{{"nesterov", Sgd{.momentum = 0.9, .nesterov = true}},
                                 {"momentum", Sgd{.momentum = 0.9}}};
    for (OptimizerOptions options : default_options()) rules.push_back({std::string(zero::name_of(options)), options});
    for (auto& [name, options] : rules) {
      std::visit([](auto& chosen) { chosen.weight_decay = 0.1; }, options);
      if (auto* const muon = std::get_if<Muon>(&options)) muon->adamw.lr = 2e-3;
    }
    return rules;
  }();
  return tried;
}

const TriedRule& rule_of(const Recipe& recipe) {
  return tried_rules().at(static_cast<std::size_t>(recipe[kRule]));
}

bool is(const Recipe& recipe, Factor factor, std::string_view level) {
  const auto index = static_cast<std::size_t>(recipe[factor]);
  return level == (factor == kModel ? kModels[index] : factor == kPlace ? kPlaces[index] : kMicros[index]);
}

bool possible(const Recipe& recipe) {
  const DType type = kTypes[static_cast<std::size_t>(recipe[kType])];
  if (rule_of(recipe).name == "muon" && is(recipe, kModel, "linear")) return false;  // it has no matrix
  // Sums in fp32 are of 16-bit gradients; micro-batches that are summed here first have another way to be exact.
  return recipe[kSum] == 0 || (type != DType::kFloat32 && !is(recipe, kMicro, "last"));
}

std::string name_of(const Recipe& recipe) {
  const auto at = [&](Factor factor) { return static_cast<std::size_t>(recipe[factor]); };
  return fmt::format("{}_{}_{}{}_{}{}_{}ranks_{}_{}threads", rule_of(recipe).name, kModels[at(kModel)],
                     zero::name_of(kTypes[at(kType)]), recipe[kSum] == 1 ? "_fp32_sums" : "", kPlaces[at(kPlace)],
                     recipe[kAverage] == 1 ? "_ema" : "", recipe[kWorld] + 1, kMicros[at(kMicro)],
                     recipe[kThreads] * 2 + 1);
}

AttachOptions options_of(const Recipe& recipe, const std::string& disk) {
  AttachOptions options{.stage = 3,
                        .optimizer = rule_of(recipe).options,
                        .clip = 0.5,
                        .reduce = is(recipe, kMicro, "last") ? Reduce::kLast : Reduce::kEach,
                        .accumulate = is(recipe, kMicro, "one") ? 1 : 2,
                        .ema = recipe[kAverage] == 1 ? 0.9 : 0.0,
                        .dtype = kTypes[static_cast<std::size_t>(recipe[kType])]};
  if (options.dtype == DType::kFloat16) options.loss_scale = LossScaleOptions::fixed(256);
  if (recipe[kSum] == 1) options.reduce_dtype = DType::kFloat32;
  options.threads = recipe[kThreads] * 2 + 1;
  if (is(recipe, kPlace, "stage1")) options.stage = 1;
  if (is(recipe, kPlace, "stage2")) options.stage = 2;
  if (is(recipe, kPlace, "weighted")) {
    options.shards = Cut::kWeighted;
    for (int rank = 0; rank <= recipe[kWorld]; ++rank) options.shard_weights.push_back(4 - rank);
  }
  if (is(recipe, kPlace, "min")) options.device_memory = MemoryBudget::parse("min");
  if (is(recipe, kPlace, "offloaded")) {
    options.offload.disk = {disk};
    options.offload.fractions = {.parameter = {.disk = 0.5}, .optimizer = {.host = 0.3, .disk = 0.7}};
    // Summed here first, a gradient is whole, and stays on the device.
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

std::unique_ptr<Task> task_of(const Recipe& recipe) {
  const SampleShape text{.context = 8, .classes = 11}, image{.features = 144, .classes = 3}, row{.features = 144};
  const std::string_view name = kModels[static_cast<std::size_t>(recipe[kModel])];
  ModelOptions options{.name = std::string(name == "lstm_lm" ? "lstm" : name),
                       .layers = 2,
                       .width = 12,
                       .heads = 2,
                       .hidden = name == "bert" || name == "gpt2" || name == "mlp" || name == "cnn" ? 0 : 10,
                       .context = 8};
  if (name == "mlp") options.sizes = {144, 16, 3};
  const bool reads_text = name == "gpt2" || name == "llama" || name == "lstm_lm";
  if (name == "bert") return make_task(options, {.context = 8, .classes = 3, .vocab = 11}, /*seed=*/5);
  return make_task(options, reads_text ? text : name == "linear" ? row : image, /*seed=*/5);
}

// Two samples, other ones in every micro-batch.
torch::Tensor loss_of(Task& task, const Recipe& recipe, int step, int micro, int rank) {
  const int which = step * 100 + micro * 10 + rank;
  const bool classes = recipe[kModel] >= 3;
  const bool tokens = recipe[kModel] <= 3;
  const torch::Tensor numbers = (torch::arange(16) * (which + 3) + which).remainder(11).reshape({2, 8});
  const torch::Tensor pixels = (torch::arange(288, torch::kFloat) * 0.37 + which).sin().reshape({2, 144});
  const torch::Tensor target = is(recipe, kModel, "linear") ? pixels.sum(1, /*keepdim=*/true)
                               : classes                    ? torch::arange(2).add(which).remainder(3)
                                                            : numbers.roll(-1, 1);
  return task.loss(tokens ? numbers : pixels, target);
}

// Three steps; on rank 0 the norms, and every saved state of every parameter, in full precision.
struct Left {
  std::vector<double> norms;
  std::vector<torch::Tensor> states;
};

void take_steps(Attachment& engine, Task& task, const Recipe& recipe, int rank, int first, int last, Left& left) {
  const int accumulate = is(recipe, kMicro, "one") ? 1 : 2;
  for (int step = first; step < last; ++step) {
    for (int micro = 0; micro < accumulate; ++micro)
      engine.scaled(loss_of(task, recipe, step, micro, rank) / accumulate).backward();
    left.norms.push_back(engine.step(1e-2).grad_norm);
  }
}

Left train(const Recipe& recipe, const AttachOptions& options, const std::string& checkpoint) {
  Left left;
  const int world = recipe[kWorld] + 1;
  std::vector<std::unique_ptr<Task>> tasks;
  for (int rank = 0; rank < world; ++rank) tasks.push_back(task_of(recipe));
  tests::on_every_rank(world, [&](World& ranks) {
    Left mine;
    auto task = std::move(tasks[static_cast<std::size_t>(ranks.rank())]);
    auto engine = std::make_optional(attach(task->module(), ranks, options));
    take_steps(*engine, *task, recipe, ranks.rank(), 0, checkpoint.empty() ? 3 : 2, mine);
    if (!checkpoint.empty()) {  // a new model, as another process would make it
      engine->save(checkpoint);
      engine.reset();
      task = task_of(recipe);
      engine.emplace(attach(task->module(), ranks, options));
      engine->load(checkpoint);
      take_steps(*engine, *task, recipe, ranks.rank(), 2, 3, mine);
    }
    for (const ParamSpec& spec : engine->parameters())
      for (const std::string& state : engine->state_names(spec.name))
        mine.states.push_back(engine->full_state(spec.name, state));
    engine.reset();
    if (ranks.rank() == 0) left = std::move(mine);
  });
  return left;
}

// Every pair of levels of two factors.
std::vector<Recipe> pairwise() {
  using Pair = std::array<int, 4>;  // factor, level, factor, level
  const auto pairs_of = [](const Recipe& recipe) {
    std::vector<Pair> pairs;
    for (int a = 0; a < static_cast<int>(kNumFactors); ++a)
      for (int b = a + 1; b < static_cast<int>(kNumFactors); ++b)
        pairs.push_back({a, recipe[static_cast<std::size_t>(a)], b, recipe[static_cast<std::size_t>(b)]});
    return pairs;
  };
  std::mt19937 random(1);
  const auto draw = [&] {
    Recipe recipe{};
    do {
      for (std::size_t factor = 0; factor < kNumFactors; ++factor)
        recipe[factor] = static_cast<int>(random() % static_cast<unsigned>(kNumLevels[factor]));
    } while (!possible(recipe));
    return recipe;
  };
  std::set<Pair> missing;
  for (int i = 0; i < 20'000; ++i)
    for (const Pair& pair : pairs_of(draw())) missing.insert(pair);
  std::vector<Recipe> table;
  while (!missing.empty()) {
    Recipe best{};
    std::ptrdiff_t most = 0;
    for (int i = 0; i < 400; ++i) {
      const Recipe recipe = draw();
      const auto gained =
          std::ranges::count_if(pairs_of(recipe), [&](const Pair& pair) { return missing.contains(pair); });
      if (gained > most) {
        most = gained;
        best = recipe;
      }
    }
    if (most == 0) continue;
    for (const Pair& pair : pairs_of(best)) missing.erase(pair);
    table.push_back(best);
  }
  return table;
}

std::vector<Recipe> recipes() {
  std::vector<Recipe> table = pairwise();
  if (!in_full_tier()) return table;
  const auto combinations = [](const auto& factors) {
    int count = 1;
    for (const Factor factor : factors) count *= kNumLevels[factor];
    return count;
  };
  static constexpr std::array kWhole{kRule, kModel, kType, kPlace, kAverage, kMicro};
  for (int i = 0; i < combinations(kWhole); ++i) {
    Recipe recipe{};
    int rest = i;
    for (const Factor factor : kWhole) {
      recipe[factor] = rest % kNumLevels[factor];
      rest /= kNumLevels[factor];
    }
    recipe[kWorld] = i / 7 % kNumLevels[kWorld];
    recipe[kThreads] = i / 3 % kNumLevels[kThreads];
    recipe[kSum] = i / 13 % kNumLevels[kSum];
    if (!possible(recipe)) recipe[kSum] = 0;
    if (possible(recipe) && std::ranges::find(table, recipe) == table.end()) table.push_back(recipe);
  }
  return table;
}

class RecipeBits : public ::testing::TestWithParam<Recipe> {};

TEST_P(RecipeBits, AreThoseOfStageZero) {
  const Recipe& recipe = GetParam();
  const TemporaryFolder folder;
  const std::string checkpoint = is(recipe, kPlace, "resumed") ? (folder.path() / "checkpoint").string() : "";
  std::filesystem::create_directory(folder.path() / "disk");
  const Left expected = train(recipe, reference_of(recipe), "");
  const Left seen = train(recipe, options_of(recipe, (folder.path() / "disk").string()), checkpoint);
  ASSERT_EQ(expected.norms.size(), 3U);
  EXPECT_GT(expected.norms[0], 0);
  EXPECT_EQ(seen.norms, expected.norms);
  EXPECT_TRUE(tests::same_bits(seen.states, expected.states));
}

INSTANTIATE_TEST_SUITE_P(Recipes, RecipeBits, ::testing::ValuesIn(recipes()),
                         [](const auto& info) { return name_of(info.param); });

}  // namespace
}  // namespace zero
