// GradientAccess: reads a step's gradients between its last backward pass and step().
//
//   engine.gradients().read(u, [&](std::span<const float> whole) { ... });
//   engine.gradients().norms()[param]
//
// Reading changes nothing in the step. A gradient here is the average over ranks, in fp32, without the loss scale and
// before clipping. If copies of the model train apart, it is the average over the ranks of a copy. It is also the
// average over micro-batches, if they are averaged. read() and norms() throw ConfigError at any other time. Collective,
// except any(). An IoError of a disk ends the engine.
#pragma once

#include <functional>
#include <span>
#include <vector>

#include "zero/base/files/fatal_io.h"

namespace zero {

struct EngineParts;
class EngineStep;

// Returns the divisor of a step's sum after `passes` micro-batches: the number of gradients in its mean, times the loss
// scale. Gradients from other ranks (GivenGradients) name their own number.
double gradient_divisor(const EngineParts& parts, int passes);

class GradientAccess {
 public:
  GradientAccess(EngineParts& parts, EngineStep& step, FatalIo& io) : parts_(parts), step_(step), io_(io) {}

  // Reads the unit's whole gradient; zeros if no rank has a gradient. `read` is Local.
  void read(int unit, const std::function<void(std::span<const float>)>& read);
  // Returns, by parameter, the norm of its gradient; 0 for a frozen parameter.
  std::vector<double> norms();
  // Local. True if the running step has gradients.
  bool any() const;
  // Drops gradients of the running step, by parameter; see EngineStep::drop().
  void drop(const std::vector<bool>& params);

 private:
  double finish();

  EngineParts& parts_;
  EngineStep& step_;
  FatalIo& io_;
};

}  // namespace zero
