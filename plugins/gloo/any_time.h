// kAnyTime: the limit of a wait that is ended by something else.
#pragma once

#include <chrono>

namespace zero_gloo {

inline constexpr auto kAnyTime = std::chrono::hours(24 * 365);

}  // namespace zero_gloo
