// open_transport(): a communicator by its name in `[comm] transport`; transports that are plug-ins are opened here.
//
//   auto comm = open_transport("gloo", detect_ranks({}, getenv), 60s);
//
// shared_memory is part of zero_core. mpi and gloo are libraries of their own, libzero_transport_NAME.so, looked for
// beside zero_core and where it was built, and opened only when asked for, so that one build of zero.cpp runs with and
// without them. nccl is one, too, but moves bytes of GPUs alone (open_device_link.h). in_process is not opened here: its ranks are threads (zero/comm/in_process.h).
#pragma once

#include <chrono>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "zero/comm/communicator.h"
#include "zero/rendezvous/detect_ranks.h"

namespace zero {

// Collective. "auto" is shared_memory where all ranks are on this machine, else mpi under Open MPI and PMI, else gloo.
// Throws ConfigError for a name that is not in the table (with the names), or a plug-in that is not there (with the
// package that gives it); CommError when the ranks do not find each other.
std::unique_ptr<Communicator> open_transport(std::string_view name, const RankEnvironment& ranks,
                                             std::chrono::milliseconds timeout);

// Local, and opens nothing. Throws as open_transport() does for a plug-in that is not there.
void require_transport(std::string_view name);

struct TransportStatus {
  std::string name;
  bool available = false;
  std::string why;  // "embedded", the plug-in's path, or what is missing
};

// Local. All transports of the table, tried out: for `zero doctor`.
std::vector<TransportStatus> transport_statuses();

}  // namespace zero
