// lamb_update(): the inner loops of LAMB (You et al., "Large Batch Optimization for Deep Learning", arXiv:1904.00962,
// algorithm 2): Adam's direction, with a step length in proportion to the parameter's norm. For each element, in fp32:
//
//   g  = gradient * gradient_scale
//   m  = beta1 * m + (1 - beta1) * g
//   v  = beta2 * v + (1 - beta2) * g * g
//   u  = (m * unbias) / (sqrt(v) + eps * bias2) + weight_decay * p
//   p  = p - (lr * ratio) * u             ratio = clamp(|p| / |u|, least_ratio, most_ratio); 1 if a norm is 0
//
// bias2 = sqrt(1 - beta2^step), unbias = bias2 / (1 - beta1^step): the paper's direction, with numerator and
// denominator times bias2. That saves a division per element; a pass that reads 16 bytes per element has time for one
// division and a root. Every operation is rounded by itself, so all instruction sets and cuts give the same bits. The
// norms are of whole parameters. Local.
#pragma once

#include "zero/base/numbers/exact_sum.h"
#include "zero/optim/rule/update_slices.h"
#include "zero/optim/whole/lamb_rule.h"

namespace zero {

// The same for every element of a parameter.
struct LambConstants {
  float gradient_scale = 1;
  float beta1 = 0, one_minus_beta1 = 1;
  float beta2 = 0, one_minus_beta2 = 1;
  float unbias = 1;  // sqrt(1 - beta2^step) / (1 - beta1^step)
  float eps = 0;     // times sqrt(1 - beta2^step)
  float weight_decay = 0;
  float minus_lr = 0;  // -lr * ratio
};

// `scalars.sums`: of the squares of the parameter and of u; empty: the ratio is 1.
LambConstants lamb_constants(const LambOptions& options, const UpdateScalars& scalars);

// Adds the squares of p (before the step) and of u to the sums. It reads what lamb_update() reads, and writes none of
// it. `span` begins at a multiple of kSumBlock in its unit.
void add_lamb_sums(const UpdateSpan& span, const LambConstants& constants, ExactSum& parameter, ExactSum& direction);
// Updates the span's parameter and both moments in place, and writes low_precision if it is not null.
void lamb_update(const UpdateSpan& span, const LambConstants& constants);

// Runs lamb_update() for each slice.
using LambArguments = UpdateSlices<LambConstants>;
extern const Kernel kLamb;

// Runs add_lamb_sums() for each slice, with sums as limbs in the device's memory: of its parameter, and of its
// direction.
struct LambSumsArguments {
  LambArguments slices;
  std::array<SumLimbs*, LambArguments::kMost> parameter{}, direction{};
};
extern const Kernel kLambSums;

}  // namespace zero
