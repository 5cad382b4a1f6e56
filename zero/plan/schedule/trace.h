// Trace: the events of one step of the model, in order. The first step records it; the schedule is built from it.
//
//   access wte, access h.0, access h.1, backward, access h.1, gradient h.1, access h.0, gradient h.0,
//   gradient wte, step
//
// Consecutive operators on the same unit make one access. step() ends the trace. Its micro-batches are numbered. They
// follow each other; or, as in a pipeline, later forward passes precede an earlier backward pass.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "zero/plan/units/unit.h"

namespace zero {

enum class EventKind : std::uint8_t {
  kAccess,       // an operator uses a parameter of `unit`
  kBackward,     // first sign of a backward pass
  kGradient,     // the gradient of `unit` is complete
  kEndBackward,  // the backward pass is over: incomplete gradients are completed with zeros
  kStep          // step()
};

struct Event {
  EventKind kind = EventKind::kAccess;
  int unit = -1;            // unit of kAccess and kGradient
  std::vector<int> pinned;  // kAccess: units that running operators use, and that must not be released
  int micro_batch = 0;      // number within the step, from 0; of kStep: 0
  bool operator==(const Event&) const = default;
};

struct Trace {
  std::vector<Event> events;
  bool operator==(const Trace&) const = default;
};

// Returns a hash that is the same on every machine for the same events. Ranks compare it before they rely on a
// schedule.
std::uint64_t hash_of(const Trace& trace);

// Describes an event: "access transformer.h.0".
std::string describe(const Event& event, const std::vector<Unit>& units);

}  // namespace zero
