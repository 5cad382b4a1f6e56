// GradientAccess: a step's gradients, for whoever looks at them between its last backward pass and step(), which goes
// on as if nobody had.
//
//   engine.gradients().read(u, [&](std::span<const float> whole) { ... });
//   engine.gradients().norms()[param]
//
// A gradient here is the average over ranks (of a copy, where copies of the model train apart; and over micro-batches,
// where they are averaged), without the loss scale,
// before clipping, in fp32. Both functions are Collective and throw ConfigError at any other time; an IoError of a disk
// ends the engine.
#pragma once

#include <functional>
#include <span>
#include <vector>

#include "zero/base/files/fatal_io.h"
#include "zero/engine/engine_parts.h"

namespace zero {

// What a step's sum is divided by, after `passes` micro-batches: the number of gradients that it is the mean of, times
// the loss scale. Of gradients that came from elsewhere, what they say.
double gradient_divisor(const EngineParts& parts, int passes);

class GradientAccess {
 public:
  GradientAccess(EngineParts& parts, FatalIo& io) : parts_(parts), io_(io) {}

  // The unit's whole gradient; zeros where no rank has one. `read` is Local.
  void read(int unit, const std::function<void(std::span<const float>)>& read);
  // By parameter: the norm of its gradient; 0 for a frozen one.
  std::vector<double> norms();

 private:
  double finish();

  EngineParts& parts_;
  FatalIo& io_;
};

}  // namespace zero
