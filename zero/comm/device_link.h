// DeviceLink: interface of a plug-in that moves bytes between GPU memories, through a library that the core does not
// link.
//
// A plug-in is a shared library, libzero_transport_NAME.so, with the functions zero_make_device_link_id and
// zero_open_device_link. It only queues messages in a stream of the device. DeviceCommunicator decides who takes part,
// orders streams, and handles timeouts and errors of ranks. No exception crosses the boundary: the plug-in turns it
// into a State and a text.
//
// A plug-in includes only this header of ours, and links none of our libraries. kDeviceLinkVersion guards the boundary.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

namespace zero {

constexpr int kDeviceLinkVersion = 2;

class DeviceLink {
 public:
  enum class State : std::uint8_t {
    kReady,   // everything asked for is queued or done
    kBusy,    // the library still works on the last call: call only state(), until it changes
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

  // Ends work in progress, also on the device.
  virtual ~DeviceLink() = default;

  // Element types that the library can sum.
  enum class Element : std::uint8_t { kFloat32, kFloat16, kBFloat16 };

  // The next three functions queue their work in `stream` and wait for no other rank. Addresses are on the device. All
  // ranks make the same calls in the same order; exchange() concerns only ranks that have messages for each other.
  //
  // Gathers equal blocks; `in` may be its part of `out`.
  virtual State all_gather(void* stream, std::span<const std::byte> in, std::byte* out) = 0;
  // Sums equal blocks of `numel` elements: each rank gets the sum of its own block, in the library's order and with its
  // rounding. `out` may be this rank's block of `in`; the other blocks stay unchanged.
  virtual State reduce_scatter(void* stream, const std::byte* in, std::byte* out, std::size_t numel,
                               Element element) = 0;
  // Sends and receives messages. Messages between the same two ranks match in order; no rank sends to itself.
  virtual State exchange(void* stream, std::span<const Sent> sent, std::span<const Received> received) = 0;
  virtual State state() = 0;
  // Returns a text that is valid until the next call.
  virtual const char* reason() const = 0;
  // Returns true if the library has refused this use of it, which the user can correct.
  virtual bool refused() const = 0;
  // Ends a failed run: queued work ends soon, with any bytes, and later calls fail.
  virtual void abort() = 0;
};

struct DeviceLinkFailure {
  bool configuration = false;  // the user can correct it: the library is missing, is an old one, or refuses this use
  char reason[1024] = {};
  char remedy[256] = {};
};

// The id by which the ranks of one link find each other; rank 0 makes it.
struct DeviceLinkId {
  char bytes[128] = {};
};

struct DeviceLinkRequest {
  int version = kDeviceLinkVersion;
  int rank = 0;
  int world = 1;
  DeviceLinkId id{};
};

// The functions that a plug-in exports, with C linkage. The first is Local: it opens the library, checks its version,
// and makes an id unless `id` is null. It returns false with *failure.
using MakeDeviceLinkId = bool (*)(int version, DeviceLinkId* id, DeviceLinkFailure* failure);
// Collective, for the calling thread's device. Returns null with *failure; otherwise the link is open when its state()
// is kReady.
using OpenDeviceLink = DeviceLink* (*)(const DeviceLinkRequest* request, DeviceLinkFailure* failure);

}  // namespace zero
