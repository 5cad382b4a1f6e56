// BoardPosts: the inputs that a rank has posted on a board for its peers to read, until they have read them.
//
//   BoardPosts posts(board, memory, wait, rank);
//   BoardPosts::Post& post = posts.collective(signature, in, peers);   // the peers see it, and read `in` where it lies
//   post.waited = true;                    // when this rank is done with the collective: its slot may be used again
//   posts.drain();                         // when the inputs of waited works may change
//
// A post waits for nobody, unless all slots have readers: those of 64 collectives or kMessageSlots messages before. An input of
// at most kInlineBytes is copied into the slot. A larger one is read where it lies, or from a copy where peers cannot
// read it there (PeerMemory). So memory must not go away while a peer may read it: memory of allocate() waits for that
// when it is released.
//
// The world has one such object, and so has each of its groups; that of the world knows those of its groups. Local, all of
// it. Functions that wait for readers throw the run's CommError.
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "zero/base/allocation.h"
#include "zero/comm/board.h"
#include "zero/comm/board_wait.h"
#include "zero/comm/peer_memory.h"

namespace zero {

class BoardPosts {
 public:
  // What this rank knows about a slot of its own; the board holds what the peers need.
  struct Post {
    Slot* slot = nullptr;
    Signature signature;
    Source source;
    std::span<const std::byte> in_place;  // the input, if it is read where it lies
    bool waited = true;                   // wait() of the collective or message has returned
  };

  // Of the world. The arguments outlive the posts.
  BoardPosts(Board& board, PeerMemory& memory, BoardWait& wait, int rank);
  // Of a group, on the board of the group. `suffix` names it: " of group copy 1 (ranks 2, 3)".
  BoardPosts(BoardPosts& world, Board& board, BoardWait& wait, std::string suffix);
  // Leaves the board in good order: ranks that still wait for this one get a CommError that says so. Of a group: waits
  // for the readers, without an error.
  ~BoardPosts();
  BoardPosts(const BoardPosts&) = delete;
  BoardPosts& operator=(const BoardPosts&) = delete;

  // Posts this rank's input of a collective; `readers` are those who look at the post, also where `in` is empty. More than
  // kSlots works that nobody waited for are our bug.
  Post& collective(const Signature& signature, std::span<const std::byte> in, RankSet readers);
  // Posts a message; the signature's number is that among the messages from here to `to`.
  Post& message(const Signature& signature, std::span<const std::byte> in, int to);
  // Messages to this rank that it has not read; 0 where it has left.
  int unread_messages(int to) const;

  // Waits until no peer reads the input of a work that was waited for.
  void drain();
  // Memory that peers may read in place. Its release waits until none reads it. Where that cannot be known, PeerMemory
  // keeps the memory.
  Allocation allocate(std::size_t bytes, Written written);

 private:
  void use_slots();
  void publish(Post& post, std::uint64_t key, std::span<const std::byte> in, RankSet readers);
  Post& free_message();
  std::span<Post> messages() { return std::span(posts_).subspan(kSlots); }
  RankSet unread(const Post& post) const;
  void await_readers(const Post& post);
  void reclaim_copies();
  // Waits until no peer reads the input of a post that `concerned` picks. False when that cannot be known: the run has
  // failed, or this rank is unwinding from an error and the peers may never come to read; it then leaves the run.
  bool settle(const std::function<bool(const Post&)>& concerned);
  // The same of inputs in `memory`, in the world and in all groups. Called on the world's posts.
  bool settle_everywhere(std::span<const std::byte> memory);

  BoardPosts& world_;
  Board& board_;
  PeerMemory& memory_;
  BoardWait& wait_;
  int rank_;
  std::string suffix_;
  std::array<Post, kSlots + kMessageSlots> posts_;  // collectives by number, then messages
  std::vector<Post*> copies_;                       // posts whose input share() copied
  // Of the world: the posts of its groups that live, and inputs of groups that are gone which peers may still read.
  std::vector<BoardPosts*> groups_;
  std::vector<std::span<const std::byte>> unsettled_;
};

}  // namespace zero
