// UnixSocket: records of bytes, each with at most one file descriptor, between processes of one host.
//
//   UnixSocket listener = UnixSocket::listen("run-5f3a");             // an abstract name: it vanishes with the process
//   std::optional<UnixSocket> peer = UnixSocket::connect("run-5f3a");  // nothing: nobody listens
//   peer->send(&record, sizeof record, window_fd);
//
// SOCK_SEQPACKET: a record arrives whole or not at all, in order. Everything is Local and throws IoError; nothing
// raises SIGPIPE. A peer that is gone is not an error but an answer.
#pragma once

#include <chrono>
#include <cstddef>
#include <optional>
#include <string_view>
#include <utility>

#include <sys/types.h>

#include "zero/base/file.h"

namespace zero {

class UnixSocket {
 public:
  enum class Result { kDone, kWouldBlock, kGone };

  UnixSocket() = default;
  explicit UnixSocket(FileDescriptor fd) : fd_(std::move(fd)) {}

  // Nothing when somebody else holds the name.
  static std::optional<UnixSocket> listen(std::string_view name);
  // Nothing when nobody listens there.
  static std::optional<UnixSocket> connect(std::string_view name);
  static std::pair<UnixSocket, UnixSocket> pair();

  // Waits for a connection; nothing after `limit`.
  std::optional<UnixSocket> accept(std::chrono::milliseconds limit);

  // `fd` -1 sends none. Blocks for at most `limit` (kWouldBlock then).
  Result send(const void* record, std::size_t bytes, int fd, std::chrono::milliseconds limit);
  // A record of exactly `bytes`; a descriptor that came with it goes into *fd (may be null: then none is expected).
  Result receive(void* record, std::size_t bytes, FileDescriptor* fd, std::chrono::milliseconds limit);

  int get() const { return fd_.get(); }
  uid_t peer_user() const;

 private:
  FileDescriptor fd_;
};

}  // namespace zero
