// OpenSockets: listening TCP ports and abstract unix sockets of this machine, from /proc/net. Processes can meet there.
//
//   const OpenSockets before = open_sockets();
//   ...
//   for (const auto& [inode, name] : open_sockets()) ...   // "tcp 0100007F:8AE5", "@zero.cpp-0-5f3a"
//
// A socket exists as long as any process has it. A socket that is left shows a process that is left, or a descriptor
// that was passed on.
#pragma once

#include <cstdint>
#include <map>
#include <set>
#include <string>

#include <sys/types.h>

namespace zero {

using OpenSockets = std::map<std::uint64_t, std::string>;  // by inode

OpenSockets open_sockets();

// Inodes of every socket of a process. Empty if the process is gone or another user's.
std::set<std::uint64_t> sockets_of(pid_t pid);

// Whether this is an abstract socket at which ranks of this program meet.
inline bool is_rendezvous(const std::string& name) {
  return name.starts_with("@zero.cpp-");
}

}  // namespace zero
