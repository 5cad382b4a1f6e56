// link_over(): a MessageLink over a process group of torch.distributed, which has a backend for CPUs (gloo, UCC, MPI).
//
//   World world = world_over("0", 60s);              // the name of a group, as ProcessGroup.group_name says it
//
// The group is found by its name, so no type of pybind11 is shared with torch. The group only moves bytes: sums are
// those of MessageCommunicator, so bits equal those of every other transport. The group's own traffic goes on beside
// it, if its tags are below 2^30. The GIL is not needed.
//
// A group has no way back for a lost rank (MessageLink::door()).
#pragma once

#include <chrono>
#include <memory>
#include <string>

#include <torch/csrc/distributed/c10d/ProcessGroup.hpp>

#include "zero/comm/message/message_link.h"
#include "zero/comm/transport/world.h"

namespace zero::python {

// Local. `backend`: the group's backend for CPUs.
std::unique_ptr<MessageLink> link_over(c10::intrusive_ptr<c10d::Backend> backend);

// Collective over the group. Throws ConfigError under "process_group" for an unknown name, a group without a backend
// for CPUs, and a run in which lost ranks are started again.
World world_over(const std::string& group_name, std::chrono::milliseconds timeout);

// Local. Returns whether the group has a backend for CPUs.
bool has_cpu_backend(const std::string& group_name);

}  // namespace zero::python
