#include "zero/comm/rendezvous/host_rendezvous.h"

#include <algorithm>
#include <cstring>
#include <thread>

#include <fmt/format.h>
#include <signal.h>
#include <unistd.h>

#include "zero/base/error/error.h"
#include "zero/base/process/host_language.h"
#include "zero/base/process/memory_file.h"
#include "zero/comm/rendezvous/host_messages.h"
#include "zero/comm/rendezvous/rank_set.h"

namespace zero {
namespace {

using Clock = std::chrono::steady_clock;
using std::chrono::milliseconds;
using Result = UnixSocket::Result;

constexpr milliseconds kSlice{50};
constexpr milliseconds kHelloSlice{1};  // while a process has connected and not yet said hello
constexpr const char* kEndedEarly = "its process ended before all ranks arrived";
constexpr const char* kEndedMeanwhile = "its process ended before this process could be taken back";
constexpr const char* kMustEnd = "received SIGINT or SIGTERM before all ranks arrived";

class Deadline {
 public:
  explicit Deadline(milliseconds timeout) : timeout_(timeout), end_(Clock::now() + timeout) {}
  bool passed() const { return Clock::now() >= end_; }
  milliseconds slice() const {
    const auto left = std::chrono::duration_cast<milliseconds>(end_ - Clock::now());
    return std::clamp(left, milliseconds(1), kSlice);
  }
  milliseconds timeout() const { return timeout_; }

 private:
  milliseconds timeout_;
  Clock::time_point end_;
};

// A rank that defers these signals to the end of its step would wait here for ranks that the signals have ended.
bool must_end() {
  check_wait();
  sigset_t pending;
  sigemptyset(&pending);
  sigpending(&pending);
  return sigismember(&pending, SIGINT) == 1 || sigismember(&pending, SIGTERM) == 1;
}

// Rank 0's side.
class Host {
 public:
  Host(const std::string& name, int world, int generation, std::size_t board_bytes, milliseconds timeout,
       int most_replacements)
      : name_(name),
        world_(world),
        generation_(generation),
        most_replacements_(most_replacements),
        board_bytes_(board_bytes),
        deadline_(timeout),
        arrived_(only(0)) {
    rendezvous_.sockets.resize(world);
  }

  HostRendezvous run() {
    if (world_ > 1) gather();
    FileDescriptor board = make_memory_file("zero.cpp board", board_bytes_);
    rendezvous_.board = map_memory_file(board.get(), board_bytes_, true);
    for (int rank = 1; rank < world_; ++rank) send_to(rank, {.kind = HostAnswer::Kind::kBoard}, board.get());
    for (int low = 1; low < world_; ++low) {
      for (int high = low + 1; high < world_; ++high) {
        const auto [to_high, to_low] = UnixSocket::pair();
        send_to(low, {.kind = HostAnswer::Kind::kPair, .rank = high}, to_high.get());
        send_to(high, {.kind = HostAnswer::Kind::kPair, .rank = low}, to_low.get());
      }
    }
    for (int rank = 1; rank < world_; ++rank) send_to(rank, {.kind = HostAnswer::Kind::kBegin}, -1);
    if (listener_ && most_replacements_ > 0)
      rendezvous_.door.emplace(std::move(*listener_), std::move(board), world_, generation_, most_replacements_);
    return std::move(rendezvous_);
  }

 private:
  void gather() {
    while (!(listener_ = UnixSocket::listen(name_))) {
      if (deadline_.passed()) {
        refuse(-1, fmt::format("another run on this machine is called '{}'; end it, or set ZERO_RUN_ID", name_));
      }
      if (must_end()) refuse(0, kMustEnd);
      std::this_thread::sleep_for(deadline_.slice());
    }
    while (arrived_ != first_ranks(world_)) {
      const milliseconds limit = callers_.empty() ? deadline_.slice() : kHelloSlice;
      if (std::optional<UnixSocket> socket = listener_->accept(limit)) callers_.add(std::move(*socket));
      while (std::optional<std::pair<HostHello, UnixSocket>> caller = callers_.next())
        welcome(caller->first, std::move(caller->second));
      look_for_the_dead();
      if (must_end()) refuse(0, kMustEnd);
      if (deadline_.passed()) {
        const RankSet missing = first_ranks(world_) & ~arrived_;
        refuse(std::countr_zero(missing),
               fmt::format("{} did not arrive within {} ms", format_ranks(missing), deadline_.timeout().count()));
      }
    }
  }

  void welcome(const HostHello& hello, UnixSocket socket) {
    if (hello.version == kHostVersion && hello.generation < generation_) {
      send_refusal(socket, hello.rank,
                   fmt::format("rank {} is of generation {}, this run is at generation {}", hello.rank,
                               hello.generation, generation_));
      return;
    }
    const std::string reason = why_not(hello);
    if (!reason.empty()) {
      const int at_fault = hello.generation > generation_ ? 0 : hello.rank;
      send_refusal(socket, at_fault, reason);
      refuse(at_fault, reason);
    }
    arrived_ |= only(hello.rank);
    rendezvous_.sockets[hello.rank] = std::move(socket);
  }

  std::string why_not(const HostHello& hello) const {
    if (hello.version != kHostVersion) return fmt::format("process {} runs another version of zero.cpp", hello.process);
    if (hello.generation > generation_) {
      return fmt::format("rank 0 is of generation {}, this run is at generation {}", generation_, hello.generation);
    }
    if (hello.world != world_ || hello.rank < 1 || hello.rank >= world_) {
      return fmt::format("process {} believes it is rank {} of {}, rank 0 counts {} ranks", hello.process, hello.rank,
                         hello.world, world_);
    }
    if ((arrived_ & only(hello.rank)) != 0 && hello.replacement > 0) return kEndedEarly;
    if ((arrived_ & only(hello.rank)) != 0) {
      return fmt::format("process {} is a second rank {}: two runs are called '{}'; set ZERO_RUN_ID", hello.process,
                         hello.rank, name_);
    }
    return "";
  }

  void look_for_the_dead() {
    for (int rank = 1; rank < world_; ++rank) {
      if (rendezvous_.sockets[rank].get() < 0) continue;
      HostHello unexpected;
      if (rendezvous_.sockets[rank].receive(&unexpected, sizeof unexpected, nullptr, milliseconds(0)) ==
          Result::kGone) {
        refuse(rank, kEndedEarly);
      }
    }
  }

  void send_to(int rank, const HostAnswer& answer, int fd) {
    const Result result = rendezvous_.sockets[rank].send(&answer, sizeof answer, fd, deadline_.timeout());
    if (result == Result::kDone) return;
    refuse(rank, result == Result::kGone ? kEndedEarly : "takes no messages");
  }

  [[noreturn]] void refuse(int rank, const std::string& reason) {
    for (UnixSocket& socket : rendezvous_.sockets) {
      if (socket.get() >= 0) send_refusal(socket, rank, reason);
    }
    throw CommError(rank, kMeeting, reason);
  }

  std::string name_;
  int world_;
  int generation_;
  int most_replacements_;
  std::size_t board_bytes_;
  Deadline deadline_;
  std::optional<UnixSocket> listener_;
  HostCallers callers_;
  RankSet arrived_;
  HostRendezvous rendezvous_;
};

UnixSocket call_rank_0(const std::string& name, int rank, const Deadline& deadline, int replacement) {
  while (true) {
    if (std::optional<UnixSocket> socket = UnixSocket::connect(name)) {
      if (socket->peer_user() == geteuid()) return std::move(*socket);
      throw CommError(0, kMeeting, fmt::format("the socket '{}' belongs to another user; set ZERO_RUN_ID", name));
    }
    if (must_end()) throw CommError(rank, kMeeting, kMustEnd);
    if (deadline.passed()) {
      const std::string within = fmt::format("'{}' within {} ms", name, deadline.timeout().count());
      // Rank 0 may have done its part, and ended.
      if (replacement > 0)
        throw CommError(-1, kMeeting,
                        fmt::format("nobody opened {}: the run has ended, or rank 0 has not begun", within));
      throw CommError(0, kMeeting, fmt::format("did not open {}", within));
    }
    std::this_thread::sleep_for(milliseconds(5));
  }
}

HostRendezvous join(const std::string& name, int rank, int world, int generation, std::size_t board_bytes,
                    milliseconds timeout, int replacement) {
  const Deadline deadline(timeout);
  HostRendezvous rendezvous;
  rendezvous.sockets.resize(world);
  UnixSocket socket = call_rank_0(name, rank, deadline, replacement);
  const HostHello hello{.rank = static_cast<std::int16_t>(rank),
                        .replacement = static_cast<std::int16_t>(replacement),
                        .world = world,
                        .process = getpid(),
                        .generation = generation};
  socket.send(&hello, sizeof hello, -1, timeout);
  // Rank 0 decides who is late: it began to wait at most a slice after this rank, or not at all. In a run that has
  // begun, rank 0 looks for new processes between two pushes, and lives meanwhile.
  const Deadline patience(timeout + milliseconds(1000));
  while (true) {
    HostAnswer answer;
    FileDescriptor fd;
    const Result result = socket.receive(&answer, sizeof answer, &fd, kSlice);
    if (result == Result::kGone) throw CommError(0, kMeeting, replacement > 0 ? kEndedMeanwhile : kEndedEarly);
    if (result == Result::kWouldBlock) {
      if (must_end()) throw CommError(rank, kMeeting, kMustEnd);
      if (replacement == 0 && patience.passed())
        throw CommError(0, kMeeting, fmt::format("did not answer within {} ms", timeout.count()));
      continue;
    }
    switch (answer.kind) {
      case HostAnswer::Kind::kRefused:
        answer.reason[sizeof answer.reason - 1] = '\0';
        throw CommError(answer.rank, kMeeting, answer.reason);
      case HostAnswer::Kind::kBoard:
        rendezvous.board = map_memory_file(fd.get(), board_bytes, true);
        break;
      case HostAnswer::Kind::kPair:
        if (answer.rank < 1 || answer.rank >= world || answer.rank == rank) {
          throw CommError(
              0, kMeeting,
              fmt::format("leads rank {} of {} to a rank {}: it is another program", rank, world, answer.rank));
        }
        rendezvous.sockets[answer.rank] = UnixSocket(std::move(fd));
        break;
      case HostAnswer::Kind::kBegin:
        rendezvous.sockets[0] = std::move(socket);
        rendezvous.is_replacement = answer.is_replacement != 0;
        return rendezvous;
    }
  }
}

}  // namespace

HostRendezvous meet_on_host(const std::string& name, int rank, int world, int generation, std::size_t board_bytes,
                            milliseconds timeout, const HostReplacements& replacements) {
  return rank == 0 ? Host(name, world, generation, board_bytes, timeout, replacements.most).run()
                   : join(name, rank, world, generation, board_bytes, timeout, replacements.number);
}

}  // namespace zero
