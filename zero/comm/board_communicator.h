// BoardCommunicator: the collectives of ranks that can read each other's memory.
//
// Begin posts the place of the input. wait() reads straight out of the peers' inputs, and then tells the peers that it
// has. Nothing is copied twice, no helper thread runs, and a wait sleeps only for posts that are not there yet. Works
// may be waited in any order. The protocol is in board.h, the difference between threads and processes in
// peer_memory.h, and the answer to a rank that does not come in board_wait.h. A group (group.h) has a board of its own,
// and everything else of the world's. In here ranks are those of the world; blocks lie in the order of the members.
#pragma once

#include <array>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "zero/comm/arrivals.h"
#include "zero/comm/board.h"
#include "zero/comm/board_wait.h"
#include "zero/comm/communicator.h"
#include "zero/comm/group.h"
#include "zero/comm/peer_memory.h"

namespace zero {

class BoardCommunicator final : public Communicator, private GroupOpener, private Arrivals {
 public:
  BoardCommunicator(std::unique_ptr<PeerMemory> memory, int rank, int world, std::chrono::milliseconds timeout);
  // Leaves the board in good order: ranks that still wait for this one get a CommError that says so.
  ~BoardCommunicator() override;

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

  Allocation allocate(std::size_t bytes, Written written) override;
  void drain() override;
  GroupOpener* groups() override { return this; }
  Arrivals* arrivals() override { return this; }

  Traffic traffic() const override { return traffic_; }
  double waited_seconds() const override { return wait_.seconds(); }
  std::chrono::milliseconds timeout() const override { return timeout_; }

 private:
  // What this rank knows about a slot of its own; the board holds what the others need.
  struct Post {
    Slot* slot = nullptr;
    Signature signature;
    Source source;
    std::span<const std::byte> in_place;  // the input, if it is read where it lies
    bool waited = true;
  };

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
  void use_slots();
  // Of a rank of the world among the members.
  int position(int rank) const;

  Signature next(Operation operation, std::size_t bytes, CommTag tag, int root = -1);
  Post& post(const Signature& signature, std::span<const std::byte> in, RankSet readers);
  void publish(Post& post, std::uint64_t key, std::span<const std::byte> in, RankSet readers);
  Post& free_message_post();

  RankSet unread(const Post& post) const;
  void await_readers(const Post& post);
  // Waits until no peer reads from this memory, or from any, as an input of a collective here. False when that cannot
  // be known: the run has failed, or this rank is unwinding from an error and the peers may never come to read; it then
  // leaves the run.
  bool settle(const std::function<bool(const Post&)>& concerned);
  // The same of the world and all groups.
  bool settle_everywhere(std::span<const std::byte> memory);
  void reclaim_copies();

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
  std::string suffix_;  // of a group, for messages
  Board board_;
  int rank_;
  std::vector<int> members_;  // ranks of the world, ascending
  RankSet peers_;
  std::chrono::milliseconds timeout_;
  BoardWait wait_;
  std::uint64_t sequence_ = 0;
  std::array<Post, kSlots + kMessageSlots> posts_;        // collectives by number, then messages
  std::vector<std::pair<Signature, RankSet>> unchecked_;  // broadcasts from here, and who has not been checked
  std::vector<Post*> copies_;                             // posts whose input share() copied
  std::vector<std::uint64_t> num_sent_, num_received_;    // messages, by peer
  Traffic traffic_;
  // Of the world: its groups that live, the newest one's number, and inputs of groups that are gone which peers may
  // still read.
  std::vector<BoardCommunicator*> groups_;
  std::uint64_t newest_group_ = 0;
  std::vector<std::span<const std::byte>> unsettled_;
};

}  // namespace zero
