// say_once(): whether a warning is new to this process. Tiers, files and buffers often warn for the same reason.
//
//   if (say_once("io_uring refused")) ZERO_LOG(warn, "io_uring is refused here ...");
//
// Local. Thread-safe.
#pragma once

#include <string_view>

namespace zero {

// Returns true for the first call with `what`.
bool say_once(std::string_view what);

}  // namespace zero
