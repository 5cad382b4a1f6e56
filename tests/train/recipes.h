// Recipe: the options of a run that must not change its bits, as a level of each of ten factors.
//
//   for (const Recipe& recipe : recipes()) train(recipe);
//
// `./test.sh` takes pairwise(): a table with every pair of levels of any two factors. The full tier takes threewise(),
// with all levels of any three factors (docs/decisions/0062). Both tables are the same in each build.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include <fmt/format.h>

#include "zero/base/numbers/dtype.h"

#include "tests/support/covering_table.h"
#include "tests/support/tier.h"
#include "tests/support/tried_rules.h"
#include "tests/train/tried_models.h"

namespace zero::tests {

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

inline bool possible(const Recipe& recipe) {
  // Muon refuses models without a matrix.
  if (rule_of(recipe).name == "muon" && model_of(recipe).name == "linear") return false;
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

// Each two levels of two factors meet in some recipe.
inline std::vector<Recipe> pairwise() {
  return covering_table<2>(kNumLevels, possible);
}

// The pairwise table, and recipes in which each three levels of three factors meet.
inline std::vector<Recipe> threewise() {
  return covering_table<3>(kNumLevels, possible, pairwise());
}

inline std::vector<Recipe> recipes() {
  return in_full_tier() ? threewise() : pairwise();
}

}  // namespace zero::tests
