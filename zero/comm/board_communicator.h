// BoardCommunicator: the collectives of ranks that can read each other's memory.
//
// Begin posts the place of the input. wait() reads straight out of the peers' inputs, and then tells the peers that it
// has. Nothing is copied twice, no helper thread runs, and a wait sleeps only for posts that are not there yet. Works
// may be waited in any order. The protocol is in board.h. This rank's own posts, and who still reads them, are in
// board_posts.h; the difference between threads and processes is in peer_memory.h, and the answer to a rank that does not
// come in board_wait.h. A group (group.h) has a board and posts of its own, and everything else of the world's. In here
// ranks are those of the world; blocks lie in the order of the members.
#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include "zero/comm/arrivals.h"
#include "zero/comm/board.h"
#include "zero/comm/board_posts.h"
#include "zero/comm/board_wait.h"
#include "zero/comm/communicator.h"
#include "zero/comm/group.h"
#include "zero/comm/peer_memory.h"

namespace zero {

class BoardCommunicator final : public Communicator, private GroupOpener, private Arrivals, private Replacements {
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
  // Sums straight out of the peers' inputs: one pass over them, no staging.
  Work reduce_scatter(const ReduceScatter& request, CommTag tag) override;

  Allocation allocate(std::size_t bytes, Written written) override { return posts_.allocate(bytes, written); }
  void drain() override { posts_.drain(); }
  GroupOpener* groups() override { return this; }
  Arrivals* arrivals() override { return this; }

  Traffic traffic() const override { return traffic_; }
  double waited_seconds() const override { return wait_.seconds(); }
  std::chrono::milliseconds timeout() const override { return timeout_; }

 private:
  using Post = BoardPosts::Post;

  // A group.
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
  // Of the world alone.
  Replacements* replacements() override { return memory_.most_replacements() > 0 ? &run_ : nullptr; }
  bool is_one() const override { return memory_.is_replacement(); }
  int most() const override { return memory_.most_replacements(); }
  int waiting(RankSet lost) override { return memory_.knocking(lost); }
  void introduce(int rank, RankSet peers) override;
  void take_back(int rank) override;
  void let_in(int rank) override;
  // Of a rank of the world among the members.
  int position(int rank) const;

  Signature next(Operation operation, std::size_t bytes, CommTag tag, int root = -1);

  // One of `wanted` that has posted its part of `own`, once there is one.
  RankSet posted(RankSet wanted, const Signature& own);
  int await_any(RankSet wanted, const Signature& own);
  void await_all(const Signature& own);
  // What the root of a broadcast does with the others' posts, when they are there: it needs nothing from them.
  void check_broadcasts();
  void check_agreement(int other, const Signature& own, const Signature& theirs);
  const std::byte* input_of(int other, Slot& slot);
  void finish_reading(int other, Slot& slot);

  void count(std::size_t sent, std::size_t received, CommTag tag);

  std::unique_ptr<PeerMemory> own_memory_;  // of the world; null in a group
  BoardCommunicator& run_;                  // that of the world
  PeerMemory& memory_;
  Allocation group_board_;
  Board board_;
  int rank_;
  std::vector<int> members_;  // ranks of the world, ascending
  RankSet peers_;
  std::chrono::milliseconds timeout_;
  BoardWait wait_;
  BoardPosts posts_;
  std::uint64_t sequence_ = 0;
  std::vector<std::pair<Signature, RankSet>> unchecked_;  // broadcasts from here, and who has not been checked
  std::vector<std::uint64_t> num_sent_, num_received_;    // messages, by peer
  Traffic traffic_;
  std::uint64_t newest_group_ = 0;  // of the world: the number of its newest group
};

}  // namespace zero
