#include "zero/comm/board/board_communicator.h"

#include <algorithm>
#include <bit>
#include <cstring>
#include <numeric>
#include <utility>

#include <unistd.h>

#include "zero/base/error/check.h"
#include "zero/base/error/error.h"
#include "zero/comm/rank_sum.h"

namespace zero {
namespace {

// A message. Runs `move` before wait() if `ready()`.
template <class Ready, class Move>
class MessageOperation final : public Work::Operation {
 public:
  MessageOperation(Ready ready, Move move) : ready_(std::move(ready)), move_(std::move(move)) {}
  void wait() override {
    if (!moved_) move_();
  }
  bool try_complete() override {
    if (!moved_ && ready_()) {
      move_();
      moved_ = true;
    }
    return moved_;
  }

 private:
  Ready ready_;
  Move move_;
  bool moved_ = false;
};

template <class Ready, class Move>
Work message_work(Ready ready, Move move) {
  return Work(std::make_unique<MessageOperation<Ready, Move>>(std::move(ready), std::move(move)));
}

// When a collective may read the peers' inputs: also when its slot is needed, or only in its wait().
enum class Reads : std::uint8_t { kEarly, kInWait };

// A collective. `move` reads the peers' inputs: in wait(), before it if `ready()`, or when its slot is needed.
template <class Ready, class Move>
class CollectiveOperation final : public Work::Operation, public BoardPosts::Begun {
 public:
  CollectiveOperation(BoardPosts::Post& post, Ready ready, Move move, Reads reads)
      : post_(&post), ready_(std::move(ready)), move_(std::move(move)) {
    if (reads == Reads::kEarly) post.begun = this;
  }
  ~CollectiveOperation() override {
    if (post_ != nullptr) post_->begun = nullptr;
  }
  void wait() override {
    if (post_ != nullptr) complete();
  }
  bool try_complete() override {
    if (!moved_ && ready_()) {
      move_();
      moved_ = true;
    }
    return moved_;
  }
  void complete() override {
    if (!moved_) move_();
    moved_ = true;
    BoardPosts::Post& post = *std::exchange(post_, nullptr);
    post.begun = nullptr;
    post.waited = true;
  }

 private:
  BoardPosts::Post* post_;  // null: it has ended, and another collective may have its slot
  Ready ready_;
  Move move_;
  bool moved_ = false;
};

template <class Ready, class Move>
Work collective_work(BoardPosts::Post& post, Ready ready, Move move, Reads reads = Reads::kEarly) {
  return Work(std::make_unique<CollectiveOperation<Ready, Move>>(post, std::move(ready), std::move(move), reads));
}

template <class Move>
Work collective_work(BoardPosts::Post& post, Move move) {
  return collective_work(
      post, [] { return false; }, std::move(move));
}

void copy(std::span<std::byte> to, const std::byte* from) {
  if (!to.empty() && to.data() != from) std::memcpy(to.data(), from, to.size());
}

}  // namespace

BoardCommunicator::BoardCommunicator(std::unique_ptr<PeerMemory> memory, int rank, int world,
                                     std::chrono::milliseconds timeout)
    : own_memory_(std::move(memory)),
      run_(*this),
      memory_(*own_memory_),
      board_(memory_.board(), world),
      rank_(rank),
      members_(static_cast<std::size_t>(world)),
      peers_(first_ranks(world) & ~only(rank)),
      timeout_(timeout),
      wait_(board_, memory_, rank, timeout, "", &receive_in_waits_),
      posts_(board_, memory_, wait_, rank),
      num_sent_(world),
      num_received_(world) {
  std::iota(members_.begin(), members_.end(), 0);
  board_[rank].process.store(getpid(), std::memory_order_relaxed);
  const std::uint64_t first = first_message(board_[rank].replacement.load(kOrdered));
  std::ranges::fill(num_sent_, first);
  std::ranges::fill(num_received_, first);
}

BoardCommunicator::BoardCommunicator(BoardCommunicator& run, Allocation board, const GroupPlace& place)
    : run_(run),
      memory_(run.memory_),
      group_board_(std::move(board)),
      board_(group_board_.data(), run.board_, set_of(place.ranks)),
      rank_(run.rank_),
      members_(place.ranks),
      peers_(board_.members() & ~only(rank_)),
      timeout_(run.timeout_),
      wait_(board_, memory_, rank_, timeout_, place.suffix(), &run.receive_in_waits_),
      posts_(run.posts_, board_, wait_, place.suffix()),
      num_sent_(run.members_.size()),
      num_received_(run.members_.size()) {}

std::unique_ptr<Communicator> BoardCommunicator::open(const GroupPlace& place) {
  run_.newest_group_ = place.number;
  const std::size_t bytes = Board::bytes(static_cast<int>(run_.members_.size()));
  try {
    Allocation board = memory_.share_board(set_of(place.ranks), place.number, bytes);
    return std::unique_ptr<Communicator>(new BoardCommunicator(run_, std::move(board), place));
  } catch (const CommError&) {
    if (run_.board_.failed()) run_.board_.throw_failure();  // the failure explains why a member is gone
    throw;
  }
}

int BoardCommunicator::position(int rank) const {
  return std::popcount(board_.members() & (only(rank) - 1));
}

// ---- replacements -------------------------------------------------------------------------------------------------

// From the first line on, no rank mistakes the end of the predecessor for that of the new process.
void BoardCommunicator::introduce(int rank, RankSet peers) {
  board_[rank].replacement.fetch_add(1, kOrdered);
  memory_.returns()->introduce(rank, peers);
}

void BoardCommunicator::take_back(int rank) {
  memory_.returns()->take_back(rank);
  board_.forget(rank_, rank);
  const auto at = static_cast<std::size_t>(rank);
  num_sent_[at] = num_received_[at] = first_message(board_[rank].replacement.load(kOrdered));
}

void BoardCommunicator::let_in(int rank) {
  board_.begin_again(rank);
  memory_.returns()->let_in(rank);
}

Signature BoardCommunicator::next(Operation operation, std::size_t bytes, CommTag tag, int root) {
  if (board_.failed()) board_.throw_failure();
  check_broadcasts();
  return {.sequence = ++sequence_, .operation = operation, .unit = tag.unit, .bytes = bytes, .root = root};
}

// ---- reading ------------------------------------------------------------------------------------------------------

RankSet BoardCommunicator::posted(RankSet wanted, const Signature& own) {
  RankSet found = 0;
  for (RankSet rest = wanted; rest != 0; rest &= rest - 1) {
    const int other = std::countr_zero(rest);
    if (board_[other].slot(own.sequence).sequence.load(kOrdered) >= own.sequence) found |= only(other);
  }
  return found;
}

int BoardCommunicator::await_any(RankSet wanted, const Signature& own) {
  RankSet posted = 0;
  const auto late = [&] {
    check_broadcasts();
    posted |= this->posted(wanted, own);
    return posted == 0 ? wanted : 0;
  };
  wait_.until_nobody(late, own);
  // The first one after this rank, so ranks do not all read the same input at once.
  const RankSet after = posted & ~(only(rank_) | (only(rank_) - 1));
  const int other = std::countr_zero(after != 0 ? after : posted);
  check_agreement(other, own, board_[other].slot(own.sequence).signature());
  return other;
}

void BoardCommunicator::await_all(const Signature& own) {
  for (RankSet rest = peers_; rest != 0;) rest &= ~only(await_any(rest, own));
}

void BoardCommunicator::check_agreement(int other, const Signature& own, const Signature& theirs) {
  if (theirs == own) return;
  wait_.fail(-1, describe_number(own), describe_mismatch(rank_, own, other, theirs));
}

void BoardCommunicator::check_broadcasts() {
  std::erase_if(unchecked_, [&](auto& broadcast) {
    auto& [own, rest] = broadcast;
    for (const int other : members_) {
      Slot& slot = board_[other].slot(own.sequence);
      if ((rest & only(other)) == 0 || slot.sequence.load(kOrdered) < own.sequence) continue;
      check_agreement(other, own, slot.signature());
      finish_reading(other, slot);
      rest &= ~only(other);
    }
    return rest == 0;
  });
}

const std::byte* BoardCommunicator::input_of(int other, Slot& slot) {
  const Source source = slot.source();
  if (source.kind == Source::Kind::kNothing) return nullptr;
  if (source.kind == Source::Kind::kInline) return slot.inline_bytes.data();
  return memory_.find(other, source);
}

void BoardCommunicator::finish_reading(int other, Slot& slot) {
  const RankSet rest = slot.unread.fetch_and(~only(rank_), kOrdered) & ~only(rank_);
  if ((rest & ~board_.left()) == 0) board_.of_run(other).bell.ring();
}

void BoardCommunicator::count(std::size_t sent, std::size_t received, CommTag tag) {
  (tag.control ? traffic_.control_sent_bytes : traffic_.sent_bytes) += static_cast<std::int64_t>(sent);
  (tag.control ? traffic_.control_received_bytes : traffic_.received_bytes) += static_cast<std::int64_t>(received);
}

// ---- operations ---------------------------------------------------------------------------------------------------

Work BoardCommunicator::all_gather(std::span<const std::byte> in, std::span<std::byte> out, CommTag tag) {
  const auto block = [=, blocks = tag.blocks, world = world()](int r) {
    return out.subspan(blocks.offset(r, world, out.size()), blocks.size(r, world, out.size()));
  };
  ZERO_CHECK(tag.blocks.fit(world(), out.size()) && in.size() == block(rank()).size(),
             "{} blocks, of rank {} {} bytes, go into {} bytes", world(), rank(), in.size(), out.size());
  const Signature own = next(Operation::kAllGather, tag.blocks.equal() ? in.size() : out.size(), tag);
  Post& mine = posts_.collective(own, in, peers_);
  count(in.size() * (world() - 1), out.size() - in.size(), tag);
  return collective_work(mine, [=, this] {
    copy(block(rank()), in.data());
    for (RankSet rest = peers_; rest != 0;) {
      const int other = await_any(rest, own);
      rest &= ~only(other);
      Slot& slot = board_[other].slot(own.sequence);
      copy(block(position(other)), input_of(other, slot));
      finish_reading(other, slot);
    }
  });
}

Work BoardCommunicator::all_to_all(std::span<const std::byte> in, std::span<std::byte> out, CommTag tag) {
  const std::size_t bytes = tag.blocks.size(rank(), world(), in.size());
  const std::size_t begin = tag.blocks.offset(rank(), world(), in.size());
  ZERO_CHECK(tag.blocks.fit(world(), in.size()) && out.size() == bytes * world(),
             "{} bytes are not a block for each of {} ranks, or {} bytes not {} times this rank's", in.size(), world(),
             out.size(), world());
  const Signature own = next(Operation::kAllToAll, in.size(), tag);
  Post& mine = posts_.collective(own, in, peers_);
  count(tag.blocks.size_of_others(rank(), world(), in.size()), bytes * (world() - 1), tag);
  return collective_work(mine, [=, this] {
    const auto block = [&](int r) { return out.subspan(r * bytes, bytes); };
    if (bytes > 0) copy(block(rank()), in.data() + begin);
    for (RankSet rest = peers_; rest != 0;) {
      const int other = await_any(rest, own);
      rest &= ~only(other);
      Slot& slot = board_[other].slot(own.sequence);
      if (bytes > 0) copy(block(position(other)), input_of(other, slot) + begin);
      finish_reading(other, slot);
    }
  });
}

Work BoardCommunicator::reduce_scatter(const ReduceScatter& request, CommTag tag) {
  request.check(world(), rank(), tag.blocks);
  const std::size_t bytes = tag.blocks.size(rank(), world(), request.in.size());
  const std::size_t begin = tag.blocks.offset(rank(), world(), request.in.size());
  const Signature own = next(Operation::kReduceScatter, request.in.size(), tag);
  Post& mine = posts_.collective(own, request.in, peers_);
  count(tag.blocks.size_of_others(rank(), world(), request.in.size()), bytes * (world() - 1), tag);
  auto ready = [=, this] { return posted(peers_, own) == peers_; };
  auto reduce = [=, this] {
    await_all(own);
    std::vector<const std::byte*> in(world());
    for (int i = 0; i < world() && bytes > 0; ++i) {
      const int r = members_[static_cast<std::size_t>(i)];
      const std::byte* all = r == rank_ ? request.in.data() : input_of(r, board_[r].slot(own.sequence));
      in[static_cast<std::size_t>(i)] = all + begin;
    }
    if (request.stats != nullptr) *request.stats = {};
    sum_ranks({.in = in,
               .dtype = request.dtype,
               .out = request.out.data(),
               .out_dtype = request.out_dtype,
               .numel = static_cast<std::int64_t>(bytes / size_of(request.dtype)),
               .accumulate = request.accumulate,
               .onto = request.onto.empty() ? nullptr : reinterpret_cast<const float*>(request.onto.data()),
               .merges = request.merges},
              request.stats);
    for (RankSet rest = peers_; rest != 0; rest &= rest - 1) {
      const int other = std::countr_zero(rest);
      finish_reading(other, board_[other].slot(own.sequence));
    }
  };
  // `onto` may be written until wait().
  return collective_work(mine, std::move(ready), std::move(reduce),
                         request.onto.empty() ? Reads::kEarly : Reads::kInWait);
}

Work BoardCommunicator::broadcast(std::span<std::byte> data, int root, CommTag tag) {
  ZERO_CHECK(root >= 0 && root < world(), "root {} of {} ranks", root, world());
  root = world_rank(root);
  const Signature own = next(Operation::kBroadcast, data.size(), tag, root);
  // The others also post, so the root can check that they make the same call.
  Post& mine =
      posts_.collective(own, rank_ == root ? data : std::span<std::byte>(), rank_ == root ? peers_ : only(root));
  if (rank_ == root) {
    unchecked_.emplace_back(own, peers_);
    count(data.size() * (world() - 1), 0, tag);
    return collective_work(mine, [] {});
  }
  count(0, data.size(), tag);
  return collective_work(mine, [=, this] {
    await_any(only(root), own);
    Slot& slot = board_[root].slot(own.sequence);
    copy(data, input_of(root, slot));
    finish_reading(root, slot);
  });
}

Work BoardCommunicator::barrier(CommTag tag) {
  const Signature own = next(Operation::kBarrier, 0, tag);
  Post& mine = posts_.collective(own, {}, peers_);
  return collective_work(mine, [=, this] {
    await_all(own);
    for (RankSet rest = peers_; rest != 0; rest &= rest - 1) {
      const int other = std::countr_zero(rest);
      finish_reading(other, board_[other].slot(own.sequence));
    }
  });
}

Work BoardCommunicator::send(std::span<const std::byte> data, int to, CommTag tag) {
  ZERO_CHECK(to >= 0 && to < world() && to != rank(), "rank {} sends to rank {} of {}", rank(), to, world());
  to = world_rank(to);
  if (board_.failed()) board_.throw_failure();
  Post& post = posts_.message(
      {.sequence = ++num_sent_[to], .operation = Operation::kSend, .unit = tag.unit, .bytes = data.size()}, data, to);
  count(data.size(), 0, tag);
  return message_work([] { return false; }, [&post] { post.waited = true; });
}

Slot* BoardCommunicator::find_message(int from, std::uint64_t key) {
  RankBoard& theirs = board_[from];
  for (Slot& slot : std::span(theirs.messages).first(theirs.used_messages.load(kOrdered))) {
    if (slot.sequence.load(kOrdered) == key) return &slot;
  }
  return nullptr;
}

bool BoardCommunicator::has_messages(int from, int number) {
  const int rank = world_rank(from);
  const std::uint64_t received = num_received_[static_cast<std::size_t>(rank)];
  return find_message(rank, message_key(received + static_cast<std::uint64_t>(number), rank_)) != nullptr;
}

Work BoardCommunicator::receive(std::span<std::byte> data, int from, CommTag tag) {
  ZERO_CHECK(from >= 0 && from < world() && from != rank(), "rank {} receives from rank {} of {}", rank(), from,
             world());
  from = world_rank(from);
  if (board_.failed()) board_.throw_failure();
  const std::uint64_t n = ++num_received_[from], key = message_key(n, rank_);
  const Signature own{.sequence = n, .operation = Operation::kSend, .unit = tag.unit, .bytes = data.size()};
  count(0, data.size(), tag);
  const auto find = [=, this] { return find_message(from, key); };
  auto move = [=, this] {
    const auto late = [&]() -> RankSet {
      check_broadcasts();
      return find() == nullptr ? only(from) : 0;
    };
    wait_.until_nobody(late, own);
    Slot& found = *find();
    Signature theirs = found.signature();
    theirs.sequence = n;
    check_agreement(from, own, theirs);
    copy(data, input_of(from, found));
    finish_reading(from, found);
  };
  return message_work([=] { return find() != nullptr; }, std::move(move));
}

}  // namespace zero
