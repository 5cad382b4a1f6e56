// RandomRankSum: the inputs of a random sum over 1 to 65 ranks, as the calls of kRankSum that an engine makes.
//
//   RandomRankSum sum(random, numel, special_in);
//   TypedElements out = sum.start();
//   sum.for_each_call(out, stats, [](const RankSumArguments& call) { kRankSum.host(&call); });
//
// Type of the inputs, type of the output, `onto` and `accumulate` are drawn. A sum of more than RankSumArguments::kMost
// ranks takes two calls: the second goes on from the fp32 result of the first. Local.
#pragma once

#include <algorithm>
#include <vector>

#include "zero/comm/rank_sum.h"

#include "tests/cuda/random_span.h"

namespace zero {

class RandomRankSum {
 public:
  RandomRankSum(Random& random, std::size_t numel, int special_in)
      : numel_(numel),
        start_(random, numel, special_in),
        onto_(random_floats(random, numel, special_in)),
        has_onto_(drawn(random, 3) == 0),
        accumulates_(start_.dtype() == DType::kFloat32 && drawn(random, 2) == 0) {
    const int ranks = drawn(random, 6) == 0 ? 65 : 1 + drawn(random, 5);
    while (std::ssize(in_) < ranks) {
      TypedElements of_rank(random, numel, special_in);
      if (in_.empty() || of_rank.dtype() == in_.front().dtype()) in_.push_back(std::move(of_rank));
    }
  }

  // The output before the sum.
  const TypedElements& start() const { return start_; }

  // Calls sum(arguments) for each call. `out` begins as start().
  template <typename Sum>
  void for_each_call(TypedElements& out, StatsLimbs& stats, Sum sum) {
    Elements<float> between = onto_;
    const float* onto = has_onto_ ? onto_.data() : nullptr;
    for (std::size_t first = 0; first < in_.size(); first += RankSumArguments::kMost) {
      const std::size_t end = std::min(first + RankSumArguments::kMost, in_.size());
      RankSumArguments call{.num_in = static_cast<std::int32_t>(end - first),
                            .dtype = in_.front().dtype(),
                            .numel = static_cast<std::int64_t>(numel_),
                            .onto = onto};
      for (std::size_t rank = first; rank < end; ++rank) call.in[rank - first] = in_[rank].data();
      if (end == in_.size()) {
        call.out = out.data();
        call.out_dtype = out.dtype();
        call.accumulate = accumulates_;
        call.stats = &stats;
      } else {
        call.out = between.bytes();
      }
      sum(call);
      onto = between.data();
    }
  }

 private:
  std::size_t numel_;
  std::vector<TypedElements> in_;  // by rank, of one type
  TypedElements start_;
  Elements<float> onto_;
  bool has_onto_, accumulates_;
};

}  // namespace zero
