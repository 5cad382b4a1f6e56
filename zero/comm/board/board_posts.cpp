#include "zero/comm/board/board_posts.h"

#include <bit>
#include <chrono>
#include <cstring>
#include <exception>
#include <memory>
#include <utility>

#include "zero/base/error/check.h"
#include "zero/base/error/error.h"

namespace zero {
namespace {

bool overlap(std::span<const std::byte> a, std::span<const std::byte> b) {
  return a.data() < b.data() + b.size() && b.data() < a.data() + a.size();
}

}  // namespace

BoardPosts::BoardPosts(Board& board, PeerMemory& memory, BoardWait& wait, int rank)
    : world_(*this), board_(board), memory_(memory), wait_(wait), rank_(rank) {
  use_slots();
}

BoardPosts::BoardPosts(BoardPosts& world, Board& board, BoardWait& wait, std::string suffix)
    : world_(world),
      board_(board),
      memory_(world.memory_),
      wait_(wait),
      rank_(world.rank_),
      suffix_(std::move(suffix)) {
  use_slots();
  world_.groups_.push_back(this);
}

void BoardPosts::use_slots() {
  RankBoard& own = board_[rank_];
  for (int i = 0; i < kSlots; ++i) posts_[i].slot = &own.slots[i];
  for (int i = 0; i < kMessageSlots; ++i) posts_[kSlots + i].slot = &own.messages[i];
}

BoardPosts::~BoardPosts() {
  // First of all: if all ranks are destroyed with works in flight, nobody reads any more, or waits for readers.
  board_.leave(rank_);
  if (&world_ == this) return;
  // Windows outlive a group, so the world remembers which of their bytes peers may still read.
  if (!settle([](const Post&) { return true; })) {
    for (const Post& post : posts_)
      if (!post.in_place.empty()) world_.unsettled_.push_back(post.in_place);
  }
  reclaim_copies();
  std::erase(world_.groups_, this);
}

BoardPosts::Post& BoardPosts::collective(const Signature& signature, std::span<const std::byte> in, RankSet readers) {
  Post& post = posts_[signature.sequence % kSlots];
  if (post.begun != nullptr) post.begun->complete();
  ZERO_CHECK(post.waited, "{} begins, and {} was given up, or must be waited for first", describe(signature),
             describe(post.signature));
  await_readers(post);
  post.signature = signature;
  publish(post, signature.sequence, in, readers);
  board_.of_run(rank_).newest.note(signature, suffix_);
  return post;
}

BoardPosts::Post& BoardPosts::message(const Signature& signature, std::span<const std::byte> in, int to) {
  Post& post = free_message();
  post.signature = signature;
  publish(post, message_key(signature.sequence, to), in, only(to));
  return post;
}

// Copies small inputs into the slot, so a value on the caller's stack needs no care.
void BoardPosts::publish(Post& post, std::uint64_t key, std::span<const std::byte> in, RankSet readers) {
  reclaim_copies();
  post.in_place = {};
  post.source = {};
  post.waited = false;
  if (readers != 0 && !in.empty()) {
    if (in.size() <= kInlineBytes) {
      std::memcpy(post.slot->inline_bytes.data(), in.data(), in.size());
      post.source.kind = Source::Kind::kInline;
    } else {
      if (memory_.readable_in_place(in)) {
        post.in_place = in;
      } else {
        copies_.push_back(&post);
      }
      post.source = memory_.share(in);
    }
  }
  post.slot->post(post.signature, key, post.source, readers);
  for (RankSet rest = readers; rest != 0; rest &= rest - 1) board_.of_run(std::countr_zero(rest)).bell.ring();
}

// Takes the first free slot, so readers search few slots. If none is free, the first reader to finish frees one: a
// stalled reader holds only the slots of its own messages.
BoardPosts::Post& BoardPosts::free_message() {
  Post* free = nullptr;
  const auto late = [&]() -> RankSet {
    RankSet readers = 0;
    for (Post& post : messages()) {
      const RankSet unread = this->unread(post);
      if (unread == 0) {
        free = &post;
        return 0;
      }
      readers |= unread;
    }
    return readers;
  };
  wait_.until_nobody(late, posts_[kSlots].signature);
  const auto number = static_cast<std::uint32_t>(free - messages().data()) + 1;
  RankBoard& own = board_[rank_];
  if (number > own.used_messages.load(kOrdered)) own.used_messages.store(number, kOrdered);
  return *free;
}

int BoardPosts::unread_messages(int to) const {
  if ((board_.left() & only(to)) != 0) return 0;
  const std::uint32_t used = board_[rank_].used_messages.load(kOrdered);
  int number = 0;
  for (const Post& post : std::span(posts_).subspan(kSlots, used))
    if ((post.slot->unread.load(kOrdered) & only(to)) != 0) ++number;
  return number;
}

RankSet BoardPosts::unread(const Post& post) const {
  return post.slot->unread.load(kOrdered) & ~board_.left();
}

void BoardPosts::await_readers(const Post& post) {
  if (post.slot->unread.load(kOrdered) == 0) return;
  wait_.until_nobody([&] { return unread(post); }, post.signature);
}

void BoardPosts::reclaim_copies() {
  std::erase_if(copies_, [&](Post* post) {
    if (unread(*post) != 0) return false;
    memory_.reclaim(post->source);
    return true;
  });
}

void BoardPosts::drain() {
  for (Post& post : posts_) {
    if (!post.waited) continue;
    if (!post.in_place.empty()) await_readers(post);
    post.in_place = {};
  }
  reclaim_copies();
}

bool BoardPosts::settle(const std::function<bool(const Post&)>& concerned) {
  constexpr std::chrono::milliseconds kUnwinding{200};
  for (const Post& post : posts_) {
    if (!concerned(post)) continue;
    const auto late = [&] { return unread(post); };
    if (late() == 0) continue;
    if (std::uncaught_exceptions() > 0) {
      if (wait_.try_until_nobody(late, kUnwinding)) continue;
      board_.leave_run(rank_);
      return false;
    }
    try {
      wait_.until_nobody(late, post.signature);
    } catch (const CommError&) {
      return false;  // the next collective throws it, and says more than a destructor could
    }
  }
  return true;
}

bool BoardPosts::settle_everywhere(std::span<const std::byte> memory) {
  const auto concerned = [&](const Post& post) { return overlap(post.in_place, memory); };
  bool settled = settle(concerned);
  for (BoardPosts* group : groups_) settled = group->settle(concerned) && settled;
  for (const std::span<const std::byte> kept : unsettled_) settled = !overlap(kept, memory) && settled;
  return settled;
}

// Memory freed while a peer reads it would crash the peer, so the release waits for the readers.
Allocation BoardPosts::allocate(std::size_t bytes, Written written) {
  if (bytes == 0) return {};
  auto inner = std::make_shared<Allocation>(memory_.allocate(bytes, written));
  return {inner->data(), bytes, [&world = world_, inner](std::byte* data, std::size_t size) {
            if (!world.settle_everywhere({data, size})) world.memory_.keep(std::move(*inner));
            *inner = {};
          }};
}

}  // namespace zero
