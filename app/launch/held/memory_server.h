// MemoryServer: the launcher's side of zero/comm/launcher/launcher_memory.h. It holds memory that outlives the ranks.
//
//   MemoryServer server;
//   FileDescriptor end = server.connect();   // a rank inherits it, and finds its number in ZERO_LAUNCHER_MEMORY
//   poll({server.fd(), POLLIN});   server.serve();
//   server.disconnect();                     // the ranks have ended; the memory that they put is kept
//
// Invariant: it never waits for a rank. A malformed request is refused. The server closes the connection of a rank that
// does not read its answers, or that sends records of the wrong size. Other ranks are not affected. Local; not
// thread-safe. Throws IoError if the system has no descriptor left.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <string>

#include "zero/comm/launcher/records.h"
#include "zero/comm/rendezvous/unix_socket.h"

#include "app/launch/held/memory_files.h"

namespace zero {

class MemoryServer {
 public:
  explicit MemoryServer(std::size_t most_names = MemoryFiles::kMostNames);

  // Returns the other end of a new connection. It is not a standard descriptor, and is still closed on exec.
  FileDescriptor connect();
  // Returns a descriptor that is readable while a request waits.
  int fd() const { return events_.get(); }
  // Answers the requests that have arrived, only a few of each rank, so no rank waits long for another.
  void serve();
  // Answers the requests that the ranks sent before they ended, and closes all connections.
  void disconnect();

  MemoryFiles& files() { return files_; }
  const MemoryFiles& files() const { return files_; }

 private:
  // Returns false if no request was waiting, or if the connection was closed.
  bool serve_one(std::uint64_t connection);
  void close(std::uint64_t connection);
  MemoryAnswer answer_to(MemoryRequest& request, FileDescriptor file, int& attached);

  const std::string name_;  // random
  MemoryFiles files_;
  FileDescriptor events_;  // an epoll descriptor with every connection
  std::map<std::uint64_t, UnixSocket> connections_;
  std::uint64_t next_connection_ = 0;
};

}  // namespace zero
