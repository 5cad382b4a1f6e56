// HostHello, HostAnswer: messages over sockets between processes of a run on one machine, when they meet. Values.
//
// A process tells rank 0 who it is (HostHello). Rank 0 answers with the board's descriptor (kBoard), with a connection
// to each rank that the process exchanges messages with (kPair), and with kBegin; or it refuses.
#pragma once

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <string>

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

inline void tell_refusal(UnixSocket& socket, int rank, const std::string& reason) {
  HostAnswer answer{.kind = HostAnswer::Kind::kRefused, .rank = rank};
  std::memcpy(answer.reason, reason.data(), std::min(reason.size(), sizeof answer.reason - 1));
  socket.send(&answer, sizeof answer, -1, std::chrono::milliseconds(0));
}

}  // namespace zero
