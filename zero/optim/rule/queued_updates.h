// SpanUpdate: one of several updates that are queued together. queue_slices() queues any number of them.
//
//   queue_slices<AdamConstants>(device, Lane::kUpdate, kAdam, updates,
//                               [&](const UpdateScalars& s) { return adam_constants(options, s); });
//
// The kernel takes UpdateSlices. Local.
#pragma once

#include <algorithm>
#include <cstddef>
#include <span>
#include <vector>

#include "zero/optim/rule/update_slices.h"

namespace zero {

struct SpanUpdate {
  UpdateSpan span;
  UpdateScalars scalars;
};

// Queues the updates in as few calls of the kernel as possible, each with up to kMost slices. `constants_of(update)`:
// the constants of that update. `reads_beside(update)`: accesses to the memory that these constants point to.
template <typename Constants, typename ConstantsOf, typename ReadsBeside>
void queue_slices(Device& device, Lane lane, const Kernel& kernel, std::span<const SpanUpdate> updates,
                  const ConstantsOf& constants_of, const ReadsBeside& reads_beside) {
  while (!updates.empty()) {
    const auto together = updates.first(std::min(updates.size(), UpdateSlices<Constants>::kMost));
    updates = updates.subspan(together.size());
    UpdateSlices<Constants> slices;
    std::vector<Access> accesses;
    for (const SpanUpdate& update : together) {
      slices.add(update.span, constants_of(update));
      for (const auto& all : {update.span.accesses(), reads_beside(update)})
        accesses.insert(accesses.end(), all.begin(), all.end());
    }
    device.run(lane, {kernel, std::as_bytes(std::span(&slices, 1)), accesses});
  }
}

// The same for constants without pointers. `constants_of(scalars)` returns them.
template <typename Constants, typename ConstantsOf>
void queue_slices(Device& device, Lane lane, const Kernel& kernel, std::span<const SpanUpdate> updates,
                  const ConstantsOf& constants_of) {
  queue_slices<Constants>(
      device, lane, kernel, updates, [&](const SpanUpdate& update) { return constants_of(update.scalars); },
      [](const SpanUpdate&) { return std::vector<Access>(); });
}

}  // namespace zero
