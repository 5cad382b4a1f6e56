// Communicator: the ranks of a run or of a group, and how they exchange bytes.
//
//   comm->all_gather(my_shard, full, {.unit = 3}).wait();
//
// A transport implements the operations on spans of bytes. reduce_scatter() has a default, in communicator.cpp: an
// all_to_all and a sum. A transport may override it with a faster one. Both call sum_ranks() (zero/comm/rank_sum.h),
// which adds in fp32 and rank order. So every transport gives the same bits. Only NCCL and decoders add on their own.
//
// Collective: every rank calls the same functions in the same order, with the same sizes and tag. Each call carries
// (sequence, operation, unit, bytes); a mismatch is a CommError on both ranks, with both calls. A wait beyond the
// timeout names the late rank and its last call; a dead rank is named at once.
//
// One thread at a time uses a communicator. It must outlive its Works and its Allocations. An input must stay unchanged
// and alive until a drain() after its wait() has returned; collectives.h and the pools of
// zero/engine/states/peer_blocks.h ensure that themselves. A collective may end before its wait(), if
// many others begin in between. A sum with `onto` may not: at most 63 collectives may begin before its wait().
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string_view>

#include "zero/base/numbers/dtype.h"
#include "zero/base/numbers/exact_sum.h"
#include "zero/base/process/allocation.h"
#include "zero/comm/blocks.h"
#include "zero/comm/work.h"

namespace zero {

class Arrivals;
class GroupOpener;
class Mailbox;

// The subject of a collective, for error messages and the mismatch check, and its division among ranks. `unit` is the
// index of a unit; -1: none.
struct CommTag {
  int unit = -1;
  // True for bookkeeping (norms, hashes) rather than state. Its bytes are counted separately.
  bool control = false;
  // Unequal blocks of the ranks: in an all_gather's output, an all_to_all's input, or a reduction's input.
  Blocks blocks{};
};

// Bytes that this rank sent to other ranks and received from them. Bytes that stay on the rank are not counted.
struct Traffic {
  std::int64_t sent_bytes = 0;
  std::int64_t received_bytes = 0;
  std::int64_t control_sent_bytes = 0;
  std::int64_t control_received_bytes = 0;
};

// Statistics of a reduction's result, computed while it is in cache: the sum of squares, and the number of elements
// that are inf or NaN. A term has 4 elements within each kSumBlock elements from the start of the result, and terms are
// added exactly. So results that begin at multiples of kSumBlock in the unit add up to the same bits, however the unit
// is cut.
struct ReduceStats {
  ExactSum sum_squares;
  std::int64_t num_non_finite = 0;
};

// A sum over ranks: out[i] = in_0[i] + in_1[i] + ... for this rank's block, in fp32 and rank order. With `accumulate`,
// the sum is added to `out`, which must then be fp32. `out` may be this rank's own block of `in`.
struct ReduceScatter {
  std::span<const std::byte> in;  // one block for each rank: equal blocks, or those of the tag
  DType dtype = DType::kFloat32;  // of `in`, and on the wire
  std::span<std::byte> out;       // one block
  DType out_dtype = DType::kFloat32;
  bool accumulate = false;
  std::span<const std::byte> onto{};  // fp32, one block: initial value of the sum. Read by wait(); may be `out`
  ReduceStats* stats = nullptr;       // of the final `out`; written by wait(); null: no statistics
  // Order of the additions as a tree over ranks (zero/plan/units/leaves.h); empty: rank order. Read by wait(). Not with
  // `onto`, nor with codecs.
  std::span<const std::uint8_t> merges{};

  // Local. Checks with ZERO_CHECK that the sizes fit each other; every transport calls it.
  void check(int world, int rank = 0, const Blocks& blocks = {}) const;
};

class Communicator {
 public:
  virtual ~Communicator() = default;

  virtual int rank() const = 0;
  virtual int world() const = 0;
  virtual std::string_view transport() const = 0;

  // Collective. Gathers the blocks of all ranks in `out`. `in` is this rank's block, and may be its part of `out`.
  [[nodiscard]] virtual Work all_gather(std::span<const std::byte> in, std::span<std::byte> out, CommTag tag) = 0;
  // Collective. Sends block j of `in` to rank j, and receives block j of `out` from rank j. Each block of `out` is as
  // large as this rank's block of `in`. `in` and `out` must not overlap.
  [[nodiscard]] virtual Work all_to_all(std::span<const std::byte> in, std::span<std::byte> out, CommTag tag) = 0;
  // Collective. Copies `data` of rank `root` to `data` of the others.
  [[nodiscard]] virtual Work broadcast(std::span<std::byte> data, int root, CommTag tag) = 0;
  // Send and receive a message between two ranks. Messages match in the order of calls on each side.
  [[nodiscard]] virtual Work send(std::span<const std::byte> data, int to, CommTag tag) = 0;
  [[nodiscard]] virtual Work receive(std::span<std::byte> data, int from, CommTag tag) = 0;
  // Collective.
  [[nodiscard]] virtual Work barrier(CommTag tag) = 0;

  // Collective. See ReduceScatter. The default is an all_to_all in tiles, followed by the sum.
  [[nodiscard]] virtual Work reduce_scatter(const ReduceScatter& request, CommTag tag);

  // Collective; Local if the run has arrivals(), also in its groups. Allocates the memory with which this transport is
  // fastest, such as a window that peers read directly. It is zeroed and aligned to 64 bytes. Sizes may differ between
  // ranks. Collectives accept any other memory, and give the same bits with it. Releasing the memory is Local.
  [[nodiscard]] virtual Allocation allocate(std::size_t bytes, Written written = Written::kWhole);

  // Local. Waits until no peer reads an input of a collective whose wait() has returned, so these inputs may be
  // overwritten. Transports that copy their inputs return at once.
  virtual void drain() {}

  // Local. Records how many steps of the program are done, for the launcher to read (zero/comm/flight/ring.h).
  virtual void note_step(std::int64_t /*steps*/) {}

  // Local. Returns the means by which open_group() (zero/comm/group.h) opens groups of these ranks; null: it cannot.
  virtual GroupOpener* groups() { return nullptr; }

  // Local. Returns the means to wait for whichever message comes first (zero/comm/board/arrivals.h); null: there is
  // none.
  virtual Arrivals* arrivals() { return nullptr; }

  // Local. Returns the messages that have come (zero/comm/board/mailbox.h); null: the transport holds any number of
  // unread messages, or says nothing about them.
  virtual Mailbox* mailbox() { return nullptr; }

  // Local. Returns the bytes so far, without those of groups.
  virtual Traffic traffic() const = 0;
  // Local. Returns the seconds that this rank has waited for others so far.
  virtual double waited_seconds() const = 0;
  virtual std::chrono::milliseconds timeout() const = 0;
};

}  // namespace zero
