// RankFigures: what one rank waited for, computed and sent in some steps.
//
//   metrics.mine = {.steps = 1, .waited_seconds = 0.02};          // each rank, of each step
//   to_values(sum_of_my_steps)                                    // for a gather of doubles (StepHistory)
//   ranks_json(ranks);    // {"steps": 10, "wait_seconds": [0.02, 0.31], "sent_bytes": {"group": {"int8": [812, 812]}}}
//
// The figures are sums over steps, and show a run rank by rank. Values only; Local.
#pragma once

#include <array>
#include <span>
#include <string>
#include <vector>

#include "zero/engine/wire/sent_by_codec.h"

namespace zero {

// All figures are doubles, because they are gathered together with other doubles.
struct RankFigures {
  using BytesByCodec = std::array<double, kSentCodecs.size()>;
  double steps = 0;           // number of steps in these figures; for a worker of servers: its pushes
  double waited_seconds = 0;  // for other ranks
  double samples = 0;         // of a micro-batch in the newest step; 0: the same on every rank
  BytesByCodec sent_in_group{}, sent_to_copies{};
  double sent_served = 0;  // by a server to workers, or by a worker to servers
  // Figures of a worker's gradients.
  double gradients = 0;  // applied
  double dropped = 0;
  double sum_of_ages = 0;  // over applied gradients: updates between the weights of a gradient and its use
  double most_age = 0;

  RankFigures& operator+=(const RankFigures& later);
  void add(const SentByCodec& sent);
  bool operator==(const RankFigures&) const = default;
};

constexpr std::size_t kNumRankFigures = sizeof(RankFigures) / sizeof(double);
std::array<double, kNumRankFigures> to_values(const RankFigures& figures);
RankFigures rank_figures(std::span<const double> values);  // `values`: kNumRankFigures

// Returns "ranks" of metrics.jsonl: arrays by rank, without keys that are 0 on all ranks. Seconds and bytes are means
// of a step; numbers of gradients are sums. null: the rank has no such figure.
std::string ranks_json(std::span<const RankFigures> ranks);

}  // namespace zero
