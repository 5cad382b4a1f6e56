#include "zero/base/numbers/number_range.h"

#include <cmath>

#include <fmt/format.h>

#include "zero/base/error/error.h"

namespace zero {

bool NumberRange::contains(double value) const {
  const auto in_range = [this](double number) {
    return (above_least ? number > least : number >= least) && (below_most ? number < most : number <= most);
  };
  const auto as_fp32 = static_cast<float>(value);
  return std::isfinite(as_fp32) && in_range(value) && in_range(as_fp32);
}

std::string NumberRange::text() const {
  constexpr NumberRange kAll;
  std::string text = "a finite number";
  const std::string_view joint = least == kAll.least ? "," : " and";
  if (least != kAll.least) text += above_least ? fmt::format(" above {}", least) : fmt::format(", {} or more", least);
  if (most != kAll.most) text += fmt::format("{} {} {}", joint, below_most ? "less than" : "at most", most);
  return text;
}

void require_number(std::string_view key, double value, const NumberRange& range, std::string_view remedy) {
  if (!range.contains(value))
    throw ConfigError(key, fmt::format("{}", value), fmt::format("must be {}", range.text()), remedy);
}

}  // namespace zero
