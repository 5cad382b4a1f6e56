#include "tests/faults/open_sockets.h"

#include <filesystem>
#include <fstream>
#include <sstream>
#include <system_error>
#include <vector>

#include <fmt/format.h>

namespace zero {
namespace {

std::vector<std::vector<std::string>> table(const char* path) {
  std::vector<std::vector<std::string>> rows;
  std::ifstream file(path);
  std::string line;
  std::getline(file, line);  // names of the columns
  while (std::getline(file, line)) {
    std::istringstream words(line);
    std::vector<std::string>& row = rows.emplace_back();
    for (std::string word; words >> word;) row.push_back(word);
  }
  return rows;
}

}  // namespace

OpenSockets open_sockets() {
  const std::string kListening = "0A";
  OpenSockets open;
  for (const char* path : {"/proc/net/tcp", "/proc/net/tcp6"}) {
    for (const auto& row : table(path)) {  // sl, local, remote, state, queues, timer, retransmits, uid, timeout, inode
      if (row.size() > 9 && row[3] == kListening) open[std::stoull(row[9])] = "tcp " + row[1];
    }
  }
  for (const auto& row : table("/proc/net/unix")) {  // number, references, protocol, flags, type, state, inode, path
    if (row.size() > 7 && row[7].starts_with('@')) open[std::stoull(row[6])] = row[7];
  }
  return open;
}

std::set<std::uint64_t> sockets_of(pid_t pid) {
  const std::string kSocket = "socket:[";
  std::set<std::uint64_t> inodes;
  std::error_code error;
  for (std::filesystem::directory_iterator entry(fmt::format("/proc/{}/fd", pid), error), end; !error && entry != end;
       entry.increment(error)) {
    std::error_code closed;
    const std::string target = std::filesystem::read_symlink(entry->path(), closed);
    if (target.starts_with(kSocket)) inodes.insert(std::stoull(target.substr(kSocket.size())));
  }
  return inodes;
}

}  // namespace zero
