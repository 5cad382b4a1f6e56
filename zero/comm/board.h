// Board: shared memory in which ranks of one machine post their collectives. It says which collectives each rank has
// begun, and which ranks have read its input.
//
// Each rank has a ring of slots. Collective number s of a rank is posted in slot s % kSlots: first its signature and
// the place of its input, then `sequence`, which makes it visible. Readers clear their bit of `unread` when they are
// done; a slot is used again when no bit is left. So beginning a collective waits for nobody, and a collective needs
// no extra barrier.
//
//   Board board(memory, world);   // memory: Board::bytes(world) zero bytes, shared by all ranks
//
// A group of ranks has a board of its own for its collectives (Board's second constructor). It shares with the run's
// board, that of the world, what a rank has once: its bell, its process, what it does just now, and the run's failure.
//
// Every field is an atomic; zero bytes are the state before anything happened. `sequence`, `unread` and `left` are stored
// and loaded in the order kOrdered because Bell asks for it; the rest travels with them.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "zero/comm/bell.h"
#include "zero/comm/signature.h"
#include "zero/rendezvous/rank_set.h"

namespace zero {

constexpr int kSlots = 64;  // collectives that a rank may have in flight
// Messages (send) that a rank may have in flight: one to each other rank, and more.
constexpr int kMessageSlots = kMaxBoardRanks + 16;
constexpr std::size_t kInlineBytes = 4096;
constexpr auto kOrdered = std::memory_order_seq_cst;

// Where the bytes of a post lie. `number` and `offset` are for those who made the source to understand (PeerMemory).
struct Source {
  enum class Kind : std::uint32_t { kNothing, kInline, kMemory };
  Kind kind = Kind::kNothing;
  std::uint64_t number = 0;
  std::uint64_t offset = 0;
};

struct Slot {
  std::atomic<std::uint64_t> sequence;  // of the collective; of a message: see message_key()
  std::atomic<std::uint64_t> unread;    // RankSet of those who have not finished reading
  std::atomic<std::uint64_t> bytes;
  std::atomic<std::uint32_t> operation;
  std::atomic<std::int32_t> unit;
  std::atomic<std::int32_t> root;
  std::atomic<std::uint32_t> source_kind;
  std::atomic<std::uint64_t> source_number;
  std::atomic<std::uint64_t> source_offset;
  alignas(64) std::array<std::byte, kInlineBytes> inline_bytes;  // small inputs are copied here when they are posted

  // Local. `unread` must be empty. The signature's sequence becomes visible last, as `key`.
  void post(const Signature& signature, std::uint64_t key, Source source, RankSet readers);
  Signature signature() const;
  Source source() const;
};

// The n-th message from a rank to `to` is found by this key.
constexpr std::uint64_t message_key(std::uint64_t n, int to) {
  return (n << 8) | static_cast<std::uint64_t>(to + 1);
}
// Messages from and to a rank's replacement are numbered from here, so that none of its predecessor's is taken for one.
constexpr std::uint64_t first_message(std::uint32_t replacement) {
  return static_cast<std::uint64_t>(replacement) << 32;
}

// What a rank began last, for those who wait for it to say: in the world, or in one of its groups.
class Newest {
 public:
  // Local. `suffix`: " of group copy 1 (ranks 2, 3)"; empty for the world. A long one is cut.
  void note(const Signature& signature, std::string_view suffix);
  // Local. "all_gather #17 (unit 3, 4096 bytes) of group copy 1 (ranks 2, 3)", or "nothing". Of a rank that goes on
  // meanwhile it may be of two collectives.
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
  std::atomic<std::uint32_t> left;  // odd: its communicator is gone; on the run's board 2 more for each replacement
  // Of the run's board alone:
  Bell bell;
  std::atomic<std::int32_t> process;       // its process id
  std::atomic<std::uint64_t> waiting_for;  // RankSet of those it waits for just now
  std::atomic<std::uint32_t> may_be_lost;  // 1: should its process end, it has left, and the run goes on
  std::atomic<std::uint32_t> replacement;  // how many processes were here before that the run had lost
  Newest newest;
  std::array<Slot, kSlots> slots;
  std::atomic<std::uint32_t> used_messages;  // how many of these were ever used: there a reader looks
  std::array<Slot, kMessageSlots> messages;

  Slot& slot(std::uint64_t sequence) { return slots[sequence % kSlots]; }
};

class Board {
 public:
  static std::size_t bytes(int world);
  Board(std::byte* memory, int world);
  // Of a group. Its memory is as large as that of the run's board; only the parts of its ranks are ever touched.
  Board(std::byte* memory, Board& run, RankSet members);

  int world() const { return world_; }  // of the run
  RankSet members() const { return members_; }
  RankBoard& operator[](int rank) { return ranks_[rank]; }
  // What the run's board says of a rank.
  RankBoard& of_run(int rank) const { return run_ranks_[rank]; }
  // Members that have left this board or the run.
  RankSet left() const;
  bool left_run(int rank) const;
  // The rank of this process leaves this board, or the run.
  void leave(int rank);
  void leave_run(int rank);
  // Says that a rank has left the run because its process has ended, unless a replacement is there by now. `seen`: of its
  // board, before somebody looked for the process.
  void note_lost(int rank, std::uint32_t seen);
  // Of a rank that was lost, for its replacement. forget(): on each rank that sends to it: nothing here waits for it to be
  // read. begin_again(): on one rank, after that: it is there.
  void forget(int from, int lost);
  void begin_again(int rank);
  void ring_all();

  // The run's first error; what the others throw too. Only the first call counts.
  void fail(int rank, const std::string& operation, const std::string& reason);
  bool failed() const;
  // Throws the CommError of fail().
  [[noreturn]] void throw_failure() const;

 private:
  struct Failure {
    std::atomic<std::uint32_t> state;  // 0: none, 1: being written, 2: may be read
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
