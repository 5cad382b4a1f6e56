// LauncherMemory: memory that outlives the rank that wrote it, because the launcher holds its descriptor, too.
//
//   if (std::optional<LauncherMemory> memory = LauncherMemory::of_environment(std::getenv)) {
//     FileDescriptor file = make_memory_file("copy", bytes);       // zero/base/memory_file.h
//     memory->put("copy/rank-00003/new/weights", file.get());
//     memory->rename("copy/rank-00003/new/", "copy/rank-00003/");
//   }
//
// The memory stays when the rank is killed and all ranks are started again. It is gone with the launcher: there is
// nothing to clean up. All ranks that one launcher started see the same names; names below "flight/", and those with
// "/tmp/" in them, are dropped before the ranks are started again. A name has at most 200 bytes of [A-Za-z0-9._/-]; a
// prefix may be empty.
//
// Every function is Local and waits for the launcher's answer. Throws CommError when the launcher is gone or does not
// answer in time, IoError when it refuses (the reason is its own). One thread at a time, one process: not after a fork.
#pragma once

#include <chrono>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "zero/launcher_memory/records.h"
#include "zero/rendezvous/detect_ranks.h"
#include "zero/rendezvous/unix_socket.h"

namespace zero {

class LauncherMemory {
 public:
  static constexpr std::chrono::milliseconds kPatience{10000};

  // ZERO_LAUNCHER_MEMORY is the number of an inherited socket. Nothing when it is not set; ConfigError when it is something
  // else. From then on what this process executes does not inherit the socket. May be called again.
  static std::optional<LauncherMemory> of_environment(const GetEnvironment& environment,
                                                      std::chrono::milliseconds timeout = kPatience);
  LauncherMemory(UnixSocket socket, std::chrono::milliseconds timeout);

  // The launcher keeps a duplicate of `fd`, a memory file, and lets go of what had that name.
  void put(std::string_view name, int fd);
  // A duplicate of what is kept; nothing when nothing has that name.
  std::optional<FileDescriptor> get(std::string_view name);
  // Ascending. More than fit into one answer (at least 80) are asked for in turn: not of one moment then.
  std::vector<std::string> list(std::string_view prefix);
  // Every name that begins with `from` begins with `to` instead; what began with `to` before is let go of. Others see
  // all of it or nothing. IoError, and nothing changed, when no name begins with `from`.
  void rename(std::string_view from, std::string_view to);
  // Lets go of every name that begins so; there need not be one.
  void remove(std::string_view prefix);
  // A random name that the launcher has as long as it lives: ranks that are told the same one see the same memory.
  std::string launcher();

 private:
  MemoryAnswer ask(MemoryRequest::Kind kind, std::string_view name, std::string_view other, int fd,
                   FileDescriptor* answered = nullptr);

  UnixSocket socket_;
  std::chrono::milliseconds timeout_;
  std::uint64_t next_number_;
};

}  // namespace zero
