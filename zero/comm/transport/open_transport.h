// open_transport(): opens a communicator by its name in `[comm] transport`, and the plug-in that it needs.
//
//   auto comm = open_transport("gloo", detect_ranks({}, getenv), 60s);
//
// shared_memory is part of zero_core. mpi and gloo are libraries of their own, libzero_transport_NAME.so. They are
// looked for beside zero_core and in the folder in which it was built. They are opened only on request, so one build of
// zero.cpp runs with and without them. nccl is also such a library, but moves only bytes of GPUs (open_device_link.h).
// in_process is not opened here, because its ranks are threads (zero/comm/board/in_process.h).
#pragma once

#include <chrono>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "zero/comm/communicator.h"
#include "zero/comm/rendezvous/detect_ranks.h"

namespace zero {

// Collective. "auto" is shared_memory if all ranks are on this machine, else mpi under Open MPI and PMI, else gloo.
// Throws ConfigError for an unknown name (with the known names) or a missing plug-in (with the package that provides
// it). Throws CommError if the ranks do not find each other.
std::unique_ptr<Communicator> open_transport(std::string_view name, const RankEnvironment& ranks,
                                             std::chrono::milliseconds timeout);

// Local; opens nothing. Throws as open_transport() does for a missing plug-in.
void require_transport(std::string_view name);

struct TransportStatus {
  std::string name;
  bool available = false;
  std::string why;  // "embedded", the plug-in's path, or the missing part
};

// Local. Tries all transports of the table, for `zero doctor`.
std::vector<TransportStatus> transport_statuses();

}  // namespace zero
