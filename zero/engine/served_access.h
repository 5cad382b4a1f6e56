// ServedAccess: the functions of an engine that servers and workers call.
//
//   server.served().apply(pushed.sum_of({0, 1}, 1), lr);               // an update with gradients of workers
//   server.served().read_parameter_shard(u, into);                    // then sent to a worker
//   worker.served().give_away(send, taken);                           // the end of a worker's step
//   worker.served().whole_parameter(u)                                // memory for new weights
//
// Workers compute gradients; servers update states. All functions are for use between steps, and Local except apply().
// They throw the errors of RankEngine::step().
#pragma once

#include <functional>
#include <vector>

#include "zero/base/files/fatal_io.h"
#include "zero/engine/options/step_report.h"
#include "zero/engine/states/given_gradients.h"

namespace zero {

struct EngineParts;
class EngineStep;

class ServedAccess {
 public:
  ServedAccess(EngineParts& parts, EngineStep& step, FatalIo& io) : parts_(parts), step_(step), io_(io) {}

  // Collective over the servers. Takes a step with gradients that workers computed. Every server passes its part of the
  // same gradients.
  StepReport apply(const GivenGradients& gradients, double lr, const StepLimits& limits = {});
  // Reads this rank's shard of the unit's parameters as others gather it, in the unit's dtype.
  void read_parameter_shard(int unit, std::byte* into);

  // Ends a worker's step without an update. take() receives each trained unit's whole gradient, in the type in which it
  // is sent to servers. The gradient stays unchanged until taken() has returned.
  void give_away(const TakeGradient& take, const std::function<void()>& taken);
  // Returns the unit's parameters, into which a worker writes new weights.
  std::byte* whole_parameter(int unit);
  // Returns, by parameter, whether this rank computed a gradient since the last step.
  const std::vector<bool>& present() const;

 private:
  EngineParts& parts_;
  EngineStep& step_;
  FatalIo& io_;
};

}  // namespace zero
