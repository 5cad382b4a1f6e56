// Choice: a word that a key takes, and its value. The tables of all keys with choices.
//
// The option table reads the words that a key allows. app/cli/torch_verbs/job.cpp passes the values to the parts that
// use them. kMuonScales is in the header of its rule (zero/optim/whole/muon_rule.h).
//
//   kWordsOf<kDTypes>                                // "fp32", "bf16", "fp16"
//   value_of(kDTypes, "train.dtype", "bf16")         // DType::kBFloat16
//
// Local; values only.
#pragma once

#include <array>
#include <optional>

#include "zero/base/numbers/choice.h"
#include "zero/base/numbers/dtype.h"
#include "zero/plan/units/placement.h"


namespace zero {

inline constexpr std::array<Choice<Reduce>, 3> kReduces{
    {{"auto", Reduce::kAuto}, {"each", Reduce::kEach}, {"last", Reduce::kLast}}};
inline constexpr std::array<Choice<RankSums>, 2> kRankSums{
    {{"ordered", RankSums::kOrdered}, {"nccl", RankSums::kLinked}}};
inline constexpr std::array<Choice<DType>, 3> kDTypes{
    {{"fp32", DType::kFloat32}, {"bf16", DType::kBFloat16}, {"fp16", DType::kFloat16}}};
// No value: the type of train.dtype.
inline constexpr std::array<Choice<std::optional<DType>>, 2> kReduceDTypes{
    {{"same", std::nullopt}, {"fp32", DType::kFloat32}}};

}  // namespace zero
