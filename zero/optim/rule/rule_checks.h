// require_lr_and_decay(), require_betas() and others: the rules' common checks of their options and spans.
//
//   require_lr_and_decay(options.lr, options.weight_decay, "use for example 1e-4");
//   require_betas(options.beta1, options.beta2, "use for example [0.9, 0.99]");
//
// Local.
#pragma once

#include <string_view>

#include "zero/optim/rule/update_rule.h"

namespace zero {

// Checks of options throw ConfigError under "optimizer.lr", "optimizer.weight_decay", "optimizer.betas",
// "optimizer.momentum" or "optimizer.eps". The ranges are those of zero/base/numbers/number_range.h.
void require_lr_and_decay(double lr, double weight_decay, std::string_view usual_lr);
void require_betas(double beta1, double beta2, std::string_view usual);
void require_momentum(double momentum, std::string_view usual);
void require_eps(double eps);
// Checks options with lr, betas, eps and weight_decay.
template <typename Options>
void require_adam(const Options& options) {
  require_lr_and_decay(options.lr, options.weight_decay, "use for example 1e-3");
  require_betas(options.beta1, options.beta2, "use for example [0.9, 0.95]");
  require_eps(options.eps);
}

// Checks an update's step, and that its span has memory, the first `num_states` states and no others. Throws
// InternalError.
void check_update(const UpdateRule& rule, std::size_t num_states, const UpdateSpan& span, const UpdateScalars& scalars);
// Checks that a span has codes and scales of the first `num_coded` states, and of no others. Throws InternalError.
void check_coded(const UpdateRule& rule, std::size_t num_coded, const UpdateSpan& span);

}  // namespace zero
