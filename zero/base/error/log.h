// ZERO_LOG: writes one line to standard error, prefixed with the rank. It is the second of the project's two macros.
//
//   ZERO_LOG(warn, "io_uring refused ({}); using a thread pool", reason);
//
// Levels: debug, info, warn, error. The environment variable ZERO_LOG_LEVEL sets the threshold (default: warn).
#pragma once

#include <string_view>

#include <fmt/format.h>

namespace zero {

enum class LogLevel { debug, info, warn, error };  // NOLINT(readability-identifier-naming): words of ZERO_LOG

// Gives all lines from level `from` on to `sink`, whatever ZERO_LOG_LEVEL says. Errors are also written to standard
// error. `sink` is called on any thread, and must not block. A second call changes both. Local.
using LogSink = void (*)(LogLevel level, std::string_view line);
void set_log_sink(LogSink sink, LogLevel from);

// Local. Thread-safe.
void write_log(LogLevel level, std::string_view line);
bool log_enabled(LogLevel level);

// say_once(): whether a warning is new to this process. Tiers, files and buffers often warn for the same reason.
//
//   if (say_once("io_uring refused")) ZERO_LOG(warn, "io_uring is refused here ...");
//
// Returns true for the first call with `what`. Local. Thread-safe.
bool say_once(std::string_view what);

}  // namespace zero

#define ZERO_LOG(level, ...)                                                  \
  do {                                                                        \
    if (::zero::log_enabled(::zero::LogLevel::level))                         \
      ::zero::write_log(::zero::LogLevel::level, ::fmt::format(__VA_ARGS__)); \
  } while (false)
