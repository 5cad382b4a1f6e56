// Mesh: the ranks of a run as a grid, copies of the model by shards of a copy.
//
//   const Mesh mesh = mesh_of(4, 2);       // two copies of two shards each: ranks {0, 1} and {2, 3}
//   mesh.copy_of(3)                        // 1
//   mesh.ranks_of_copy(1)                  // {2, 3}: they gather from each other
//   mesh.ranks_of_shard(1)                 // {1, 3}: they hold the same shard, and sum over the copies
//
// The ranks of a copy are neighbours: a launcher puts them on one machine where it can. A mesh of one copy is the world
// without a mesh. Gradients cross from copy to copy in fp32: partial sums go up, in the order of the ranks, and the total
// comes down again. With a codec between copies (WireCodecs::outer) each copy sums its own ranks; these sums are added by a
// reduce-scatter over the copies, and an all-gather. Where copies train apart (zero/optim/outer_step.h), no gradient crosses: now and then each shard does,
// as a reduce-scatter over the copies, and an all-gather; or, of its largest elements alone, as an all-gather.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "zero/plan/partition.h"
#include "zero/plan/placement.h"
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

// `group`: ranks that hold the model once; 0: all. Throws ConfigError under `key` for one that does not divide the world.
Mesh mesh_of(int world, int group, std::string_view key = "zero.group");

// The same where copies train apart: 0 is one rank a copy. Throws ConfigError under "sync.mode", too, for a single copy.
Mesh mesh_of_local(int world, int group, std::string_view key = "zero.group");

// Crossings of a shard of gradients that a rank sends to the copies beside its own, in one reduction: the first and the
// last copy send one, those between them two, a single copy none. With a codec all send as much: that is one crossing.
int num_crossings(const Mesh& mesh, int copy, WireCodec codec = WireCodec::kNone);
// Bytes of one crossing of a unit: a shard, in fp32; or with a codec 2 of R blocks of it, as they cross.
std::int64_t crossing_bytes(const Unit& unit, const Mesh& mesh, WireCodec codec = WireCodec::kNone);

// Bytes that a rank sends to other copies when `unit` is reduced: 2 b (P/S)(R-1)/R in the mean, for b bytes an element.
std::int64_t sent_between_copies(const Unit& unit, const Mesh& mesh, int copy, WireCodec codec = WireCodec::kNone);

// The same of a step, in the mean over the copies: of all units, each reduced as often as the placement says. 0 where
// copies train apart.
std::int64_t sent_between_copies(const std::vector<Unit>& units, const Mesh& mesh, const Placement& placement);

// Elements of a unit's shard that each copy sums, in an outer step or with a codec between copies.
std::int64_t outer_block_numel(const Unit& unit, const Mesh& mesh);

// Bytes that a rank sends in an outer step.
struct OuterBytes {
  std::int64_t between_copies = 0;
  std::int64_t within = 0;  // the copy: sums where the optimizer's states are whole, else parameters where those are
  std::int64_t total() const { return between_copies + within; }
  bool operator==(const OuterBytes&) const = default;
};
OuterBytes outer_bytes(const std::vector<Unit>& units, const Mesh& mesh, const Placement& placement);
// Those between copies of `numel` parameters, without padding: 8 (P/S)(R-1)/R for R copies of S ranks, or, coded, twice the
// codec's bytes of an element in place of 8. With top-k topk_element_bytes() (P/S)(R-1): each copy sends all others the same.
double outer_formula_bytes(std::int64_t numel, const Mesh& mesh, const WireCodecs& wire = {});

// Elements of a unit that a rank writes into a checkpoint: each copy an equal part of its shards, so that all ranks
// write as much and each element is written once.
Shard saved_part(const Unit& unit, const Mesh& mesh, int rank);

}  // namespace zero
