// ServedAccess: what servers and workers ask of an engine, where gradients are computed by the ones and updates made by
// the others.
//
//   server.served().apply(pushed.sum_of({0, 1}, 1), lr);               // an update with gradients that came from workers
//   server.served().read_parameter_shard(u, into);                    // what a worker is then sent
//   worker.served().give_away(send, taken);                           // the end of a worker's step
//   worker.served().whole_parameter(u)                                 // where it takes new weights
//
// Between steps. Local, but for apply(). Errors are those of Engine::step().
#pragma once

#include <functional>
#include <vector>

#include "zero/base/files/fatal_io.h"
#include "zero/engine/engine_parts.h"
#include "zero/engine/engine_step.h"

namespace zero {

class ServedAccess {
 public:
  ServedAccess(EngineParts& parts, EngineStep& step, FatalIo& io) : parts_(parts), step_(step), io_(io) {}

  // Of a server; Collective over them: a step whose gradients were computed elsewhere. Every server gives its part of
  // the same.
  StepReport apply(const GivenGradients& gradients, double lr, const StepLimits& limits = {});
  // This rank's shard of the unit's parameters as others gather it, in the unit's dtype.
  void read_parameter_shard(int unit, std::byte* into);

  // Of a worker, whose updates are made elsewhere: the step ends without one. take() gets each trained unit's whole
  // gradient, in the type in which it goes to servers; it stays as it is until taken() has returned.
  void give_away(const EngineStep::TakeGradient& take, const std::function<void()>& taken);
  // The unit's parameters, to be written by a worker that has been given new weights.
  std::byte* whole_parameter(int unit) { return parts_.state.whole_parameter(unit); }
  // By parameter: which got a gradient here since the last step.
  const std::vector<bool>& present() const { return parts_.reducer.arrivals().present(); }

 private:
  EngineParts& parts_;
  EngineStep& step_;
  FatalIo& io_;
};

}  // namespace zero
