// Message: what RendezvousStore and its clients say, read and written whole on a TCP socket. Knows nothing of Gloo.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <span>
#include <stdexcept>
#include <string>
#include <vector>

namespace zero::meeting {

// A client's kGet may name a replacement in its value: it is answered with kRefusal where that one is not there any more.
// A client that has said its rank (kHere) and hangs up before kMet ends the meeting: whoever waits is answered with kLost.
// The keys of kHere and kLost are a rank, the value of kLost is the reason.
enum class Operation : std::uint32_t { kHello = 0x7a630012, kProof, kRefusal, kSet, kGet, kCome, kHere, kMet, kLost };

struct Message {
  Operation operation = Operation::kHello;
  std::string key;
  std::vector<char> value;
};

struct StoreError : std::runtime_error {
  // As in LinkFailure.
  StoreError(const std::string& what, int rank = -1, bool configuration = false)
      : std::runtime_error(what), rank(rank), configuration(configuration) {}
  int rank;
  bool configuration;
};

enum class Read { kDone, kLate, kClosed };

// A message of more counts as a connection of somebody else: it is not read, and no memory is taken for it.
struct Caps {
  std::uint32_t key_bytes, value_bytes;
};
inline constexpr Caps kBeforeProof{256, 64};
inline constexpr Caps kAfterProof{1 << 20, 1 << 20};

// The message that `bytes` begin with.
struct Parsed {
  enum class End {
    kWhole,
    kPart,      // more bytes are needed
    kTooLarge,  // it announces more than `caps`
  } end = End::kPart;
  std::size_t bytes = 0;  // kWhole: of the message; kPart: fewest that are needed
};
// `message` is written when it is whole.
Parsed parse_message(std::span<const char> bytes, Caps caps, Message& message);

// The bytes of a message as they are sent.
std::vector<char> to_bytes(const Message& message);
// False when the connection is gone.
bool write_message(int socket, const Message& message);
// Waits for a whole message until `limit` has passed.
Read read_message(int socket, Message& message, std::chrono::milliseconds limit, Caps caps = kAfterProof);

// Messages from a connection that is not waited for: what has come of one is kept until the rest is there.
class MessageReader {
 public:
  // kLate: no whole message yet. Takes no byte beyond the message.
  Read read(int socket, Message& message, Caps caps);

 private:
  std::vector<char> bytes_;
};

}  // namespace zero::meeting
