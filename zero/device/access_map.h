// AccessMap: for each byte, the last operations that read and wrote it, and whether another one comes after them.
//
//   for (const Conflict& conflict : map.conflicts(operation, access)) ...  // nothing orders these two
//   map.record(operation, access);
//
// Each lane keeps its last read and its last write of a byte: whoever comes after those comes after all before them. An
// operation that has no conflict comes after every earlier one that it must come after. Local; one thread.
#pragma once

#include <array>
#include <cstddef>
#include <map>
#include <memory>
#include <span>
#include <vector>

#include "zero/device/device_operation.h"
#include "zero/device/kernel.h"

namespace zero {

struct Conflict {
  std::shared_ptr<const DeviceOperation> earlier;
  bool earlier_writes = false;
  std::span<const std::byte> bytes;  // the first that both touch
};

class AccessMap {
 public:
  // Earlier accesses of the same bytes, of which either writes, and that do not come before `by`; an operation once.
  std::vector<Conflict> conflicts(const DeviceOperation& by, const Access& access) const;
  void record(const std::shared_ptr<const DeviceOperation>& by, const Access& access);
  // The bytes are no longer there. Another use of the addresses starts anew.
  void forget(std::span<const std::byte> bytes);

 private:
  using Last = std::array<std::shared_ptr<const DeviceOperation>, kNumActors>;
  struct Segment {
    const std::byte* end = nullptr;
    Last writers, readers;
  };
  using Segments = std::map<const std::byte*, Segment>;  // by begin, without overlap

  // The segments of [begin, end), cut at both ends, and holes filled.
  Segments::iterator cover(const std::byte* begin, const std::byte* end);
  void cut(const std::byte* at);

  Segments segments_;
};

}  // namespace zero
