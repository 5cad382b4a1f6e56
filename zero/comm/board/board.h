// Board: shared memory in which the ranks of one machine post their collectives. It records which collectives each rank
// has begun, and which ranks have read its input.
//
//   Board board(memory, world);   // memory: Board::bytes(world) zero bytes, shared by all ranks
//
// Each rank has a ring of slots. Collective number s of a rank is posted in slot s % kSlots. The rank first writes the
// signature and the location of the input, then `sequence`, which makes the post visible. A reader clears its bit of
// `unread` when it is done; a slot without bits may be reused. So beginning a collective waits for nobody, and needs no
// extra barrier.
//
// A group has a board of its own (Board's second constructor). It shares with the run's board whatever a rank has only
// once: its bell, its process, its current activity, and the failure of the run.
//
// Every field is an atomic; zero bytes are the initial state. `sequence`, `unread` and `left` are stored and loaded in
// the order kOrdered, because Bell requires it. They publish the other fields.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "zero/comm/board/bell.h"
#include "zero/comm/rendezvous/rank_set.h"
#include "zero/comm/signature.h"

namespace zero {

constexpr int kSlots = 64;  // collectives that a rank may have in flight; one more completes the oldest
// Messages (send) that a rank may have in flight: one to each rank, and 16 more.
constexpr int kMessageSlots = kMaxBoardRanks + 16;
constexpr std::size_t kInlineBytes = 4096;
constexpr auto kOrdered = std::memory_order_seq_cst;

// The location of a post's bytes. Only the PeerMemory that made it interprets `number` and `offset`.
struct Source {
  enum class Kind : std::uint32_t { kNothing, kInline, kMemory };
  Kind kind = Kind::kNothing;
  std::uint64_t number = 0;
  std::uint64_t offset = 0;
};

struct Slot {
  std::atomic<std::uint64_t> sequence;  // number of the collective; for a message, message_key()
  std::atomic<std::uint64_t> unread;    // RankSet of the ranks that have not finished reading
  std::atomic<std::uint64_t> bytes;
  std::atomic<std::uint32_t> operation;
  std::atomic<std::int32_t> unit;
  std::atomic<std::int32_t> root;
  std::atomic<std::uint32_t> source_kind;
  std::atomic<std::uint64_t> source_number;
  std::atomic<std::uint64_t> source_offset;
  alignas(64) std::array<std::byte, kInlineBytes> inline_bytes;  // copy of a small input, made when it is posted

  // Local. Fills the slot, whose `unread` must be empty. `key` is stored last, as `sequence`, and makes the post
  // visible.
  void post(const Signature& signature, std::uint64_t key, Source source, RankSet readers);
  Signature signature() const;
  Source source() const;
};

// Returns the key of the n-th message from a rank to `to`.
constexpr std::uint64_t message_key(std::uint64_t n, int to) {
  return (n << 8) | static_cast<std::uint64_t>(to + 1);
}
// Returns the first number of messages from and to a rank's replacement, above all numbers of its predecessor.
constexpr std::uint64_t first_message(std::uint32_t replacement) {
  return static_cast<std::uint64_t>(replacement) << 32;
}

// The newest operation of a rank, in the world or in a group, for the error messages of ranks that wait for it.
class Newest {
 public:
  // Local. Records an operation. `suffix`: " of group copy 1 (ranks 2, 3)"; empty for the world. A long suffix is cut.
  void note(const Signature& signature, std::string_view suffix);
  // Local. Returns "all_gather #17 (unit 3, 4096 bytes) of group copy 1 (ranks 2, 3)", or "nothing". If the rank begins
  // another operation meanwhile, the text may mix the two.
  std::string describe() const;

 private:
  std::atomic<std::uint64_t> sequence_;
  std::atomic<std::uint64_t> bytes_;
  std::atomic<std::uint32_t> operation_;
  std::atomic<std::int32_t> unit_;
  std::atomic<std::int32_t> root_;
  std::array<std::atomic<std::uint64_t>, 12> suffix_;
};

struct alignas(64) RankBoard {
  // Odd: the rank's communicator is destroyed. The run's board adds 2 for each replacement.
  std::atomic<std::uint32_t> left;
  // Only on the run's board:
  Bell bell;
  std::atomic<std::int32_t> process;       // process id of the rank
  std::atomic<std::uint64_t> waiting_for;  // RankSet of the ranks that it waits for now
  std::atomic<std::uint32_t> may_be_lost;  // 1: if its process ends, the rank has left, and the run goes on
  std::atomic<std::uint32_t> replacement;  // number of earlier processes of this rank that were lost
  Newest newest;
  std::array<Slot, kSlots> slots;
  std::atomic<std::uint32_t> used_messages;  // number of `messages` that were ever used; readers search only these
  std::array<Slot, kMessageSlots> messages;

  Slot& slot(std::uint64_t sequence) { return slots[sequence % kSlots]; }
};

class Board {
 public:
  static std::size_t bytes(int world);
  Board(std::byte* memory, int world);
  // Constructs a group's board. Its memory is as large as the run's board, but only the parts of its members are ever
  // touched.
  Board(std::byte* memory, Board& run, RankSet members);

  int world() const { return world_; }  // ranks of the run
  RankSet members() const { return members_; }
  RankBoard& operator[](int rank) { return ranks_[rank]; }
  // Returns the rank's part of the run's board.
  RankBoard& of_run(int rank) const { return run_ranks_[rank]; }
  // Returns the members that have left this board or the run.
  RankSet left() const;
  bool left_run(int rank) const;
  // Mark the rank of this process as having left this board, or the run.
  void leave(int rank);
  void leave_run(int rank);
  // Marks a rank whose process has ended as having left the run, unless a replacement has joined since. `seen`: the
  // rank's `left` on the run's board, loaded before its process was checked.
  void note_lost(int rank, std::uint32_t seen);
  // Reset the board for the replacement of a lost rank. First, each rank that sends to the lost rank calls forget():
  // none of its posts then waits for that reader. Afterwards, one rank calls begin_again(): the lost rank counts as
  // present.
  void forget(int from, int lost);
  void begin_again(int rank);
  void ring_all();

  // Records the run's first error, which all ranks then throw. Later calls have no effect.
  void fail(int rank, const std::string& operation, const std::string& reason);
  bool failed() const;
  // Throws the CommError that fail() recorded.
  [[noreturn]] void throw_failure() const;

 private:
  struct Failure {
    std::atomic<std::uint32_t> state;  // 0: none, 1: being written, 2: readable
    std::atomic<std::int32_t> rank;
    std::array<char, 256> operation;
    std::array<char, 1024> reason;
  };

  Failure& failure_;
  RankBoard* ranks_;
  RankBoard* run_ranks_;
  RankSet members_;
  int world_;
};

}  // namespace zero
