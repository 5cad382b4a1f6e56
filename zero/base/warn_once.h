// Warnings that a process says once, however often there is reason to: where every tier, file or buffer finds the same.
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
