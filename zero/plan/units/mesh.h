// Mesh: the ranks of a run as a grid, copies of the model by shards of a copy.
//
//   const Mesh mesh = mesh_of(4, 2);       // two copies of two shards each: ranks {0, 1} and {2, 3}
//   mesh.copy_of(3)                        // 1
//   mesh.ranks_of_copy(1)                  // {2, 3}: they gather from each other
//   mesh.ranks_of_shard(1)                 // {1, 3}: they hold the same shard, and sum over the copies
//
// The ranks of a copy are neighbours: a launcher starts them on one machine if it can. A mesh of one copy is the plain
// case: all ranks hold one copy. Partial sums of gradients are sent from copy to copy in fp32, in the order of the
// ranks, and the total is sent back. With a codec (WireCodecs::outer) each copy sums its own ranks, and a
// reduce-scatter and an all-gather over the copies add these sums. If copies train apart (zero/optim/outer_step.h), no
// gradient is sent between copies. Instead each outer step sends the differences of the shards: by a reduce-scatter and
// an all-gather, or by an all-gather of only the largest elements.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "zero/plan/units/partition.h"
#include "zero/plan/units/placement.h"
#include "zero/plan/units/unit.h"

namespace zero {

struct Mesh {
  int shard = 1;   // ranks that together hold one copy of the model
  int copies = 1;  // number of copies

  int world() const { return shard * copies; }
  int copy_of(int rank) const { return rank / shard; }
  int shard_of(int rank) const { return rank % shard; }
  std::vector<int> ranks_of_copy(int copy) const;
  std::vector<int> ranks_of_shard(int shard) const;
  bool operator==(const Mesh&) const = default;
};

// Makes a mesh. `group`: ranks that hold one copy of the model; 0: all. Throws ConfigError under `key` if it does not
// divide the world.
Mesh mesh_of(int world, int group, std::string_view key = "zero.group");

// Makes a mesh of copies that train apart; `group` 0: one rank per copy. Also throws ConfigError under "sync.mode" for
// a single copy.
Mesh mesh_of_local(int world, int group, std::string_view key = "zero.group");

// Returns how many times a rank sends a gradient shard to a neighbouring copy in one reduction. The first and the last
// copy send it once, copies between them twice, a single copy never. With a codec every copy sends it once.
int num_crossings(const Mesh& mesh, int copy, WireCodec codec = WireCodec::kNone);
// Returns the bytes of one crossing of a unit. That is a shard in fp32, or with a codec 2 of the R encoded blocks
// of it.
std::int64_t crossing_bytes(const Unit& unit, const Mesh& mesh, WireCodec codec = WireCodec::kNone);

// Returns the bytes that a rank sends to other copies if `unit` is reduced. On average these are 2 b (P/S)(R-1)/R, with
// b bytes per element.
std::int64_t sent_between_copies(const Unit& unit, const Mesh& mesh, int copy, WireCodec codec = WireCodec::kNone);

// Returns the mean over the copies for a step: all units, each reduced as often as the placement says; 0 if copies
// train apart.
std::int64_t sent_between_copies(const std::vector<Unit>& units, const Mesh& mesh, const Placement& placement);

// Returns the elements of a unit's shard that each copy sums in an outer step, or with a codec between copies.
std::int64_t outer_block_numel(const Unit& unit, const Mesh& mesh);

// Bytes that a rank sends in an outer step.
struct OuterBytes {
  std::int64_t between_copies = 0;
  // within the copy: sums if the optimizer's states are whole, otherwise parameters if those are whole
  std::int64_t within = 0;
  std::int64_t total() const { return between_copies + within; }
  bool operator==(const OuterBytes&) const = default;
};
OuterBytes outer_bytes(const std::vector<Unit>& units, const Mesh& mesh, const Placement& placement);
// Returns the bytes between copies for `numel` parameters, without padding: 8 (P/S)(R-1)/R for R copies of S ranks.
// With a codec, 8 becomes twice the codec's bytes per element. With top-k it is topk_element_bytes() (P/S)(R-1),
// because each copy sends the same bytes to all others.
double outer_formula_bytes(std::int64_t numel, const Mesh& mesh, const WireCodecs& wire = {});

// Returns the elements of a unit that a rank writes into a checkpoint. Each copy writes an equal part of its shards, so
// all ranks write the same amount, and each element is written once.
Shard saved_part(const Unit& unit, const Mesh& mesh, int rank);

}  // namespace zero
