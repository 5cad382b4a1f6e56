// loss_text(): prints a loss for people: four digits after the point, or three digits of a loss that these would hide.
//
//   loss_text(2.31977)      // "2.3198"
//   loss_text(0.0000317)    // "3.17e-05"
//
// Local.
#pragma once

#include <cmath>
#include <string>

#include <fmt/format.h>

namespace zero {

inline std::string loss_text(double loss) {
  return loss != 0 && std::abs(loss) < 0.001 ? fmt::format("{:.3g}", loss) : fmt::format("{:.4f}", loss);
}

}  // namespace zero
