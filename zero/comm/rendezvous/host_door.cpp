#include "zero/comm/rendezvous/host_door.h"

#include <chrono>
#include <iterator>
#include <thread>
#include <utility>

#include <fmt/format.h>

#include "zero/base/error/error.h"

namespace zero {
namespace {

using std::chrono::milliseconds;
using Result = UnixSocket::Result;

constexpr milliseconds kHelloPatience{1000};  // at the end of the run
constexpr milliseconds kSendPatience{1000};

}  // namespace

HostDoor::HostDoor(UnixSocket listener, FileDescriptor board, int world, int generation, int most)
    : listener_(std::move(listener)), board_(std::move(board)), world_(world), generation_(generation), most_(most) {}

HostDoor::~HostDoor() {
  if (listener_.get() < 0) return;  // moved from
  const std::string reason = "the run ended before this process could be taken back";
  const auto end = std::chrono::steady_clock::now() + kHelloPatience;
  try {
    knocking(0);
    while (!callers_.empty() && std::chrono::steady_clock::now() < end) {
      std::this_thread::sleep_for(milliseconds(1));
      knocking(0);
    }
  } catch (const Error&) {
    return;  // nobody can be told, and the end of the connections says the same
  }
  for (auto& [rank, socket] : waiting_) send_refusal(socket, /*rank=*/-1, reason);
}

std::optional<int> HostDoor::knocking(RankSet wanted) {
  while (std::optional<UnixSocket> socket = listener_.accept(milliseconds(0))) callers_.add(std::move(*socket));
  while (std::optional<std::pair<HostHello, UnixSocket>> caller = callers_.next())
    welcome(caller->first, std::move(caller->second));
  forget_the_dead();
  for (const auto& [rank, socket] : waiting_)
    if ((wanted & only(rank)) != 0) return rank;
  return std::nullopt;
}

void HostDoor::welcome(const HostHello& hello, UnixSocket socket) {
  if (const std::string reason = why_not(hello); !reason.empty()) return send_refusal(socket, hello.rank, reason);
  waiting_.insert_or_assign(hello.rank, std::move(socket));
}

std::string HostDoor::why_not(const HostHello& hello) const {
  if (hello.version != kHostVersion) return fmt::format("process {} runs another version of zero.cpp", hello.process);
  if (hello.generation != generation_)
    return fmt::format("rank {} is of generation {}, this run is at generation {}", hello.rank, hello.generation,
                       generation_);
  if (hello.world != world_ || hello.rank < 1 || hello.rank >= world_)
    return fmt::format("process {} believes it is rank {} of {}, rank 0 counts {} ranks", hello.process, hello.rank,
                       hello.world, world_);
  if (hello.replacement < 1)
    return fmt::format("process {} is a second rank {}: two runs have one name; set ZERO_RUN_ID", hello.process,
                       hello.rank);
  return "";
}

void HostDoor::forget_the_dead() {
  for (auto waiting = waiting_.begin(); waiting != waiting_.end();) {
    HostHello unexpected;
    const bool gone =
        waiting->second.receive(&unexpected, sizeof unexpected, nullptr, milliseconds(0)) == Result::kGone;
    waiting = gone ? waiting_.erase(waiting) : std::next(waiting);
  }
}

// If the process has ended meanwhile, the ends of its connections report that to the peers.
std::vector<UnixSocket> HostDoor::hand_out(int rank, RankSet peers) {
  UnixSocket& process = waiting_.at(rank);
  const auto send = [&](const HostAnswer& answer, int file) {
    process.send(&answer, sizeof answer, file, kSendPatience);
  };
  std::vector<UnixSocket> ends(static_cast<std::size_t>(world_));
  send({.kind = HostAnswer::Kind::kBoard}, board_.get());
  for (int peer = 1; peer < world_; ++peer) {
    if ((peers & only(peer)) == 0) continue;
    auto [theirs, ours] = UnixSocket::pair();
    send({.kind = HostAnswer::Kind::kPair, .rank = peer}, theirs.get());
    ends[static_cast<std::size_t>(peer)] = std::move(ours);
  }
  return ends;
}

UnixSocket HostDoor::let_in(int rank) {
  UnixSocket process = std::move(waiting_.extract(rank).mapped());
  const HostAnswer begin{.kind = HostAnswer::Kind::kBegin, .is_replacement = 1};
  process.send(&begin, sizeof begin, -1, kSendPatience);
  return process;
}

}  // namespace zero
