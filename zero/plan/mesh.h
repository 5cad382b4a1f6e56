// Mesh: the ranks of a run as a grid, copies of the model by shards of a copy.
//
//   const Mesh mesh = mesh_of(4, 2);       // two copies of two shards each: ranks {0, 1} and {2, 3}
//   mesh.copy_of(3)                        // 1
//   mesh.ranks_of_copy(1)                  // {2, 3}: they gather from each other
//   mesh.ranks_of_shard(1)                 // {1, 3}: they hold the same shard, and sum over the copies
//
// A copy is of neighbouring ranks, which a launcher puts on one host where it can. A mesh of one copy is the world
// without a mesh.
#pragma once

#include <cstdint>
#include <vector>

#include "zero/plan/unit.h"

namespace zero {

struct Mesh {
  int shard = 1;   // ranks that hold the model once
  int copies = 1;  // how often it is held

  int world() const { return shard * copies; }
  int copy_of(int rank) const { return rank / shard; }
  int shard_of(int rank) const { return rank % shard; }
  std::vector<int> ranks_of_copy(int copy) const;
  std::vector<int> ranks_of_shard(int shard) const;
  bool operator==(const Mesh&) const = default;
};

// `group`: ranks that hold the model once; 0: all. Throws ConfigError under "zero.group" for one that does not divide
// the world.
Mesh mesh_of(int world, int group);

// Bytes of gradients that a rank sends to the same shard of other copies when `unit` is reduced. They cross in fp32:
// partial sums go up from copy to copy, in the order of the ranks, and the total comes down again. The first and the
// last copy send one shard each, those between them two: 2 (P/S)(R-1)/R in the mean.
std::int64_t sent_between_copies(const Unit& unit, const Mesh& mesh, int copy);

}  // namespace zero
