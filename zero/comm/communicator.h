// Communicator: the ranks of a run, and the ways bytes travel between them.
//
// Transports move bytes; zero.cpp does the arithmetic. A transport implements the five movements on spans of bytes; the
// reductions are written once on top of them (zero/comm/collectives.h), in rank order with fp32 sums, so that every
// transport gives the same bits. A transport may override a reduction with something faster that gives the same bits.
//
//   comm->all_gather(my_shard, full, {.unit = 3}).wait();
//
// Collective: every rank of the communicator calls the same functions in the same order with the same sizes and tag;
// each call carries (sequence, operation, unit, bytes), and a mismatch is a CommError on both ranks, with both calls.
// A wait that exceeds the timeout names the late rank and its last call; a dead rank is named at once. A communicator
// is used by one thread at a time. It outlives its Works and its Allocations. An input stays as it is, and stays
// alive, until drain() has returned after its wait() (the collectives of collectives.h see to it themselves, and so does a
// pool of zero/engine/peer_blocks.h); at most 64 works are in flight.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string_view>

#include "zero/base/allocation.h"
#include "zero/base/dtype.h"
#include "zero/base/exact_sum.h"
#include "zero/comm/blocks.h"
#include "zero/comm/work.h"

namespace zero {

class Arrivals;
class GroupOpener;

// The subject of a collective, for error messages and the mismatch check, and how it is divided among ranks. `unit` is a
// unit's index, -1 for none.
struct CommTag {
  int unit = -1;
  // Bytes of a collective that carries bookkeeping (norms, hashes) rather than state are counted apart.
  bool control = false;
  // Of an all_gather's output, an all_to_all's input and a reduction's input, where the ranks' blocks are not equal.
  Blocks blocks{};
};

// Bytes that this rank sent to other ranks and received from them. Bytes that stay on the rank are not counted.
struct Traffic {
  std::int64_t sent_bytes = 0;
  std::int64_t received_bytes = 0;
  std::int64_t control_sent_bytes = 0;
  std::int64_t control_received_bytes = 0;
};

// Statistics of a reduction's result, made while it is in cache: the sum of squares, and the number of elements that are
// inf or NaN. It is made of terms of 4 elements within each kSumBlock elements from the start of the result, and terms
// are added exactly: results that begin at multiples of kSumBlock in the unit have sums that add up to the same bits,
// however the unit is cut.
struct ReduceStats {
  ExactSum sum_squares;
  std::int64_t num_non_finite = 0;
};

// out[i] = in_0[i] + in_1[i] + ... in rank order, in fp32, of this rank's block; with `accumulate` that sum is added to
// what `out` holds (which must then be fp32). `out` may be this rank's own block of `in`.
struct ReduceScatter {
  std::span<const std::byte> in;  // a block for each rank: equal ones, or those of the tag
  DType dtype = DType::kFloat32;  // of `in`: what crosses the wire
  std::span<std::byte> out;       // one block
  DType out_dtype = DType::kFloat32;
  bool accumulate = false;
  std::span<const std::byte> onto{};  // fp32, one block: the sum begins with it. Read by wait(); may be `out`
  ReduceStats* stats = nullptr;       // of the final `out`; written by wait(); null: not wanted

  // Local. ZERO_CHECKs that the sizes fit each other; every transport calls it.
  void check(int world, int rank = 0, const Blocks& blocks = {}) const;
};

class Communicator {
 public:
  virtual ~Communicator() = default;

  virtual int rank() const = 0;
  virtual int world() const = 0;
  virtual std::string_view transport() const = 0;

  // Collective. `out` has the blocks of all ranks; `in` is this rank's, and may be its place in `out`.
  [[nodiscard]] virtual Work all_gather(std::span<const std::byte> in, std::span<std::byte> out, CommTag tag) = 0;
  // Collective. Block j of `in` goes to rank j; block j of `out` comes from rank j, and is as large as this rank's block of
  // `in`. No overlap.
  [[nodiscard]] virtual Work all_to_all(std::span<const std::byte> in, std::span<std::byte> out, CommTag tag) = 0;
  // Collective. `data` of rank `root` replaces `data` of the others.
  [[nodiscard]] virtual Work broadcast(std::span<std::byte> data, int root, CommTag tag) = 0;
  // Between two ranks, in the order of calls on each side.
  [[nodiscard]] virtual Work send(std::span<const std::byte> data, int to, CommTag tag) = 0;
  [[nodiscard]] virtual Work receive(std::span<std::byte> data, int from, CommTag tag) = 0;
  // Collective.
  [[nodiscard]] virtual Work barrier(CommTag tag) = 0;

  // Collective. See ReduceScatter; the default is an all_to_all in tiles followed by the sum.
  [[nodiscard]] virtual Work reduce_scatter(const ReduceScatter& request, CommTag tag);

  // Collective; Local where the run has arrivals(), and in its groups. Memory that is fastest with this transport (a window
  // that peers read in place); zeroed, 64-byte aligned. Sizes may differ from rank to rank. Using it is never required and
  // never changes a bit. Its release is Local.
  [[nodiscard]] virtual Allocation allocate(std::size_t bytes, Written written = Written::kWhole);

  // Local. Waits until no peer reads an input of a collective that this rank has waited for, so that these inputs may
  // be overwritten. Transports that copy their inputs return at once.
  virtual void drain() {}

  // Local. Notes how many steps of the program are done, where the launcher can read it
  // (zero/flight/ring.h).
  virtual void note_step(std::int64_t /*steps*/) {}

  // Local. How open_group() (zero/comm/group.h) makes communicators of some of these ranks; null: it cannot.
  virtual GroupOpener* groups() { return nullptr; }

  // Local. How this rank waits for whichever message comes first (zero/comm/arrivals.h); null: it cannot.
  virtual Arrivals* arrivals() { return nullptr; }

  // Local. Bytes so far, without those of groups.
  virtual Traffic traffic() const = 0;
  // Local. Seconds this rank has spent waiting for others so far.
  virtual double waited_seconds() const = 0;
  virtual std::chrono::milliseconds timeout() const = 0;
};

}  // namespace zero
