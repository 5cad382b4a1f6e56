// AccessMap: for each byte, the last operations that read and wrote it. It tells whether another operation is after
// them.
//
//   for (const Conflict& conflict : map.conflicts(operation, access)) ...  // these two have no order
//   map.record(operation, access);
//
// It keeps each lane's last read and last write of a byte: an operation after those is after all earlier ones. An
// operation without conflicts is after every earlier operation that it must follow. Local; one thread.
#pragma once

#include <array>
#include <cstddef>
#include <map>
#include <memory>
#include <span>
#include <vector>

#include "zero/device/kernel.h"

#include "tests/support/device/device_operation.h"

namespace zero {

struct Conflict {
  std::shared_ptr<const DeviceOperation> earlier;
  bool earlier_writes = false;
  std::span<const std::byte> bytes;  // first range that both access
};

class AccessMap {
 public:
  // Returns earlier accesses of the same bytes that are not ordered before `by`, if one of the two writes; each
  // operation once.
  std::vector<Conflict> conflicts(const DeviceOperation& by, const Access& access) const;
  void record(const std::shared_ptr<const DeviceOperation>& by, const Access& access);
  // Forgets bytes that were freed. A later use of the addresses starts without history.
  void forget(std::span<const std::byte> bytes);

 private:
  using Last = std::array<std::shared_ptr<const DeviceOperation>, kNumActors>;
  struct Segment {
    const std::byte* end = nullptr;
    Last writers, readers;
  };
  using Segments = std::map<const std::byte*, Segment>;  // segments without overlap, by their begin

  // Returns the segments of [begin, end): cuts segments at both ends, and fills holes.
  Segments::iterator cover(const std::byte* begin, const std::byte* end);
  void cut(const std::byte* at);

  Segments segments_;
};

}  // namespace zero
