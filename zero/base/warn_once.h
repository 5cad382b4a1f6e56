// say_once(): whether a warning is new to this process: tiers, files and buffers often have the same reason for one.
//
//   if (say_once("io_uring refused")) ZERO_LOG(warn, "io_uring is refused here ...");
//
// Local. Thread-safe.
#pragma once

#include <string_view>

namespace zero {

// True for the first who asks about `what`.
bool say_once(std::string_view what);

}  // namespace zero
