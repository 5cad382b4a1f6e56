// Message: a message between RendezvousStore and its clients, on a TCP socket. Does not depend on Gloo.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <span>
#include <stdexcept>
#include <string>
#include <vector>

namespace zero::meeting {

// A kGet of a client may name a replacement in its value: it is answered with kRefusal if that replacement is gone. A
// client that has sent its rank (kHere) and hangs up before kMet ends the meeting: waiting clients are answered with
// kLost. A replacement is also answered with kLost if the run has ended; then nobody is at fault. The key of kHere is a
// rank. The key of kLost is the rank at fault, or empty, and its value is the reason.
enum class Operation : std::uint32_t { kHello = 0x7a630012, kProof, kRefusal, kSet, kGet, kCome, kHere, kMet, kLost };

struct Message {
  Operation operation = Operation::kHello;
  std::string key;
  std::vector<char> value;
};

struct StoreError : std::runtime_error {
  // `rank` and `configuration`: as in LinkFailure.
  StoreError(const std::string& what, int rank = -1, bool configuration = false)
      : std::runtime_error(what), rank(rank), configuration(configuration) {}
  int rank;
  bool configuration;
};

enum class Read { kDone, kLate, kClosed };

// Largest sizes of a message. A larger message is taken for a stranger's: it is not read, and no memory is allocated
// for it.
struct Caps {
  std::uint32_t key_bytes, value_bytes;
};
inline constexpr Caps kBeforeProof{256, 64};
inline constexpr Caps kAfterProof{1 << 20, 1 << 20};

// The result of parse_message().
struct Parsed {
  enum class End {
    kWhole,
    kPart,      // more bytes are needed
    kTooLarge,  // it announces more bytes than `caps`
  } end = End::kPart;
  std::size_t bytes = 0;  // kWhole: size of the message; kPart: least number of bytes that are needed
};
// Parses the message at the start of `bytes`. `message` is written only when it is whole.
Parsed parse_message(std::span<const char> bytes, Caps caps, Message& message);

// Returns the bytes of a message as they are sent.
std::vector<char> to_bytes(const Message& message);
// Returns false if the connection is closed.
bool write_message(int socket, const Message& message);
// Waits for a whole message until `limit` has passed.
Read read_message(int socket, Message& message, std::chrono::milliseconds limit, Caps caps = kAfterProof);

// Reads messages from a connection without waiting: keeps the received part of a message until the rest arrives.
class MessageReader {
 public:
  // Returns kLate if there is no whole message yet. Reads no byte beyond the message.
  Read read(int socket, Message& message, Caps caps);

 private:
  std::vector<char> bytes_;
};

}  // namespace zero::meeting
