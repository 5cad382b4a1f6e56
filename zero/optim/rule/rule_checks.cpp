#include "zero/optim/rule/rule_checks.h"

#include <string>

#include <fmt/format.h>

#include "zero/base/error/check.h"
#include "zero/base/error/error.h"
#include "zero/base/numbers/number_range.h"

namespace zero {

void require_lr_and_decay(double lr, double weight_decay, std::string_view usual_lr) {
  require_number("optimizer.lr", lr, kAtLeastZero, usual_lr);
  require_number("optimizer.weight_decay", weight_decay, kAtLeastZero, "use 0 for no decay, or for example 0.1");
}

void require_betas(double beta1, double beta2, std::string_view usual) {
  if (kFractionOfOne.contains(beta1) && kFractionOfOne.contains(beta2)) return;
  throw ConfigError("optimizer.betas", fmt::format("[{}, {}]", beta1, beta2),
                    fmt::format("each must be {}", kFractionOfOne.text()), std::string(usual));
}

void require_momentum(double momentum, std::string_view usual) {
  require_number("optimizer.momentum", momentum, kFractionOfOne, usual);
}

// Above 0 as fp32 is what keeps 0 / (sqrt(0) + eps) from being a NaN.
void require_eps(double eps) {
  require_number("optimizer.eps", eps, kAboveZero, "use for example 1e-8");
}

void check_update(const UpdateRule& rule, std::size_t num_states, const UpdateSpan& span,
                  const UpdateScalars& scalars) {
  ZERO_CHECK(span.numel >= 0, "{} elements", span.numel);
  ZERO_CHECK(scalars.step >= 1, "steps are counted from 1, not from {}", scalars.step);
  ZERO_CHECK(span.numel == 0 || (span.parameter != nullptr && span.gradient != nullptr), "{} without memory",
             rule.name());
  for (std::size_t which = 0; which < kMostStates; ++which)
    ZERO_CHECK(span.numel == 0 || (span.states[which] != nullptr) == (which < num_states), "{}: state {}", rule.name(),
               which);
}

void check_coded(const UpdateRule& rule, std::size_t num_coded, const UpdateSpan& span) {
  for (std::size_t which = 0; which < kMostStates; ++which) {
    const CodedState& state = span.coded[which];
    const bool wanted = which < num_coded;
    ZERO_CHECK(span.numel == 0 || ((state.codes != nullptr) == wanted && (state.scales != nullptr) == wanted),
               "{}: codes of state {}", rule.name(), which);
  }
}

}  // namespace zero
