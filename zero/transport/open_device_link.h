// open_device_link(): the way between the GPUs of ranks, NCCL, which is a plug-in, libzero_transport_nccl.so.
//
//   auto link = open_device_link(units, device);                  // for a DeviceCommunicator over `units`
//   const DeviceLinkHere here = device_link_here();               // without a GPU: is it there, and new enough?
//
// The plug-in is opened when asked for, and it opens libnccl.so.2 of version 2.18 or later: the one that libtorch has loaded, else the
// one that the loader finds. Ranks find each other by an id that rank 0 sends over the transport of the host.
#pragma once

#include <memory>
#include <string>

#include "zero/comm/communicator.h"
#include "zero/comm/device_link.h"
#include "zero/device/device.h"

namespace zero {

// Collective. All ranks throw if one cannot: ConfigError under "comm.transport", with the rank, the reason and what to do (no plug-in,
// no library, one that is too old, two ranks on one GPU); CommError where the ranks do not connect in half the timeout of `control`.
std::unique_ptr<DeviceLink> open_device_link(Communicator& control, Device& device);

struct DeviceLinkHere {
  bool available = false;
  std::string why;     // the plug-in's path, or what is missing
  std::string remedy;  // where something is
};
// Local.
DeviceLinkHere device_link_here();

}  // namespace zero
