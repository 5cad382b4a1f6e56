// HostHello, HostAnswer: what processes of a run on one machine say to each other when they meet: values over sockets.
//
// A process tells rank 0 who it is (HostHello). Rank 0 answers with the board's descriptor (kBoard), with a connection to
// each rank that it is to talk with (kPair), and with kBegin; or it refuses.
#pragma once

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <string>

#include "zero/rendezvous/unix_socket.h"

namespace zero {

constexpr std::uint32_t kHostVersion = 0x7a630003;  // of what follows and of the board
constexpr const char* kMeeting = "rendezvous of the ranks";

struct HostHello {
  std::uint32_t version = kHostVersion;
  std::int16_t rank = 0;
  std::int16_t replacement = 0;  // above 0: of a rank that was there before
  std::int32_t world = 0;
  std::int32_t process = 0;
  std::int32_t generation = 0;
};

struct HostAnswer {
  enum class Kind : std::int32_t { kBoard, kPair, kBegin, kRefused };
  Kind kind = Kind::kBegin;
  std::int32_t rank = -1;  // kPair: whom the socket leads to; kRefused: who is at fault
  char reason[508] = {};
  std::int32_t is_replacement = 0;  // kBegin: the others have begun long ago
};
// As large as in every version before, so that another version is told what it is.
static_assert(sizeof(HostHello) == 20 && sizeof(HostAnswer) == 520);

inline void tell_refusal(UnixSocket& socket, int rank, const std::string& reason) {
  HostAnswer answer{.kind = HostAnswer::Kind::kRefused, .rank = rank};
  std::memcpy(answer.reason, reason.data(), std::min(reason.size(), sizeof answer.reason - 1));
  socket.send(&answer, sizeof answer, -1, std::chrono::milliseconds(0));
}

}  // namespace zero
