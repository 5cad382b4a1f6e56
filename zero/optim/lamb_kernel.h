// lamb_update(): the inner loops of LAMB (You et al., "Large Batch Optimization for Deep Learning", arXiv:1904.00962,
// algorithm 2): Adam's direction, and for each parameter a step as long as the parameter itself asks for.
//
// For each element, in fp32, every operation rounded on its own, so that the bits are the same on every instruction set
// and however a span is cut:
//
//   g  = gradient * gradient_scale
//   m  = beta1 * m + (1 - beta1) * g
//   v  = beta2 * v + (1 - beta2) * g * g
//   u  = (m * unbias) / (sqrt(v) + eps * bias2) + weight_decay * p
//   p  = p - (lr * ratio) * u             ratio = clamp(|p| / |u|, least_ratio, most_ratio); 1 where a norm is 0
//
// bias2 = sqrt(1 - beta2^step), unbias = bias2 / (1 - beta1^step): the paper's direction with numerator and denominator times
// bias2, which spares each element a division. A pass that reads 16 bytes an element has time for one division and a root.
//
// The norms are of whole parameters: add_lamb_sums() reads the same as lamb_update(), writes none of it, and adds the
// squares of p (before the step) and of u. Local.
#pragma once

#include "zero/base/exact_sum.h"
#include "zero/optim/lamb_rule.h"
#include "zero/optim/update_slices.h"

namespace zero {

// What is the same for every element of a parameter.
struct LambConstants {
  float gradient_scale = 1;
  float beta1 = 0, one_minus_beta1 = 1;
  float beta2 = 0, one_minus_beta2 = 1;
  float unbias = 1;  // sqrt(1 - beta2^step) / (1 - beta1^step)
  float eps = 0;     // times sqrt(1 - beta2^step)
  float weight_decay = 0;
  float minus_lr = 0;  // -lr * ratio
};

// `scalars.sums`: of squares of the parameter, and of u; empty: the ratio is 1.
LambConstants lamb_constants(const LambOptions& options, const UpdateScalars& scalars);

// `span` begins at a multiple of kSumBlock in its unit.
void add_lamb_sums(const UpdateSpan& span, const LambConstants& constants, ExactSum& parameter, ExactSum& direction);
// Updates span's parameter and both moments in place, and writes low_precision if it is not null.
void lamb_update(const UpdateSpan& span, const LambConstants& constants);

// lamb_update() of each slice.
using LambArguments = UpdateSlices<LambConstants>;
extern const Kernel kLamb;

// add_lamb_sums() of each slice, to limbs in the device's memory: of its parameter, and of its direction.
struct LambSumsArguments {
  LambArguments slices;
  std::array<SumLimbs*, LambArguments::kMost> parameter{}, direction{};
};
extern const Kernel kLambSums;

}  // namespace zero
