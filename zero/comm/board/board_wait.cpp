#include "zero/comm/board/board_wait.h"

#include <algorithm>
#include <array>
#include <bit>

#include <fmt/format.h>
#include <sys/sysinfo.h>

#include "zero/base/process/host_language.h"

namespace zero {
namespace {

using Clock = std::chrono::steady_clock;
constexpr std::chrono::milliseconds kLook{50};  // longest time that a death stays unnoticed

std::string format_seconds(std::chrono::milliseconds time) {
  return time.count() % 1000 == 0 ? fmt::format("{} s", time.count() / 1000) : fmt::format("{} ms", time.count());
}

}  // namespace

BoardWait::BoardWait(Board& board, PeerMemory& memory, int rank, std::chrono::milliseconds timeout, std::string suffix,
                     const std::function<bool()>* receive)
    : board_(board),
      memory_(memory),
      rank_(rank),
      timeout_(timeout),
      suffix_(std::move(suffix)),
      receive_(receive),
      spin_(board.world() <= get_nprocs()) {}

void BoardWait::fail(int rank, const std::string& operation, const std::string& reason) {
  board_.fail(rank, operation + suffix_, reason);
  board_.throw_failure();
}

void BoardWait::sleep_until_nobody(const std::function<RankSet()>& late, const Signature& what) {
  RankBoard& own = board_.of_run(rank_);
  const auto begin = Clock::now();
  auto waited = Clock::duration::zero();
  RankSet missing = late();
  if (missing == 0) return;
  const HostUnlocked unlocked;
  while (missing != 0) {
    check_alive(late, what);
    if (waited > timeout_) fail_late(missing, what);
    own.waiting_for.store(missing, std::memory_order_relaxed);
    const auto before = Clock::now();
    own.bell.sleep([&] { return late() == 0 || board_.failed() || receive(); }, std::min(kLook, timeout_));
    // Time for which this rank itself was stopped does not count as waiting.
    waited += std::min<Clock::duration>(Clock::now() - before, 2 * kLook);
    missing = late();
  }
  own.waiting_for.store(0, std::memory_order_relaxed);
  seconds_ += std::chrono::duration<double>(Clock::now() - begin).count();
}

bool BoardWait::try_until_nobody(const std::function<RankSet()>& late, std::chrono::milliseconds limit) {
  const auto deadline = Clock::now() + limit;
  const HostUnlocked unlocked;
  while (late() != 0) {
    if (board_.failed() || Clock::now() >= deadline) return false;
    board_.of_run(rank_).bell.sleep([&] { return late() == 0 || board_.failed(); }, std::min(kLook, limit));
  }
  return !board_.failed();
}

bool BoardWait::await(const std::function<bool()>& ready, std::chrono::milliseconds limit) {
  const Signature what{.operation = Operation::kSend};
  const auto begin = Clock::now();
  auto waited = Clock::duration::zero();
  bool is_ready = ready();
  const HostUnlocked unlocked;
  while (!is_ready && (limit.count() == 0 || waited <= limit)) {
    check_alive([] { return RankSet{0}; }, what);
    const auto before = Clock::now();
    board_.of_run(rank_).bell.sleep([&] { return ready() || board_.failed(); }, kLook);
    waited += std::min<Clock::duration>(Clock::now() - before, 2 * kLook);
    is_ready = ready();
  }
  if (board_.failed()) board_.throw_failure();
  seconds_ += std::chrono::duration<double>(Clock::now() - begin).count();
  return is_ready;
}

// Any death ends the run, also of a rank that nobody waits for here: the awaited rank may in turn wait for the dead
// rank.
void BoardWait::check_alive(const std::function<RankSet()>& late, const Signature& what) {
  if (board_.failed()) board_.throw_failure();
  check_wait();
  // In this order: a rank says that it leaves before its process ends, and a replacement comes after that.
  std::array<std::uint32_t, kMaxBoardRanks> seen{};
  for (int rank = 0; rank < board_.world(); ++rank)
    seen[static_cast<std::size_t>(rank)] = board_.of_run(rank).left.load(kOrdered);
  const RankSet died = fatal(memory_.dead(), seen);
  const RankSet left = board_.left();
  if (died != 0) {
    const int rank = std::countr_zero(died);
    fail(rank, zero::describe(what),
         fmt::format("its process ended; {}; it was process {}", describe_progress(rank),
                     board_.of_run(rank).process.load(std::memory_order_relaxed)));
  }
  // Asked again afterwards, because a rank may have done its part and left since.
  if (const RankSet gone = late() & left; gone != 0) {
    const int rank = std::countr_zero(gone);
    fail(rank, zero::describe(what),
         fmt::format("it left the {} while rank {} waits for it; {}", board_.left_run(rank) ? "run" : "group", rank_,
                     describe(rank)));
  }
}

RankSet BoardWait::fatal(RankSet dead, std::span<const std::uint32_t> seen) {
  RankSet fatal = 0;
  for (RankSet rest = dead; rest != 0; rest &= rest - 1) {
    const int rank = std::countr_zero(rest);
    RankBoard& board = board_.of_run(rank);
    if (board_.left_run(rank)) continue;
    if (board.may_be_lost.load(std::memory_order_seq_cst) == 0) {
      fatal |= only(rank);
    } else {
      board_.note_lost(rank, seen[static_cast<std::size_t>(rank)]);
    }
  }
  return fatal;
}

void BoardWait::fail_late(RankSet late, const Signature& what) {
  const int at_fault = first_at_fault(late);
  const bool is_one = late == only(at_fault);
  std::string reason = is_one ? "it is" : format_ranks(late) + (std::popcount(late) == 1 ? " is" : " are");
  reason += " absent after " + format_seconds(timeout_);
  for (int rank = 0, listed = 0; rank < board_.world() && listed < 4; ++rank) {
    if (((late | only(at_fault)) & only(rank)) == 0) continue;
    ++listed;
    reason += fmt::format("; {}{}", is_one ? "" : fmt::format("rank {}: ", rank), describe(rank));
  }
  fail(at_fault, zero::describe(what), reason);
}

// If ranks wait in groups or for messages, a rank may be late because it waits for another rank, which may wait for a
// third. A rank at the end of such a chain waits for nobody.
int BoardWait::first_at_fault(RankSet late) const {
  RankSet seen = only(rank_);
  for (RankSet next = late; next != 0;) {
    seen |= next;
    RankSet further = 0;
    for (RankSet rest = next; rest != 0; rest &= rest - 1) {
      const int rank = std::countr_zero(rest);
      const RankSet waits = board_.of_run(rank).waiting_for.load(std::memory_order_relaxed);
      if (waits == 0 || memory_.is_stopped(rank)) return rank;
      further |= waits;
    }
    next = further & ~seen;
  }
  return std::countr_zero(late);
}

std::string BoardWait::describe_progress(int rank) const {
  const RankBoard& board = board_.of_run(rank);
  std::string text = fmt::format("it last began {}", board.newest.describe());
  if (const RankSet waits = board.waiting_for.load(std::memory_order_relaxed); waits != 0) {
    text += fmt::format(" and waits for {}", format_ranks(waits));
  }
  return text;
}

std::string BoardWait::describe(int rank) const {
  std::string text = describe_progress(rank);
  if (const std::string process = memory_.describe(rank); !process.empty()) text += "; " + process;
  return text;
}

}  // namespace zero
