// BoardCommunicator: the collectives of ranks that can read each other's memory.
//
// To begin a collective is to post the location of its input. wait() reads directly from the peers' inputs, and then
// tells the peers that it is done. Nothing is copied twice, no helper thread runs, and a wait sleeps only for missing
// posts. Works may be waited for in any order.
//
// board.h has the protocol, board_posts.h this rank's own posts and their readers. peer_memory.h is the difference
// between threads and processes, board_wait.h the reaction to a missing rank.
//
// A group (group.h) has its own board and posts, and shares everything else with the world. Inside this class, ranks
// are those of the world; blocks are stored in the order of the members.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <utility>
#include <vector>

#include "zero/comm/board/arrivals.h"
#include "zero/comm/board/board.h"
#include "zero/comm/board/board_posts.h"
#include "zero/comm/board/board_wait.h"
#include "zero/comm/board/mailbox.h"
#include "zero/comm/board/peer_memory.h"
#include "zero/comm/communicator.h"
#include "zero/comm/group.h"

namespace zero {

class BoardCommunicator final : public Communicator,
                                private GroupOpener,
                                private Arrivals,
                                private Replacements,
                                private Mailbox {
 public:
  BoardCommunicator(std::unique_ptr<PeerMemory> memory, int rank, int world, std::chrono::milliseconds timeout);

  int rank() const override { return position(rank_); }
  int world() const override { return static_cast<int>(members_.size()); }
  std::string_view transport() const override { return memory_.transport(); }

  Work all_gather(std::span<const std::byte> in, std::span<std::byte> out, CommTag tag) override;
  Work all_to_all(std::span<const std::byte> in, std::span<std::byte> out, CommTag tag) override;
  Work broadcast(std::span<std::byte> data, int root, CommTag tag) override;
  Work send(std::span<const std::byte> data, int to, CommTag tag) override;
  Work receive(std::span<std::byte> data, int from, CommTag tag) override;
  Work barrier(CommTag tag) override;
  // Sums directly from the peers' inputs: one pass over them, no staging.
  Work reduce_scatter(const ReduceScatter& request, CommTag tag) override;

  Allocation allocate(std::size_t bytes, Written written) override { return posts_.allocate(bytes, written); }
  void drain() override { posts_.drain(); }
  GroupOpener* groups() override { return this; }
  Arrivals* arrivals() override { return this; }
  Mailbox* mailbox() override { return this; }

  Traffic traffic() const override { return traffic_; }
  double waited_seconds() const override { return wait_.seconds(); }
  std::chrono::milliseconds timeout() const override { return timeout_; }

 private:
  using Post = BoardPosts::Post;

  // Constructs a group.
  BoardCommunicator(BoardCommunicator& run, Allocation board, const GroupPlace& place);

  std::uint64_t newest_group() const override { return run_.newest_group_; }
  int world_rank(int rank) const override { return members_[static_cast<std::size_t>(rank)]; }
  std::unique_ptr<Communicator> open(const GroupPlace& place) override;
  bool await(const std::function<bool()>& ready, std::chrono::milliseconds limit) override {
    return wait_.await(ready, limit);
  }
  void may_be_lost() override { board_.of_run(rank_).may_be_lost.store(1, std::memory_order_seq_cst); }
  bool lost(int rank) const override { return board_.left_run(members_[static_cast<std::size_t>(rank)]); }
  int unread(int rank) override { return posts_.unread_messages(world_rank(rank)); }
  std::string known_state(int rank) const override { return memory_.describe(world_rank(rank)); }
  bool is_stopped(int rank) const override { return memory_.is_stopped(world_rank(rank)); }
  void fail_everywhere(int rank, const std::string& operation, const std::string& reason) override {
    wait_.fail(world_rank(rank), operation, reason);
  }
  // Returns the world's replacements, also in a group; null if the run allows none.
  Replacements* replacements() override { return memory_.returns() != nullptr ? &run_ : nullptr; }
  bool is_one() const override { return memory_.returns()->is_replacement(); }
  int most() const override { return memory_.returns()->most_replacements(); }
  int waiting(RankSet lost) override { return memory_.returns()->knocking(lost); }
  void introduce(int rank, RankSet peers) override;
  void take_back(int rank) override;
  void let_in(int rank) override;
  bool has_messages(int from, int number) override;
  int room() const override { return kMessageSlots; }
  void while_waiting(std::function<bool()> receive) override { run_.receive_in_waits_ = std::move(receive); }
  // Returns the slot of a message from a rank of the world; null: it has not come.
  Slot* find_message(int from, std::uint64_t key);
  // Returns the position of a rank of the world among the members.
  int position(int rank) const;

  Signature next(Operation operation, std::size_t bytes, CommTag tag, int root = -1);

  // posted() returns the ranks of `wanted` that have posted their part of `own`. await_any() waits for one of them, and
  // returns it.
  RankSet posted(RankSet wanted, const Signature& own);
  int await_any(RankSet wanted, const Signature& own);
  void await_all(const Signature& own);
  // Compares the other ranks' posts with this rank's broadcasts, as far as the posts are there. The root of a broadcast
  // needs nothing else from them. Each wait does so too: a rank that is kSlots collectives behind cannot go on before
  // its posts are read.
  void check_broadcasts();
  void check_agreement(int other, const Signature& own, const Signature& theirs);
  const std::byte* input_of(int other, Slot& slot);
  void finish_reading(int other, Slot& slot);

  void count(std::size_t sent, std::size_t received, CommTag tag);

  std::unique_ptr<PeerMemory> own_memory_;  // the world's; null in a group
  BoardCommunicator& run_;                  // communicator of the world
  PeerMemory& memory_;
  Allocation group_board_;
  Board board_;
  int rank_;
  std::vector<int> members_;  // ranks of the world, ascending
  RankSet peers_;
  std::chrono::milliseconds timeout_;
  std::function<bool()> receive_in_waits_;  // only in the world; empty: none
  BoardWait wait_;
  BoardPosts posts_;
  std::uint64_t sequence_ = 0;
  // Broadcasts from this rank, and the ranks whose posts are unchecked.
  std::vector<std::pair<Signature, RankSet>> unchecked_;
  std::vector<std::uint64_t> num_sent_, num_received_;  // numbers of messages, by peer
  Traffic traffic_;
  std::uint64_t newest_group_ = 0;  // only in the world: the number of this rank's newest group
};

}  // namespace zero
