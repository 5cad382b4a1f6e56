#include "zero/base/error/log.h"

#include <atomic>
#include <cstdlib>
#include <memory>
#include <mutex>
#include <set>
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
    made->flush_on(spdlog::level::debug);
    const char* wanted = std::getenv("ZERO_LOG_LEVEL");
    const std::string_view name = wanted != nullptr ? wanted : "warn";
    made->set_level(spdlog::level::warn);
    if (name == "debug" || name == "info" || name == "warn" || name == "error") {
      made->set_level(spdlog::level::from_str(std::string(name)));
    } else {
      made->warn("ZERO_LOG_LEVEL = {}: no such level; use debug, info, warn or error", name);
    }
    return made;
  }();
  return *instance;
}

// Set by a program in another language.
std::atomic<LogSink> log_sink{nullptr};
std::atomic<LogLevel> log_sink_from{LogLevel::warn};

}  // namespace

void set_log_sink(LogSink sink, LogLevel from) {
  log_sink_from = from;
  log_sink = sink;
}

void write_log(LogLevel level, std::string_view line) {
  if (const LogSink sink = log_sink; sink != nullptr) {
    sink(level, line);
    if (level != LogLevel::error) return;
  }
  logger().log(to_spdlog(level), "{}", line);
}
bool log_enabled(LogLevel level) {
  if (log_sink.load() != nullptr) return level >= log_sink_from.load();
  return logger().should_log(to_spdlog(level));
}

bool say_once(std::string_view what) {
  static std::mutex mutex;
  static std::set<std::string, std::less<>> said;
  const std::scoped_lock lock(mutex);
  return said.emplace(what).second;
}

}  // namespace zero
