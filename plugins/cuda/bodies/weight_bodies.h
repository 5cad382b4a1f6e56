// average_element(), exchange_element(): bodies of kernels on weights, for zero/optim/elementwise/averaged_rule.h.
//
// Also has outer_subtract_element(), outer_move_element() and mix_element() of zero/optim/outer_step.h. Local.
#pragma once

#include "zero/optim/elementwise/averaged_rule.h"
#include "zero/optim/outer_step.h"

#include "plugins/cuda/bodies/slice.h"

namespace zero::bodies {

ZERO_BODY void average_element(const AverageArguments& a, std::int64_t i) {
  const float ema = a.average[i];
  a.average[i] = add(ema, mul(a.weight, sub(a.parameter[i], ema)));
}

template <typename Low>
ZERO_BODY void exchange_element(const ExchangeArguments& a, std::type_identity<Low>, std::int64_t i) {
  const float parameter = a.average[i];
  a.average[i] = a.parameter[i];
  a.parameter[i] = parameter;
  store_low<Low>(a.low_precision, parameter, i);
}

ZERO_BODY void outer_subtract_element(const OuterArguments& a, std::int64_t i) {
  float difference = sub(a.anchor[i], a.parameter[i]);
  if (a.residual != nullptr) difference = add(difference, a.residual[i]);
  a.momentum[i] = difference;
}

template <typename Low>
ZERO_BODY void outer_move_element(const OuterArguments& a, std::type_identity<Low>, std::int64_t i) {
  const float difference = div(a.sum[i], a.copies);
  const float momentum = add(mul(a.mu, a.momentum[i]), difference);
  const float anchor = sub(a.anchor[i], mul(a.lr, add(difference, mul(a.mu, momentum))));
  a.momentum[i] = momentum;
  a.anchor[i] = anchor;
  if (a.parameter == nullptr) return;
  a.parameter[i] = anchor;
  store_low<Low>(a.low_precision, anchor, i);
}

template <typename Low>
ZERO_BODY void mix_element(const MixArguments& a, std::type_identity<Low>, std::int64_t i) {
  const float parameter = a.own == 0 ? a.anchor[i] : add(mul(a.own, a.parameter[i]), mul(a.shared, a.anchor[i]));
  a.parameter[i] = parameter;
  store_low<Low>(a.low_precision, parameter, i);
}

}  // namespace zero::bodies
