// The messages of MeetingStore, and the reading and writing of whole ones on a TCP socket. Knows nothing of Gloo.
#pragma once

#include <chrono>
#include <cstdint>
#include <stdexcept>
#include <string>
#include <vector>

namespace zero_gloo {

enum class Operation : std::uint32_t { kHello = 0x7a630001, kSet, kGet };

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

// False when the connection is gone.
bool write_message(int socket, const Message& message);
// Waits for a whole message until `limit` has passed. A message of more than 1 MiB counts as a connection of somebody
// else.
Read read_message(int socket, Message& message, std::chrono::milliseconds limit);

}  // namespace zero_gloo
