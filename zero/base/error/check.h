// ZERO_CHECK: checks an invariant, in every build. A failure is a bug in zero.cpp, never a user's mistake, which throws
// ConfigError.
//
//   ZERO_CHECK(shard.numel > 0, "unit {} has an empty shard", unit.name);
#pragma once

#include <string>

#include <fmt/format.h>

#include "zero/base/error/error.h"

namespace zero::detail {
[[noreturn]] void check_failed(const char* file, int line, const char* expression, const std::string& message);
}  // namespace zero::detail

#define ZERO_CHECK(condition, ...)                                                                 \
  do {                                                                                             \
    if (!(condition)) [[unlikely]]                                                                 \
      ::zero::detail::check_failed(__FILE__, __LINE__, #condition, ::fmt::format("" __VA_ARGS__)); \
  } while (false)
