#include "zero/base/log.h"

#include <cstdlib>
#include <memory>
#include <string>

#include <spdlog/sinks/stdout_sinks.h>
#include <spdlog/spdlog.h>

namespace zero {
namespace {

spdlog::level::level_enum to_spdlog(LogLevel level) {
  switch (level) {
    case LogLevel::debug:
      return spdlog::level::debug;
    case LogLevel::info:
      return spdlog::level::info;
    case LogLevel::warn:
      return spdlog::level::warn;
    case LogLevel::error:
      return spdlog::level::err;
  }
  return spdlog::level::err;
}

spdlog::logger& logger() {
  static const std::shared_ptr<spdlog::logger> instance = [] {
    auto made = std::make_shared<spdlog::logger>("zero", std::make_shared<spdlog::sinks::stderr_sink_mt>());
    const char* rank = std::getenv("RANK");
    made->set_pattern(fmt::format("zero{}{}: %l: %v", rank ? " rank " : "", rank ? rank : ""));
    const char* level = std::getenv("ZERO_LOG_LEVEL");
    made->set_level(level ? spdlog::level::from_str(level) : spdlog::level::warn);
    made->flush_on(spdlog::level::debug);
    return made;
  }();
  return *instance;
}

}  // namespace

void write_log(LogLevel level, std::string_view line) {
  logger().log(to_spdlog(level), "{}", line);
}
bool log_enabled(LogLevel level) {
  return logger().should_log(to_spdlog(level));
}

}  // namespace zero
