// PipelineGrid: the ranks of a run as a grid, positions of a pipeline by data ranks.
//
//   const PipelineGrid grid = pipeline_grid_of(/*rank=*/3, /*world=*/4, /*pipeline=*/2);  // position 1, data rank 1
//   grid.ranks_at(0)            // {0, 1}: they hold the same sections, and sum gradients
//   grid.rank_at(0)             // 1: the rank that computes the same samples at position 0
//
// The pipeline is the outermost axis, so the ranks of a position are neighbours. Local.
#pragma once

#include <string>
#include <vector>

#include "zero/base/error/error.h"

namespace zero {

struct PipelineGrid {
  int pipeline = 1;    // positions in a line
  int data_ranks = 1;  // ranks of a position
  int position = 0;    // of this rank
  int data_rank = 0;   // of this rank, within its position

  int rank_at(int of_position) const { return of_position * data_ranks + data_rank; }
  std::vector<int> ranks_at(int of_position) const {
    std::vector<int> ranks;
    for (int rank = 0; rank < data_ranks; ++rank) ranks.push_back(of_position * data_ranks + rank);
    return ranks;
  }
  std::vector<int> ranks_of_line() const {
    std::vector<int> ranks;
    for (int at = 0; at < pipeline; ++at) ranks.push_back(rank_at(at));
    return ranks;
  }
};

// Throws ConfigError under "parallel.pipeline" if it does not divide the world.
inline PipelineGrid pipeline_grid_of(int rank, int world, int pipeline) {
  if (pipeline < 1 || world % pipeline != 0)
    throw ConfigError("parallel.pipeline", std::to_string(pipeline),
                      "it must divide the number of ranks, which is " + std::to_string(world),
                      "use a divisor of that number; 1: no pipeline");
  const int data_ranks = world / pipeline;
  return {pipeline, data_ranks, rank / data_ranks, rank % data_ranks};
}

}  // namespace zero
