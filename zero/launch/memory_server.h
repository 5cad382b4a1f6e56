// MemoryServer: the launcher's side of zero/launcher_memory/launcher_memory.h. It holds memory for the ranks, so that
// it outlives them.
//
//   MemoryServer server;
//   FileDescriptor end = server.connect();   // a rank inherits it, and finds its number in ZERO_LAUNCHER_MEMORY
//   poll({server.fd(), POLLIN});   server.serve();
//   server.disconnect();                     // the ranks have ended; what they put is still there
//
// Invariant: never waits for a rank. A rank that sends nonsense is refused. A rank that does not take its answers, or
// sends records of the wrong size, is no longer served. The other ranks notice nothing. Local; not thread-safe. Throws
// IoError when the system has no descriptor left.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <string>

#include "zero/launch/memory_files.h"
#include "zero/launcher_memory/records.h"
#include "zero/rendezvous/unix_socket.h"

namespace zero {

class MemoryServer {
 public:
  explicit MemoryServer(std::size_t most_names = MemoryFiles::kMostNames);

  // The other end of a new connection, none of the three standard descriptors; not yet to be inherited.
  FileDescriptor connect();
  // Readable when a request waits.
  int fd() const { return events_.get(); }
  // Answers the requests that have come by now; of each rank only a few, so that no rank has to wait long for another.
  void serve();
  // Serves what the ranks asked before they ended, and forgets them.
  void disconnect();

  MemoryFiles& kept() { return kept_; }
  const MemoryFiles& kept() const { return kept_; }

 private:
  // False when nothing more came, or the connection was closed.
  bool serve_one(std::uint64_t connection);
  void close(std::uint64_t connection);
  MemoryAnswer answer_to(MemoryRequest& request, FileDescriptor file, int& attached);

  const std::string name_;  // random
  MemoryFiles kept_;
  FileDescriptor events_;  // of epoll, which knows every connection
  std::map<std::uint64_t, UnixSocket> connections_;
  std::uint64_t next_connection_ = 0;
};

}  // namespace zero
