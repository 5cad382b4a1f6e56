// HalfSteps: steps of which this rank makes only one half: the gradients, or the update.
//
//   engine.half_steps().apply(gradients, lr);                // the update, with gradients that other ranks computed
//   engine.half_steps().read_parameter_shard(u, into);       // new values, for the ranks that compute gradients
//   engine.half_steps().give_away(send, taken);              // the gradients, which other ranks apply
//   engine.half_steps().whole_parameter(u)                   // memory for the new values
//
// All functions are for use between steps, and Local except apply(). They throw the errors of RankEngine::step().
#pragma once

#include <functional>
#include <vector>

#include "zero/base/files/fatal_io.h"
#include "zero/engine/options/step_report.h"
#include "zero/engine/states/given_gradients.h"

namespace zero {

struct EngineParts;
class EngineStep;

class HalfSteps {
 public:
  HalfSteps(EngineParts& parts, EngineStep& step, FatalIo& io) : parts_(parts), step_(step), io_(io) {}

  // Collective. Takes a step with gradients that other ranks computed. Every rank passes its part of the same
  // gradients.
  StepReport apply(const GivenGradients& gradients, double lr, const StepLimits& limits = {});
  // Reads this rank's shard of the unit's parameters as others gather it, in the unit's dtype.
  void read_parameter_shard(int unit, std::byte* into);

  // Ends a step without an update. take() receives each trained unit's whole gradient, in the type in which it is sent.
  // The gradient stays unchanged until taken() has returned.
  void give_away(const TakeGradient& take, const std::function<void()>& taken);
  // Returns the unit's parameters, into which the caller writes new values. Null: this rank does not hold them whole.
  std::byte* whole_parameter(int unit);
  // Returns, by parameter, whether this rank computed a gradient since the last step.
  const std::vector<bool>& present() const;

 private:
  EngineParts& parts_;
  EngineStep& step_;
  FatalIo& io_;
};

}  // namespace zero
