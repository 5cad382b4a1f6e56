// sgd_update(): the inner loop of stochastic gradient descent with the arithmetic of torch.optim.SGD (dampening 0).
//
// For each element, in fp32:
//
//   g   = gradient * gradient_scale
//   g   = g + weight_decay * p                     coupled: the decay passes through the momentum
//   buf = g in the first step, else momentum * buf + g       (only with a state)
//   g   = buf, or g + momentum * buf               (Nesterov; Sutskever et al., ICML 2013, in torch's form)
//   p   = p + (-lr) * g
//
// Every operation is rounded by itself, so all instruction sets and cuts give the same bits. Local.
#pragma once

#include "zero/optim/elementwise/sgd_rule.h"
#include "zero/optim/rule/update_slices.h"

namespace zero {

// The same for every element.
struct SgdConstants {
  float gradient_scale = 1;
  float weight_decay = 0;
  float momentum = 0;
  bool nesterov = false;
  bool first_step = false;  // ignores the content of the momentum buffer
  float minus_lr = 0;
};

SgdConstants sgd_constants(const SgdOptions& options, const UpdateScalars& scalars);

// Updates the span's parameter, and its state if it is not null, in place; writes low_precision if it is not null.
void sgd_update(const UpdateSpan& span, const SgdConstants& constants);

// Runs sgd_update() for each slice.
using SgdArguments = UpdateSlices<SgdConstants>;
extern const Kernel kSgd;

}  // namespace zero
