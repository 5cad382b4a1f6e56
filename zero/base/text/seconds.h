// format_seconds(): prints a duration with three digits, in the unit that fits.
//
//   format_seconds(0.0124)    "12 ms"         format_seconds(1183.165)    "19.7 min"
//
// Units: ms below a second, s, min, h. Local.
#pragma once

#include <string>

namespace zero {

std::string format_seconds(double seconds);

}  // namespace zero
