// sgd_update(): the inner loop of stochastic gradient descent with the arithmetic of torch.optim.SGD (dampening 0).
//
// For each element, in fp32, every operation rounded on its own, so that the bits are the same on every instruction set
// and however a span is cut:
//
//   g   = gradient * gradient_scale
//   g   = g + weight_decay * p                     coupled: the decay passes through the momentum
//   buf = g at the first step, momentum * buf + g  later (only with a state)
//   g   = buf, or g + momentum * buf               (Nesterov; Sutskever et al., ICML 2013, in torch's form)
//   p   = p + (-lr) * g
//
// Local.
#pragma once

#include "zero/optim/sgd_rule.h"
#include "zero/optim/update_slices.h"

namespace zero {

// What is the same for every element.
struct SgdConstants {
  float gradient_scale = 1;
  float weight_decay = 0;
  float momentum = 0;
  bool nesterov = false;
  bool first_step = false;  // whatever the momentum buffer holds counts for nothing
  float minus_lr = 0;
};

SgdConstants sgd_constants(const SgdOptions& options, const UpdateScalars& scalars);

// Updates span's parameter, and its state if it is not null, in place; writes low_precision if it is not null.
void sgd_update(const UpdateSpan& span, const SgdConstants& constants);

// sgd_update() of each slice.
using SgdArguments = UpdateSlices<SgdConstants>;
extern const Kernel kSgd;

}  // namespace zero
