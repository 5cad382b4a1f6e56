// MessageCommunicator's messages: the header before the bytes of a collective or a message, and the header that a rank
// expects from a peer. Only for the files of MessageCommunicator.
#pragma once

#include <chrono>
#include <cstdint>
#include <memory>

#include "zero/comm/message/message_communicator.h"

namespace zero {

constexpr std::chrono::milliseconds kFarewell{500};  // time to tell the others that this rank leaves, or why it fails
constexpr std::chrono::milliseconds kEcho{50};       // time to learn from others why a rank is lost

// A sender's notice about itself, in place of its next header.
enum class MessageCommunicator::Notice : std::int32_t {
  kNone,
  kFailed,     // it ends the run, for the reason in the header
  kMayBeLost,  // from now on, the run goes on without it if it is lost
  kLeaves,
};

struct MessageCommunicator::Header {
  Signature signature;  // unless there is a notice
  Notice notice = Notice::kNone;
  std::int32_t failed_rank = -1;
  char failed_operation[192] = {};
  char failed_reason[512] = {};
};

// The expected header and bytes of one peer.
struct MessageCommunicator::Exchange {
  int peer = 0;
  std::uint64_t tag = 0;  // tag of the header
  Header header;
  bool has_header = false;  // received and compared
  bool has_data = false;    // received
  bool given_up = false;    // the peer is lost
  std::unique_ptr<MessageLink::Transfer> header_transfer, data_transfer;
};

}  // namespace zero
