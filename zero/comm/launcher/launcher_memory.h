// LauncherMemory: memory that outlives the rank that wrote it, because the launcher also holds its descriptor.
//
//   if (std::optional<LauncherMemory> memory = LauncherMemory::of_environment(std::getenv)) {
//     FileDescriptor file = make_memory_file("copy", bytes);       // zero/base/process/memory_file.h
//     memory->put("copy/rank-00003/new/weights", file.get());
//     memory->rename("copy/rank-00003/new/", "copy/rank-00003/");
//   }
//
// The memory survives the death of the rank and a restart of all ranks. It is freed with the launcher, so nobody needs
// to clean up. All ranks of one launcher see the same names. Before a restart of the ranks, names that begin with
// "flight/" or contain "/tmp/" are dropped. A name has at most 200 bytes of [A-Za-z0-9._/-]; a prefix may be empty.
//
// Functions are Local and wait for the launcher's answer. They throw CommError if the launcher has ended or does not
// answer in time, IoError if it refuses, with its reason. One thread at a time, in one process: not after a fork.
#pragma once

#include <chrono>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "zero/comm/launcher/records.h"
#include "zero/comm/rendezvous/detect_ranks.h"
#include "zero/comm/rendezvous/unix_socket.h"

namespace zero {

class LauncherMemory {
 public:
  static constexpr std::chrono::milliseconds kPatience{10000};

  // Connects to the launcher. ZERO_LAUNCHER_MEMORY is the number of an inherited socket: nothing if it is not set,
  // ConfigError if it is no such socket. From then on, programs that this process executes do not inherit the socket.
  // May be called again.
  static std::optional<LauncherMemory> of_environment(const GetEnvironment& environment,
                                                      std::chrono::milliseconds timeout = kPatience);
  LauncherMemory(UnixSocket socket, std::chrono::milliseconds timeout);

  // Gives the launcher a duplicate of `fd`, a memory file. The launcher drops the earlier memory of that name.
  void put(std::string_view name, int fd);
  // Returns a duplicate of the descriptor with that name; nothing if there is none.
  std::optional<FileDescriptor> get(std::string_view name);
  // Returns the names that begin with `prefix`, ascending. More names than fit into one answer (at least 80) need
  // several requests, and are then not of one moment.
  std::vector<std::string> list(std::string_view prefix);
  // Replaces the prefix `from` by `to` in every name that has it, and drops names that had the prefix `to` before.
  // Other ranks see all of this or nothing. Throws IoError, and changes nothing, if no name begins with `from`.
  void rename(std::string_view from, std::string_view to);
  // Drops every name that begins with `prefix`; there may be none.
  void remove(std::string_view prefix);
  // Returns the random name of the launcher, which it keeps as long as it lives. Ranks that get the same name see the
  // same memory.
  std::string launcher();

 private:
  MemoryAnswer ask(MemoryRequest::Kind kind, std::string_view name, std::string_view other, int fd,
                   FileDescriptor* answered = nullptr);

  UnixSocket socket_;
  std::chrono::milliseconds timeout_;
  std::uint64_t next_number_;
};

}  // namespace zero
