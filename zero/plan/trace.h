// Trace: the events of one step of the model, in order. The first step records it; the schedule is built from it.
//
//   access wte, access h.0, access h.1, backward, access h.1, gradient h.1, access h.0, gradient h.0, gradient wte, step
//
// A run of operators on the same unit is one access. A step ends the trace. Its micro-batches have numbers: they follow each
// other, or, as in a pipeline, forward passes of later ones come before the backward pass of an earlier one.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "zero/plan/unit.h"

namespace zero {

enum class EventKind : std::uint8_t {
  kAccess,       // an operator uses a parameter of `unit`
  kBackward,     // the first sign of a backward pass
  kGradient,     // the gradient of `unit` is complete
  kEndBackward,  // the backward pass is over: units without a full gradient are completed with zeros
  kStep          // step()
};

struct Event {
  EventKind kind = EventKind::kAccess;
  int unit = -1;            // of kAccess and kGradient
  std::vector<int> pinned;  // of kAccess: units that the operators still running hold, and that must not be released
  int micro_batch = 0;      // of the step, from 0; of kStep: 0
  bool operator==(const Event&) const = default;
};

struct Trace {
  std::vector<Event> events;
  bool operator==(const Trace&) const = default;
};

// The same for the same events on every machine; ranks compare it before they trust a schedule.
std::uint64_t hash_of(const Trace& trace);

// "access transformer.h.0"
std::string describe(const Event& event, const std::vector<Unit>& units);

}  // namespace zero
