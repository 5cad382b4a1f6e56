// unclaimed_port(): a port at which nobody listens. A test may listen there later, or expect that nobody does.
//
// The port is below the range from which the system chooses free ports, so no parallel test receives it. Processes
// begin their search at different ports.
#pragma once

#include <atomic>
#include <cstdint>
#include <fstream>
#include <stdexcept>

#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include "zero/base/files/file.h"

namespace zero {

// Throws if there is none.
inline int unclaimed_port() {
  constexpr int kLowest = 10000;
  static std::atomic<int> place = getpid() * 61;
  int given_from = 32768;
  std::ifstream("/proc/sys/net/ipv4/ip_local_port_range") >> given_from;
  for (int i = kLowest; i < given_from; ++i) {
    const int port = kLowest + place++ % (given_from - kLowest);
    const FileDescriptor fd(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_port = htons(static_cast<std::uint16_t>(port));
    if (bind(fd.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address) == 0) return port;
  }
  throw std::runtime_error("no port is free");
}

}  // namespace zero
