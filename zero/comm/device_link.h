// DeviceLink: the interface of a plug-in that moves bytes between the memories of GPUs, by a library that the core does not link.
//
// A plug-in is a shared library, libzero_transport_NAME.so, with the functions zero_make_device_link_id and zero_open_device_link. It only
// queues messages in a stream of the device: who takes part, the order of streams, time and errors of ranks are DeviceCommunicator's. No
// exception crosses the border: the plug-in turns it into a State and a text.
//
// A plug-in includes this header and no other of ours, and links none of our libraries. kDeviceLinkVersion guards the border.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

namespace zero {

constexpr int kDeviceLinkVersion = 2;

class DeviceLink {
 public:
  enum class State : std::uint8_t {
    kReady,   // all that was asked for is queued, or done
    kBusy,    // the library is still at the last call: ask state() again, and call nothing else meanwhile
    kFailed,  // for good; reason() says why
  };
  struct Sent {
    int to = 0;
    const std::byte* data = nullptr;
    std::size_t bytes = 0;
  };
  struct Received {
    int from = 0;
    std::byte* data = nullptr;
    std::size_t bytes = 0;
  };

  // Ends what is under way, also on the device.
  virtual ~DeviceLink() = default;

  // What the library adds up.
  enum class Element : std::uint8_t { kFloat32, kFloat16, kBFloat16 };

  // Each of these queues its work in `stream` and waits for no other rank. Addresses are the device's. All ranks make the same calls in
  // the same order; of exchange() those that have messages for each other.
  // Equal blocks; `in` may be its place in `out`.
  virtual State all_gather(void* stream, std::span<const std::byte> in, std::byte* out) = 0;
  // Equal blocks of `numel` elements, of which each rank gets the sum of its own, in the library's order and with its rounding. `out` may
  // be this rank's block of `in`; the other blocks stay as they are.
  virtual State reduce_scatter(void* stream, const std::byte* in, std::byte* out, std::size_t numel,
                               Element element) = 0;
  // Messages between the same two ranks match in order; no rank sends to itself.
  virtual State exchange(void* stream, std::span<const Sent> sent, std::span<const Received> received) = 0;
  virtual State state() = 0;
  // Valid until the next call.
  virtual const char* reason() const = 0;
  // The library has refused this use of it: the user can put it right.
  virtual bool refused() const = 0;
  // The run has failed: what is queued ends soon, with any bytes, and later calls fail.
  virtual void abort() = 0;
};

struct DeviceLinkFailure {
  bool configuration = false;  // the user can put it right: the library is not there, is too old, or refuses this use
  char reason[1024] = {};
  char remedy[256] = {};
};

// By which the ranks of one link find each other; rank 0 makes it.
struct DeviceLinkId {
  char bytes[128] = {};
};

struct DeviceLinkRequest {
  int version = kDeviceLinkVersion;
  int rank = 0;
  int world = 1;
  DeviceLinkId id{};
};

// What a plug-in exports, with C linkage. Local: opens the library, looks at its version, and makes an id where `id` is not null.
// False: see *failure.
using MakeDeviceLinkId = bool (*)(int version, DeviceLinkId* id, DeviceLinkFailure* failure);
// Collective, for the device that is the calling thread's. nullptr: see *failure. Else it is open when its state() is kReady.
using OpenDeviceLink = DeviceLink* (*)(const DeviceLinkRequest* request, DeviceLinkFailure* failure);

}  // namespace zero
