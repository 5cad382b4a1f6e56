// MessageCommunicator's messages: the header that comes before the bytes of a collective or a message, and what is
// expected of a peer. For the files of MessageCommunicator alone.
#pragma once

#include <chrono>
#include <cstdint>
#include <memory>

#include "zero/comm/message_communicator.h"

namespace zero {

constexpr std::chrono::milliseconds kFarewell{500};  // for telling the others that this rank leaves, or why it fails
constexpr std::chrono::milliseconds kEcho{50};       // for hearing from others why a rank is gone

// What the sender says of itself, in the place of its next header.
enum class MessageCommunicator::Notice : std::int32_t {
  kNone,
  kFailed,     // it ends the run, for the reason that follows
  kMayBeLost,  // the run goes on without it
  kLeaves,
};

struct MessageCommunicator::Header {
  Signature signature;  // without a notice
  Notice notice = Notice::kNone;
  std::int32_t failed_rank = -1;
  char failed_operation[192] = {};
  char failed_reason[512] = {};
};

// What comes from one peer.
struct MessageCommunicator::Exchange {
  int peer = 0;
  std::uint64_t tag = 0;  // of the header
  Header header;
  bool has_header = false;  // compared, and
  bool has_data = false;    // waited for
  bool given_up = false;    // the peer is gone
  std::unique_ptr<MessageLink::Transfer> header_transfer, data_transfer;
};

}  // namespace zero
