// Where processes of this machine can be met: listening TCP ports and abstract unix sockets, as /proc/net tells.
//
//   const OpenSockets before = open_sockets();
//   ...
//   for (const auto& [inode, name] : open_sockets()) ...   // "tcp 0100007F:8AE5", "@zero.cpp-0-5f3a"
//
// A socket lives as long as any process has it, so that one which is left behind tells of a process that is, or of a
// descriptor that was passed on.
#pragma once

#include <cstdint>
#include <map>
#include <set>
#include <string>

#include <sys/types.h>

namespace zero {

using OpenSockets = std::map<std::uint64_t, std::string>;  // by inode

OpenSockets open_sockets();

// Inodes of every socket that a process has; none of one that is gone, or another user's.
std::set<std::uint64_t> sockets_of(pid_t pid);

// Abstract ones by which ranks of this program meet.
inline bool is_rendezvous(const std::string& name) {
  return name.starts_with("@zero.cpp-");
}

}  // namespace zero
