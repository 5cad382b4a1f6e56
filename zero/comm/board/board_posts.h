// BoardPosts: the inputs that a rank has posted on a board, until its peers have read them.
//
//   BoardPosts posts(board, memory, wait, rank);
//   BoardPosts::Post& post = posts.collective(signature, in, peers);   // visible to the peers, which may read `in`
//   post.begun = &work;                    // until it ends: it is completed if its slot is needed before
//   post.waited = true;                    // this rank is done with the collective: its slot may be reused
//   posts.drain();                         // the inputs of waited works may change
//
// Posting waits for nobody, unless all slots have readers: those of the last 64 collectives, or of kMessageSlots
// messages. An input of at most kInlineBytes is copied into the slot. A larger one is read in place, or from a copy if
// peers cannot read it there (PeerMemory). Memory must not be freed while a peer may read it, so the release of memory
// from allocate() waits for the readers.
//
// The world and each of its groups have one such object; the world's knows those of its groups. Local, all functions.
// Functions that wait for readers throw the run's CommError.
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "zero/base/process/allocation.h"
#include "zero/comm/board/board.h"
#include "zero/comm/board/board_wait.h"
#include "zero/comm/board/peer_memory.h"

namespace zero {

class BoardPosts {
 public:
  // A collective that nobody has waited for yet.
  class Begun {
   public:
    virtual ~Begun() = default;
    // Does what its wait() would do, and sets Post::waited.
    virtual void complete() = 0;
  };

  // The rank's own record of one of its slots; the board holds what the peers need.
  struct Post {
    Slot* slot = nullptr;
    Signature signature;
    Source source;
    std::span<const std::byte> in_place;  // the input, if peers read it in place
    bool waited = true;                   // true: the collective has ended, or wait() of the message has returned
    Begun* begun = nullptr;               // of a collective that has not ended
  };

  // Constructs the world's posts. The arguments must outlive them.
  BoardPosts(Board& board, PeerMemory& memory, BoardWait& wait, int rank);
  // Constructs a group's posts, on the group's board. `suffix` names the group: " of group copy 1 (ranks 2, 3)".
  BoardPosts(BoardPosts& world, Board& board, BoardWait& wait, std::string suffix);
  // Marks this rank as having left: ranks that still wait for it get a CommError that says so. A group's destructor
  // also waits for the readers, without an error.
  ~BoardPosts();
  BoardPosts(const BoardPosts&) = delete;
  BoardPosts& operator=(const BoardPosts&) = delete;

  // Posts this rank's input of a collective. `readers`: the ranks that look at the post, even if `in` is empty. First
  // completes the collective of kSlots calls ago, if nobody has waited for it.
  Post& collective(const Signature& signature, std::span<const std::byte> in, RankSet readers);
  // Posts a message. The signature's number counts the messages from this rank to `to`.
  Post& message(const Signature& signature, std::span<const std::byte> in, int to);
  // Counts the messages to rank `to` that it has not read; 0 if it has left.
  int unread_messages(int to) const;

  // Waits until no peer reads an input of a work whose wait() has returned.
  void drain();
  // Allocates memory that peers may read in place. Its release waits until no peer reads it. If that cannot be known,
  // PeerMemory keeps the memory.
  Allocation allocate(std::size_t bytes, Written written);

 private:
  void use_slots();
  void publish(Post& post, std::uint64_t key, std::span<const std::byte> in, RankSet readers);
  Post& free_message();
  std::span<Post> messages() { return std::span(posts_).subspan(kSlots); }
  RankSet unread(const Post& post) const;
  void await_readers(const Post& post);
  void reclaim_copies();
  // Waits until no peer reads the inputs of the posts that `concerned` selects. Returns false if that cannot be known:
  // the run has failed, or this rank is unwinding from an error and the peers may never read. In the second case, this
  // rank leaves the run.
  bool settle(const std::function<bool(const Post&)>& concerned);
  // Does the same for inputs in `memory`, in the world and in all groups. Called on the world's posts.
  bool settle_everywhere(std::span<const std::byte> memory);

  BoardPosts& world_;
  Board& board_;
  PeerMemory& memory_;
  BoardWait& wait_;
  int rank_;
  std::string suffix_;
  std::array<Post, kSlots + kMessageSlots> posts_;  // collectives by number, then messages
  std::vector<Post*> copies_;                       // posts whose inputs share() copied
  // Only in the world: the posts of its existing groups, and inputs of destroyed groups that peers may still read.
  std::vector<BoardPosts*> groups_;
  std::vector<std::span<const std::byte>> unsettled_;
};

}  // namespace zero
