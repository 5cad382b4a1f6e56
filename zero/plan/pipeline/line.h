// Line: the ranks of a run as a grid, places of a pipeline by data ranks.
//
//   const Line line = line_of(/*rank=*/3, /*world=*/4, /*pipeline=*/2);   // place 1, data rank 1
//   line.ranks_of_place(0)      // {0, 1}: they hold the same sections, and sum gradients
//   line.rank_at(0)             // 1: the rank that computes the same samples at place 0
//
// The pipeline is the outermost axis, so the ranks of a place are neighbours. Local.
#pragma once

#include <string>
#include <vector>

#include "zero/base/error/error.h"

namespace zero {

struct Line {
  int pipeline = 1;    // places in a line
  int data_ranks = 1;  // ranks of a place
  int place = 0;       // of this rank
  int data_rank = 0;   // of this rank, within its place

  int rank_at(int of_place) const { return of_place * data_ranks + data_rank; }
  std::vector<int> ranks_of_place(int of_place) const {
    std::vector<int> ranks;
    for (int rank = 0; rank < data_ranks; ++rank) ranks.push_back(of_place * data_ranks + rank);
    return ranks;
  }
  std::vector<int> ranks_of_line() const {
    std::vector<int> ranks;
    for (int at = 0; at < pipeline; ++at) ranks.push_back(rank_at(at));
    return ranks;
  }
};

// Throws ConfigError under "parallel.pipeline" if it does not divide the world.
inline Line line_of(int rank, int world, int pipeline) {
  if (pipeline < 1 || world % pipeline != 0)
    throw ConfigError("parallel.pipeline", std::to_string(pipeline),
                      "it must divide the number of ranks, which is " + std::to_string(world),
                      "use a divisor of that number; 1: no pipeline");
  const int data_ranks = world / pipeline;
  return {pipeline, data_ranks, rank / data_ranks, rank % data_ranks};
}

}  // namespace zero
