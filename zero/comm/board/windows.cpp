#include "zero/comm/board/windows.h"

#include <algorithm>
#include <bit>
#include <cerrno>
#include <cstring>

#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <sys/mman.h>
#include <unistd.h>

#include "zero/base/error/check.h"
#include "zero/base/error/error.h"
#include "zero/base/files/proc_file.h"
#include "zero/base/process/memory_file.h"
#include "zero/base/process/pages.h"

namespace zero {
namespace {

using std::chrono::milliseconds;

constexpr std::size_t kCopyBytes = std::size_t{64} << 10;   // smallest window for copies
constexpr std::size_t kSpareBytes = std::size_t{32} << 20;  // most bytes of unused windows for copies

}  // namespace

Windows::Windows(HostRendezvous rendezvous, int rank, milliseconds timeout, int most_replacements)
    : board_(std::move(rendezvous.board)),
      sockets_(std::move(rendezvous.sockets)),
      door_(std::move(rendezvous.door)),
      is_replacement_(rendezvous.is_replacement),
      most_replacements_(most_replacements),
      rank_(rank),
      timeout_(timeout),
      peers_(sockets_.size()) {
  Board board(board_.data(), static_cast<int>(sockets_.size()));
  for (int r = 0; r < board.world(); ++r) of_sockets_.push_back(board[r].replacement.load(kOrdered));
}

RankSet Windows::connected() const {
  RankSet connected = 0;
  for (int r = 0; r < std::ssize(sockets_); ++r)
    if (sockets_[r].get() >= 0) connected |= only(r);
  return connected;
}

std::unique_ptr<Windows::Window> Windows::make_window(std::size_t bytes, Written written) {
  auto window = std::make_unique<Window>();
  window->number = next_number_++;
  window->file = make_memory_file("zero.cpp window", bytes);
  window->memory = map_memory_file(window->file.get(), bytes, true);
  if (written == Written::kWhole) use_huge_pages(window->memory.bytes());  // small pages also work, but slower
  return window;
}

Windows::Window* Windows::find_window(std::span<const std::byte> in) const {
  auto after = windows_.upper_bound(in.data());
  if (after == windows_.begin()) return nullptr;
  Window& window = *std::prev(after)->second;
  return in.data() + in.size() <= window.memory.data() + window.memory.size() ? &window : nullptr;
}

Windows::Window& Windows::take_copy(std::size_t bytes) {
  Window* best = nullptr;
  for (const auto& copy : copies_) {
    const bool fits = !copy->in_use && copy->memory.size() >= bytes;
    if (fits && (best == nullptr || copy->memory.size() < best->memory.size())) best = copy.get();
  }
  if (best == nullptr) {
    copies_.push_back(make_window(std::max(std::bit_ceil(bytes), kCopyBytes)));
    best = copies_.back().get();
  }
  best->in_use = true;
  return *best;
}

Source Windows::share(std::span<const std::byte> in) {
  Window* window = find_window(in);
  std::uint64_t offset = 0;
  if (window != nullptr) {
    offset = in.data() - window->memory.data();
  } else {
    window = &take_copy(in.size());
    std::memcpy(window->memory.data(), in.data(), in.size());
  }
  if ((connected() & ~window->known) != 0) announce(*window);
  return {.kind = Source::Kind::kMemory, .number = window->number, .offset = offset};
}

void Windows::reclaim(const Source& source) {
  std::size_t spare = 0;
  auto reclaimed = copies_.end();
  for (auto copy = copies_.begin(); copy != copies_.end(); ++copy) {
    if ((*copy)->number == source.number) {
      reclaimed = copy;
      (*copy)->in_use = false;
    }
    if (!(*copy)->in_use) spare += (*copy)->memory.size();
  }
  if (reclaimed == copies_.end() || spare <= kSpareBytes) return;
  release(std::move(*reclaimed));
  copies_.erase(reclaimed);
}

void Windows::announce(Window& window) {
  const Notice notice{window.number, window.memory.size()};
  for (RankSet rest = connected() & ~window.known; rest != 0; rest &= rest - 1)
    send(std::countr_zero(rest), notice, window.file.get());
  window.known |= connected();
  if (most_replacements_ == 0) window.file = {};
}

void Windows::send(int rank, const Notice& notice, int file) {
  auto waited = milliseconds(0);
  constexpr milliseconds kSlice{10};
  // Two ranks may both announce more than a socket holds, so each receives while it waits to send.
  while (sockets_[rank].send(&notice, sizeof notice, file, kSlice) == UnixSocket::Result::kWouldBlock) {
    take_notices();
    if ((waited += kSlice) > timeout_) {
      throw CommError(rank, "sharing a window", fmt::format("takes no messages; {}", describe(rank)));
    }
  }
}

Allocation Windows::share_board(RankSet members, std::uint64_t number, std::size_t bytes) {
  const int first = std::countr_zero(members);
  if (rank_ == first) {
    const FileDescriptor file = make_memory_file("zero.cpp group", bytes);
    Allocation board = map_memory_file(file.get(), bytes, true);
    for (RankSet rest = members & ~only(rank_); rest != 0; rest &= rest - 1)
      send(std::countr_zero(rest), {.number = number, .bytes = bytes, .kind = Notice::Kind::kBoard}, file.get());
    return board;
  }
  constexpr milliseconds kSlice{10};
  for (auto waited = milliseconds(0); !group_boards_.contains({first, number}); waited += kSlice) {
    // Asked first: messages that it sent before can then still be received.
    const bool gone = (dead() & only(first)) != 0;
    if (take_notice(first, kSlice)) continue;
    if (gone || waited > timeout_)
      throw CommError(first, "opening a group", fmt::format("it did not share the group's board; {}", describe(first)));
  }
  return std::move(group_boards_.extract({first, number}).mapped());
}

// MADV_REMOVE returns the memory at once, even if a peer has not yet unmapped it. A notice that does not fit into the
// socket is dropped, because it would only have freed a range of the peer's addresses.
void Windows::release(std::unique_ptr<Window> window) {
  if (window->known == 0) return;
  madvise(window->memory.data(), window->memory.size(), MADV_REMOVE);
  const Notice notice{.number = window->number};
  for (std::size_t r = 0; r < sockets_.size(); ++r) {
    if (sockets_[r].get() >= 0) sockets_[r].send(&notice, sizeof notice, -1, milliseconds(0));
  }
}

bool Windows::take_notice(int rank, milliseconds limit) {
  Notice notice;
  FileDescriptor file;
  if (sockets_[rank].get() < 0) return false;
  if (sockets_[rank].receive(&notice, sizeof notice, &file, limit) != UnixSocket::Result::kDone) return false;
  if (notice.kind == Notice::Kind::kPeer) {
    new_sockets_.insert_or_assign(static_cast<int>(notice.number), UnixSocket(std::move(file)));
  } else if (notice.kind == Notice::Kind::kBoard) {
    group_boards_[{rank, notice.number}] = map_memory_file(file.get(), notice.bytes, true);
  } else if (notice.bytes == 0) {
    peers_[rank].erase(notice.number);
  } else {
    peers_[rank][notice.number] = map_memory_file(file.get(), notice.bytes, false);
  }
  return true;
}

void Windows::take_notices() {
  for (int rank = 0; rank < static_cast<int>(sockets_.size()); ++rank) {
    while (rank != rank_ && take_notice(rank)) {
    }
  }
}

const std::byte* Windows::find(int rank, const Source& source) {
  auto& windows = peers_[rank];
  auto window = windows.find(source.number);
  // The peer sent the notice before the post that names the window.
  while (window == windows.end() && take_notice(rank)) window = windows.find(source.number);
  ZERO_CHECK(window != windows.end(), "rank {} reads from window {} that it never announced", rank, source.number);
  return window->second.data() + source.offset;
}

Allocation Windows::allocate(std::size_t bytes, Written written) {
  take_notices();
  auto window = make_window(bytes, written);
  std::byte* data = window->memory.data();
  windows_.emplace(data, std::move(window));
  return {data, bytes, [this](std::byte* data, std::size_t) {
            auto node = windows_.extract(data);
            release(std::move(node.mapped()));
          }};
}

int Windows::knocking(RankSet lost) {
  return door_ ? door_->knocking(lost).value_or(-1) : -1;
}

void Windows::introduce(int rank, RankSet peers) {
  std::vector<UnixSocket> ends = door_->hand_out(rank, peers);
  for (int peer = 1; peer < std::ssize(ends); ++peer) {
    const UnixSocket& end = ends[static_cast<std::size_t>(peer)];
    if (end.get() < 0) continue;
    const Notice notice{.number = static_cast<std::uint64_t>(rank), .kind = Notice::Kind::kPeer};
    send(peer, notice, end.get());
  }
}

// The process announces its own windows, and has none of this rank's.
void Windows::take_back(int rank) {
  if (!door_) {
    while (!new_sockets_.contains(rank) && take_notice(0, timeout_)) {
    }
    ZERO_CHECK(new_sockets_.contains(rank), "rank 0 gave no connection to the new process of rank {}", rank);
    sockets_[rank] = std::move(new_sockets_.extract(rank).mapped());
  }
  Board board(board_.data(), static_cast<int>(sockets_.size()));
  of_sockets_[rank] = board[rank].replacement.load(kOrdered);
  peers_[rank].clear();
  std::erase_if(group_boards_, [rank](const auto& board) { return board.first.first == rank; });
  announce_anew_to(rank);
}

void Windows::announce_anew_to(int rank) {
  for (auto& [address, window] : windows_) window->known &= ~only(rank);
  for (auto& copy : copies_) copy->known &= ~only(rank);
}

void Windows::let_in(int rank) {
  sockets_[rank] = door_->let_in(rank);
  announce_anew_to(rank);
}

RankSet Windows::dead() {
  std::vector<pollfd> polls;
  for (const UnixSocket& socket : sockets_) polls.push_back({.fd = socket.get(), .events = POLLRDHUP, .revents = 0});
  if (poll(polls.data(), polls.size(), 0) < 0) return 0;
  RankSet dead = 0;
  Board board(board_.data(), static_cast<int>(sockets_.size()));
  for (std::size_t r = 0; r < polls.size(); ++r) {
    if ((polls[r].revents & (POLLRDHUP | POLLHUP | POLLERR)) == 0) continue;
    const int rank = static_cast<int>(r);
    // Else: the socket of a predecessor.
    if (board[rank].replacement.load(kOrdered) == of_sockets_[r]) dead |= only(rank);
  }
  return dead;
}

char Windows::process_state(int rank) const {
  Board board(board_.data(), static_cast<int>(sockets_.size()));
  const int process = board[rank].process.load(std::memory_order_relaxed);
  const auto stat = process == 0 ? std::nullopt : try_read_proc_file(fmt::format("/proc/{}/stat", process));
  // "4711 (name) T ...": the name may contain anything, also parentheses.
  const std::size_t name_end = stat ? stat->rfind(')') : std::string::npos;
  return name_end == std::string::npos || name_end + 2 >= stat->size() ? '\0' : (*stat)[name_end + 2];
}

std::string Windows::describe(int rank) const {
  Board board(board_.data(), static_cast<int>(sockets_.size()));
  const int process = board[rank].process.load(std::memory_order_relaxed);
  if (process == 0) return "";
  switch (process_state(rank)) {
    case '\0':
      return fmt::format("process {} is gone", process);
    case 'T':
      return fmt::format("process {} is stopped (SIGSTOP); kill -CONT {} wakes it", process, process);
    case 't':
      return fmt::format("process {} is stopped by a debugger", process);
    case 'Z':
      return fmt::format("process {} has ended", process);
    case 'R':
      return fmt::format("process {} is computing", process);
    case 'D':
      return fmt::format("process {} waits for a disk", process);
    default:
      return fmt::format("process {} sleeps", process);
  }
}

}  // namespace zero
