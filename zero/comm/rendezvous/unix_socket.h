// UnixSocket: sends records of bytes, each with at most one file descriptor, between processes of one machine.
//
//   UnixSocket listener = UnixSocket::listen("run-5f3a");             // an abstract name: it vanishes with the process
//   std::optional<UnixSocket> peer = UnixSocket::connect("run-5f3a");  // nothing: nobody listens
//   peer->send(&record, sizeof record, window_fd);
//
// SOCK_SEQPACKET: a record arrives whole or not at all, in order. All functions are Local and throw IoError; none
// raises SIGPIPE. A closed peer is a result (kGone), not an error.
#pragma once

#include <chrono>
#include <cstddef>
#include <optional>
#include <string_view>
#include <utility>

#include <sys/types.h>

#include "zero/base/files/file.h"

namespace zero {

class UnixSocket {
 public:
  enum class Result { kDone, kWouldBlock, kGone };

  UnixSocket() = default;
  explicit UnixSocket(FileDescriptor fd) : fd_(std::move(fd)) {}

  // Returns nothing if another process has the name.
  static std::optional<UnixSocket> listen(std::string_view name);
  // Returns nothing if nobody listens there.
  static std::optional<UnixSocket> connect(std::string_view name);
  static std::pair<UnixSocket, UnixSocket> pair();

  // Waits for a connection; returns nothing after `limit`.
  std::optional<UnixSocket> accept(std::chrono::milliseconds limit);

  // Sends a record; `fd` -1: without a descriptor. Blocks for at most `limit`, and then returns kWouldBlock.
  Result send(const void* record, std::size_t bytes, int fd, std::chrono::milliseconds limit);
  // Receives a record of exactly `bytes`. Its descriptor, if any, is stored in *fd; `fd` may be null if none is
  // expected.
  Result receive(void* record, std::size_t bytes, FileDescriptor* fd, std::chrono::milliseconds limit);

  int get() const { return fd_.get(); }
  uid_t peer_user() const;

 private:
  FileDescriptor fd_;
};

}  // namespace zero
