#include "zero/optim/rule_checks.h"

#include <cmath>
#include <string>

#include <fmt/format.h>

#include "zero/base/check.h"
#include "zero/base/error.h"

namespace zero {

// A comparison with NaN is false, so `valid` is false for NaN. The second check finds infinity, and values that are
// infinite as fp32.
void require(bool valid, double value, std::string_view key, std::string_view reason, std::string_view remedy) {
  if (!valid || !std::isfinite(static_cast<float>(value)))
    throw ConfigError(key, fmt::format("{}", value), reason, remedy);
}

void require_lr_and_decay(double lr, double weight_decay, std::string_view usual_lr) {
  require(lr >= 0, lr, "optimizer.lr", "must be a finite number, 0 or more", usual_lr);
  require(weight_decay >= 0, weight_decay, "optimizer.weight_decay", "must be a finite number, 0 or more",
          "use 0 for no decay, or for example 0.1");
}

void require_betas(double beta1, double beta2, std::string_view usual) {
  const auto in_range = [](double beta) { return beta >= 0 && beta < 1; };  // false for NaN
  if (in_range(beta1) && in_range(beta2)) return;
  throw ConfigError("optimizer.betas", fmt::format("[{}, {}]", beta1, beta2), "each must be 0 or more and less than 1",
                    std::string(usual));
}

void require_eps(double eps) {
  // eps must not be 0 as fp32, or 0 / (sqrt(0) + eps) would be NaN.
  require(static_cast<float>(eps) > 0, eps, "optimizer.eps", "must be a finite fp32 number greater than 0",
          "use for example 1e-8");
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
