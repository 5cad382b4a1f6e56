// Recipe: the options of a run that must not change its bits, as a level of each of ten factors.
//
//   for (const Recipe& recipe : recipes()) train(recipe);
//
// `./test.sh` takes pairwise(): a table with every pair of levels of any two factors. The full tier adds crossed(): all
// combinations of six factors, with random levels of the other four (docs/decisions/0062). Both tables are the same in
// each build.
#pragma once

#include <algorithm>
#include <array>
#include <random>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include <fmt/format.h>

#include "zero/base/numbers/dtype.h"

#include "tests/support/tier.h"
#include "tests/support/tried_rules.h"

namespace zero::tests {

enum class Reads : std::uint8_t { kText, kLabelledText, kImages, kRows };

struct TriedModel {
  std::string_view name;
  std::string_view model;  // value of model.name
  Reads reads;
};

inline constexpr std::array kModels{
    TriedModel{"gpt2", "gpt2", Reads::kText},  TriedModel{"llama", "llama", Reads::kText},
    TriedModel{"rnn_lm", "rnn", Reads::kText}, TriedModel{"lstm_lm", "lstm", Reads::kText},
    TriedModel{"gru_lm", "gru", Reads::kText}, TriedModel{"bert", "bert", Reads::kLabelledText},
    TriedModel{"mlp", "mlp", Reads::kImages},  TriedModel{"cnn", "cnn", Reads::kImages},
    TriedModel{"rnn", "rnn", Reads::kImages},  TriedModel{"lstm", "lstm", Reads::kImages},
    TriedModel{"gru", "gru", Reads::kImages},  TriedModel{"linear", "linear", Reads::kRows}};
inline constexpr std::array kTypes{DType::kFloat32, DType::kBFloat16, DType::kFloat16};
inline constexpr std::array kPlaces{"stage1", "stage2", "stage3", "min", "offloaded", "resumed", "weighted"};
inline constexpr std::array kMicros{"one", "each", "last"};
inline constexpr int kMostRanks = 4, kMostThreads = 4;

// kThreads: threads of the update. kSum: gradients are summed in their own type or in fp32. kScale: the loss scale of
// fp16 is fixed or dynamic. With a dynamic scale the first step overflows.
enum Factor : std::size_t {
  kRule,
  kModel,
  kType,
  kPlace,
  kAverage,
  kWorld,
  kMicro,
  kThreads,
  kSum,
  kScale,
  kNumFactors
};
inline constexpr std::array<int, kNumFactors> kNumLevels{static_cast<int>(kNumTriedRules),
                                                         kModels.size(),
                                                         kTypes.size(),
                                                         kPlaces.size(),
                                                         2,
                                                         kMostRanks,
                                                         kMicros.size(),
                                                         kMostThreads,
                                                         2,
                                                         2};

using Recipe = std::array<int, kNumFactors>;  // a level of each factor

inline const TriedRule& rule_of(const Recipe& recipe) {
  return tried_rules().at(static_cast<std::size_t>(recipe[kRule]));
}
inline const TriedModel& model_of(const Recipe& recipe) {
  return kModels.at(static_cast<std::size_t>(recipe[kModel]));
}
inline DType type_of(const Recipe& recipe) {
  return kTypes.at(static_cast<std::size_t>(recipe[kType]));
}
inline std::string_view place_of(const Recipe& recipe) {
  return kPlaces.at(static_cast<std::size_t>(recipe[kPlace]));
}
inline std::string_view micro_of(const Recipe& recipe) {
  return kMicros.at(static_cast<std::size_t>(recipe[kMicro]));
}
inline int num_ranks(const Recipe& recipe) {
  return recipe[kWorld] + 1;
}
inline int num_threads(const Recipe& recipe) {
  return recipe[kThreads] + 1;
}
inline bool has_dynamic_scale(const Recipe& recipe) {
  return recipe[kScale] == 1;
}

// Muon refuses models without a matrix.
inline bool fits(const Recipe& recipe) {
  return rule_of(recipe).name != "muon" || model_of(recipe).name != "linear";
}

inline bool possible(const Recipe& recipe) {
  if (!fits(recipe)) return false;
  const DType type = type_of(recipe);
  // fp32 sums need 16-bit gradients. With "last", micro-batches are summed on their rank in fp32 anyway.
  return (recipe[kSum] == 0 || (type != DType::kFloat32 && micro_of(recipe) != "last")) &&
         (!has_dynamic_scale(recipe) || type == DType::kFloat16);
}

inline std::string name_of(const Recipe& recipe) {
  return fmt::format("{}_{}_{}{}{}_{}{}_{}ranks_{}_{}threads", rule_of(recipe).name, model_of(recipe).name,
                     name_of(type_of(recipe)), recipe[kSum] == 1 ? "_fp32_sums" : "",
                     has_dynamic_scale(recipe) ? "_overflowing" : "", place_of(recipe),
                     recipe[kAverage] == 1 ? "_ema" : "", num_ranks(recipe), micro_of(recipe), num_threads(recipe));
}

// The table of a greedy search with a fixed seed.
inline std::vector<Recipe> pairwise() {
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

// Every combination of the first six factors. A fixed seed draws the levels of the last four.
inline std::vector<Recipe> crossed() {
  static constexpr std::array kWhole{kRule, kModel, kType, kPlace, kAverage, kMicro};
  static constexpr std::array kDrawn{kWorld, kThreads, kSum, kScale};
  int count = 1;
  for (const Factor factor : kWhole) count *= kNumLevels[factor];
  std::mt19937 random(2);
  std::vector<Recipe> table;
  for (int i = 0; i < count; ++i) {
    Recipe recipe{};
    int rest = i;
    for (const Factor factor : kWhole) {
      recipe[factor] = rest % kNumLevels[factor];
      rest /= kNumLevels[factor];
    }
    if (!fits(recipe)) continue;
    do {
      for (const Factor factor : kDrawn)
        recipe[factor] = static_cast<int>(random() % static_cast<unsigned>(kNumLevels[factor]));
    } while (!possible(recipe));
    table.push_back(recipe);
  }
  return table;
}

inline std::vector<Recipe> recipes() {
  std::vector<Recipe> table = pairwise();
  if (!in_full_tier()) return table;
  const std::set<Recipe> taken(table.begin(), table.end());
  for (const Recipe& recipe : crossed())
    if (!taken.contains(recipe)) table.push_back(recipe);
  return table;
}

}  // namespace zero::tests
