#include "zero/comm/board/board.h"

#include <algorithm>
#include <bit>
#include <chrono>
#include <cstring>
#include <thread>

#include <fmt/format.h>

#include "zero/base/error/error.h"

namespace zero {

static_assert(std::atomic<std::uint64_t>::is_always_lock_free, "processes share these");

void Slot::post(const Signature& signature, std::uint64_t key, Source source, RankSet readers) {
  constexpr auto kRelaxed = std::memory_order_relaxed;
  bytes.store(signature.bytes, kRelaxed);
  operation.store(static_cast<std::uint32_t>(signature.operation), kRelaxed);
  unit.store(signature.unit, kRelaxed);
  root.store(signature.root, kRelaxed);
  source_kind.store(static_cast<std::uint32_t>(source.kind), kRelaxed);
  source_number.store(source.number, kRelaxed);
  source_offset.store(source.offset, kRelaxed);
  unread.store(readers, kRelaxed);
  sequence.store(key, std::memory_order_seq_cst);
}

Signature Slot::signature() const {
  constexpr auto kRelaxed = std::memory_order_relaxed;
  return {.sequence = sequence.load(kRelaxed),
          .operation = static_cast<Operation>(operation.load(kRelaxed)),
          .unit = unit.load(kRelaxed),
          .bytes = bytes.load(kRelaxed),
          .root = root.load(kRelaxed)};
}

Source Slot::source() const {
  constexpr auto kRelaxed = std::memory_order_relaxed;
  return {.kind = static_cast<Source::Kind>(source_kind.load(kRelaxed)),
          .number = source_number.load(kRelaxed),
          .offset = source_offset.load(kRelaxed)};
}

void Newest::note(const Signature& signature, std::string_view suffix) {
  constexpr auto kRelaxed = std::memory_order_relaxed;
  bytes_.store(signature.bytes, kRelaxed);
  operation_.store(static_cast<std::uint32_t>(signature.operation), kRelaxed);
  unit_.store(signature.unit, kRelaxed);
  root_.store(signature.root, kRelaxed);
  for (std::size_t word = 0, at = 0; word < suffix_.size(); ++word, at += 8) {
    std::uint64_t text = 0;
    if (at < suffix.size()) std::memcpy(&text, suffix.data() + at, std::min<std::size_t>(8, suffix.size() - at));
    suffix_[word].store(text, kRelaxed);
    if (at >= suffix.size()) break;
  }
  sequence_.store(signature.sequence, std::memory_order_release);
}

std::string Newest::describe() const {
  constexpr auto kRelaxed = std::memory_order_relaxed;
  const Signature signature{.sequence = sequence_.load(std::memory_order_acquire),
                            .operation = static_cast<Operation>(operation_.load(kRelaxed)),
                            .unit = unit_.load(kRelaxed),
                            .bytes = bytes_.load(kRelaxed),
                            .root = root_.load(kRelaxed)};
  std::array<std::uint64_t, 13> text{};
  for (std::size_t word = 0; word < suffix_.size(); ++word) text[word] = suffix_[word].load(kRelaxed);
  return zero::describe(signature) + reinterpret_cast<const char*>(text.data());
}

namespace {
constexpr std::size_t kFailureBytes = 4096;  // keeps the ranks' part aligned
}

std::size_t Board::bytes(int world) {
  return kFailureBytes + world * sizeof(RankBoard);
}

// Zero bytes are the initial state of every member, so any rank may come first.
Board::Board(std::byte* memory, int world)
    : failure_(*reinterpret_cast<Failure*>(memory)),
      ranks_(reinterpret_cast<RankBoard*>(memory + kFailureBytes)),
      run_ranks_(ranks_),
      members_(first_ranks(world)),
      world_(world) {
  static_assert(sizeof(Failure) <= kFailureBytes);
}

Board::Board(std::byte* memory, Board& run, RankSet members)
    : failure_(run.failure_),
      ranks_(reinterpret_cast<RankBoard*>(memory + kFailureBytes)),
      run_ranks_(run.ranks_),
      members_(members),
      world_(run.world_) {}

RankSet Board::left() const {
  RankSet set = 0;
  for (RankSet rest = members_; rest != 0; rest &= rest - 1) {
    const int rank = std::countr_zero(rest);
    if (ranks_[rank].left.load(kOrdered) % 2 != 0 || left_run(rank)) set |= only(rank);
  }
  return set;
}

bool Board::left_run(int rank) const {
  return run_ranks_[rank].left.load(kOrdered) % 2 != 0;
}

void Board::leave(int rank) {
  ranks_[rank].left.fetch_or(1, kOrdered);
  ring_all();
}

void Board::leave_run(int rank) {
  run_ranks_[rank].left.fetch_or(1, kOrdered);
  ring_all();
}

void Board::note_lost(int rank, std::uint32_t seen) {
  if (seen % 2 == 0 && run_ranks_[rank].left.compare_exchange_strong(seen, seen + 1, kOrdered)) ring_all();
}

void Board::forget(int from, int lost) {
  RankBoard& board = ranks_[from];
  for (Slot& slot : board.slots) slot.unread.fetch_and(~only(lost), kOrdered);
  for (Slot& slot : board.messages) slot.unread.fetch_and(~only(lost), kOrdered);
}

void Board::begin_again(int rank) {
  RankBoard& board = ranks_[rank];
  for (Slot& slot : board.slots) slot.unread.store(0, kOrdered);
  for (Slot& slot : board.messages) slot.unread.store(0, kOrdered);
  board.waiting_for.store(0, std::memory_order_relaxed);
  board.process.store(0, std::memory_order_relaxed);
  board.left.store(2 * board.replacement.load(kOrdered), kOrdered);
}

void Board::ring_all() {
  for (int rank = 0; rank < world_; ++rank) run_ranks_[rank].bell.ring();
}

void Board::fail(int rank, const std::string& operation, const std::string& reason) {
  std::uint32_t none = 0;
  if (!failure_.state.compare_exchange_strong(none, 1)) return;
  failure_.rank.store(rank, std::memory_order_relaxed);
  const auto put = [](const std::string& text, auto& to) {
    const std::size_t bytes = std::min(text.size(), to.size() - 1);
    std::memcpy(to.data(), text.data(), bytes);
    to[bytes] = '\0';
  };
  put(operation, failure_.operation);
  put(reason, failure_.reason);
  failure_.state.store(2, std::memory_order_seq_cst);
  ring_all();
}

bool Board::failed() const {
  return failure_.state.load(std::memory_order_seq_cst) != 0;
}

void Board::throw_failure() const {
  // Writing the failure takes microseconds, unless the writer is killed just then.
  for (int i = 0; i < 1000 && failure_.state.load(std::memory_order_acquire) != 2; ++i) {
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  if (failure_.state.load(std::memory_order_acquire) != 2) {
    throw CommError(-1, "collective", "another rank failed and died before it could write the reason");
  }
  throw CommError(failure_.rank.load(std::memory_order_relaxed), failure_.operation.data(), failure_.reason.data());
}

}  // namespace zero
