// open_device_link(): the connection between the GPUs of ranks: NCCL, a plug-in, libzero_transport_nccl.so.
//
//   auto link = open_device_link(units, device);                  // for a DeviceCommunicator over `units`
//   const DeviceLinkHere here = device_link_here();               // without a GPU: is it there, and new enough?
//
// The plug-in is opened only on request. It opens libnccl.so.2 of version 2.18 or later: the library that libtorch has
// loaded, else the one that the loader finds. Ranks find each other by an id that rank 0 sends over the host transport.
#pragma once

#include <memory>
#include <string>

#include "zero/comm/communicator.h"
#include "zero/comm/device_link.h"
#include "zero/device/device.h"

namespace zero {

// Collective. All ranks throw if one rank fails. ConfigError under "comm.transport", with the rank, the reason and a
// remedy: no plug-in, no library, an old library, two ranks on one GPU. CommError: the ranks do not connect within half
// the timeout of `control`.
std::unique_ptr<DeviceLink> open_device_link(Communicator& control, Device& device);

struct DeviceLinkHere {
  bool available = false;
  std::string why;     // the plug-in's path, or the missing part
  std::string remedy;  // set if a part is missing
};
// Local. Reports whether open_device_link() can work here.
DeviceLinkHere device_link_here();

}  // namespace zero
