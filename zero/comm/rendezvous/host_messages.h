// HostHello, HostAnswer: messages over sockets between processes of a run on one machine, when they meet. Values.
//
// A process tells rank 0 who it is (HostHello). Rank 0 answers with the board's descriptor (kBoard), and with a
// connection to each rank that the process exchanges messages with (kPair). Then it answers kBegin. Or it refuses.
// HostCallers are the connections to rank 0 that have not yet said hello.
#pragma once

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <unistd.h>

#include "zero/comm/rendezvous/unix_socket.h"

namespace zero {

constexpr std::uint32_t kHostVersion = 0x7a630003;  // of these messages and of the board
constexpr const char* kMeeting = "rendezvous of the ranks";

struct HostHello {
  std::uint32_t version = kHostVersion;
  std::int16_t rank = 0;
  std::int16_t replacement = 0;  // above 0: the process replaces a lost one
  std::int32_t world = 0;
  std::int32_t process = 0;
  std::int32_t generation = 0;
};

struct HostAnswer {
  enum class Kind : std::int32_t { kBoard, kPair, kBegin, kRefused };
  Kind kind = Kind::kBegin;
  std::int32_t rank = -1;  // kPair: rank at the socket's other end; kRefused: rank at fault, or -1
  char reason[508] = {};
  std::int32_t is_replacement = 0;  // kBegin: the other ranks have begun long ago
};
// The sizes are those of every earlier version, so a process of another version can be told about the mismatch.
static_assert(sizeof(HostHello) == 20 && sizeof(HostAnswer) == 520);

inline void send_refusal(UnixSocket& socket, int rank, const std::string& reason) {
  HostAnswer answer{.kind = HostAnswer::Kind::kRefused, .rank = rank};
  std::memcpy(answer.reason, reason.data(), std::min(reason.size(), sizeof answer.reason - 1));
  socket.send(&answer, sizeof answer, -1, std::chrono::milliseconds(0));
}

// A busy machine may stop a process for seconds after it has connected, so a caller has any time to say hello. Local.
// Throws IoError.
class HostCallers {
 public:
  bool empty() const { return sockets_.empty(); }
  // Ignores a connection of another user.
  void add(UnixSocket socket) {
    if (socket.peer_user() == geteuid()) sockets_.push_back(std::move(socket));
  }
  // Takes a caller that has said hello; empty: there is none. Never waits. Forgets callers that have hung up.
  std::optional<std::pair<HostHello, UnixSocket>> next() {
    for (auto caller = sockets_.begin(); caller != sockets_.end();) {
      HostHello hello;
      const UnixSocket::Result result = caller->receive(&hello, sizeof hello, nullptr, std::chrono::milliseconds(0));
      if (result == UnixSocket::Result::kWouldBlock) {
        ++caller;
        continue;
      }
      UnixSocket socket = std::move(*caller);
      caller = sockets_.erase(caller);
      if (result == UnixSocket::Result::kDone) return std::pair(hello, std::move(socket));
    }
    return std::nullopt;
  }

 private:
  std::vector<UnixSocket> sockets_;
};

}  // namespace zero
