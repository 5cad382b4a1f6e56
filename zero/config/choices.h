// Choices: the words that a key takes, each with the value that it stands for. One table serves the option table, which
// allows the words, and zero/cli/torch_verbs/job.cpp, which hands the values to the parts that use them.
//
//   kWordsOf<kDTypes>                                // "fp32", "bf16", "fp16"
//   value_of(kDTypes, "train.dtype", "bf16")         // DType::kBFloat16
//
// Local; values only.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <optional>
#include <string>
#include <string_view>

#include "zero/base/dtype.h"
#include "zero/base/error.h"
#include "zero/data/open_data.h"
#include "zero/data/sample_order.h"
#include "zero/optim/update_rule.h"
#include "zero/plan/placement.h"
#include "zero/plan/tier_split.h"
#include "zero/train/health.h"
#include "zero/train/lr_schedule.h"

namespace zero {

template <typename T>
struct Choice {
  std::string_view word;
  T value;
};

inline constexpr std::array<Choice<DataKind>, 7> kDataKinds{{{"text", DataKind::kText},
                                                             {"tokens", DataKind::kTokens},
                                                             {"mnist", DataKind::kMnist},
                                                             {"images", DataKind::kImages},
                                                             {"csv", DataKind::kCsv},
                                                             {"tsv", DataKind::kTsv},
                                                             {"word_order", DataKind::kWordOrder}}};
inline constexpr std::array<Choice<Augment>, 2> kAugments{{{"none", Augment::kNone}, {"shift", Augment::kShift}}};
inline constexpr std::array<Choice<Order>, 2> kOrders{
    {{"shuffled", Order::kShuffled}, {"sequential", Order::kSequential}}};
inline constexpr std::array<Choice<Reduce>, 3> kReduces{
    {{"auto", Reduce::kAuto}, {"each", Reduce::kEach}, {"last", Reduce::kLast}}};
inline constexpr std::array<Choice<std::optional<Tier>>, 3> kActivationTiers{
    {{"none", std::nullopt}, {"host", Tier::kHost}, {"disk", Tier::kDisk}}};
inline constexpr std::array<Choice<DType>, 3> kDTypes{
    {{"fp32", DType::kFloat32}, {"bf16", DType::kBFloat16}, {"fp16", DType::kFloat16}}};
// No value: that of train.dtype.
inline constexpr std::array<Choice<std::optional<DType>>, 2> kReduceDTypes{
    {{"same", std::nullopt}, {"fp32", DType::kFloat32}}};
inline constexpr std::array<Choice<MuonScale>, 2> kMuonScales{
    {{"original", MuonScale::kOriginal}, {"match_rms_adamw", MuonScale::kMatchRmsAdamW}}};
inline constexpr std::array<Choice<LrKind>, 7> kLrKinds{{{"constant", LrKind::kConstant},
                                                         {"linear", LrKind::kLinear},
                                                         {"cosine", LrKind::kCosine},
                                                         {"polynomial", LrKind::kPolynomial},
                                                         {"inverse_sqrt", LrKind::kInverseSqrt},
                                                         {"one_cycle", LrKind::kOneCycle},
                                                         {"wsd", LrKind::kWsd}}};
inline constexpr std::array<Choice<HealthAction>, 3> kNonFinites{
    {{"skip", HealthAction::kSkip}, {"rewind", HealthAction::kRewind}, {"stop", HealthAction::kStop}}};
inline constexpr std::array<Choice<HealthAction>, 4> kSpikes{{{"ignore", HealthAction::kIgnore},
                                                              {"skip", HealthAction::kSkip},
                                                              {"rewind", HealthAction::kRewind},
                                                              {"stop", HealthAction::kStop}}};
inline constexpr std::array<Choice<HealthAction>, 2> kCorruptions{
    {{"stop", HealthAction::kStop}, {"rewind", HealthAction::kRewind}}};

template <const auto& kTable>
inline constexpr auto kWordsOf = [] {
  std::array<std::string_view, kTable.size()> words;
  std::ranges::transform(kTable, words.begin(), [](const auto& choice) { return choice.word; });
  return words;
}();

// Throws ConfigError under `key` where the table has no such word.
template <typename T, std::size_t kSize>
T value_of(const std::array<Choice<T>, kSize>& table, std::string_view key, std::string_view word) {
  std::string words;
  for (const Choice<T>& choice : table) {
    if (choice.word == word) return choice.value;
    words += (words.empty() ? "" : ", ") + std::string(choice.word);
  }
  throw ConfigError(key, word, "not one of these", "use one of: " + words);
}

}  // namespace zero
