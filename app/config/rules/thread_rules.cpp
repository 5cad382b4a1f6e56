#include "app/config/rules/thread_rules.h"

#include <algorithm>

#include <fmt/format.h>
#include <unistd.h>

#include "zero/base/error/error.h"
#include "zero/base/text/bytes.h"

#include "app/config/options/option.h"

namespace zero {
namespace {

constexpr std::int64_t kThreadsOfCore = 4, kAlwaysAllowed = 64;

}  // namespace

void require_threads(const LoadedConfig& loaded) {
  require_threads(loaded, ::sysconf(_SC_NPROCESSORS_ONLN));
}

void require_threads(const LoadedConfig& loaded, std::int64_t cores) {
  constexpr std::string_view kKey = "run.threads";
  const std::int64_t threads = loaded.config.run.threads, most = std::max(kThreadsOfCore * cores, kAlwaysAllowed);
  if (threads <= most) return;
  const auto origin = loaded.origins.find(kKey);
  throw ConfigError(located(origin == loaded.origins.end() ? "" : origin->second, kKey), fmt::format("{}", threads),
                    fmt::format("this machine has {}, and the threads of a rank wait for each other",
                                format_count(std::max<std::int64_t>(cores, 1), "core")),
                    fmt::format("use {} or less, or 0: the cores of this machine / its ranks", most));
}

}  // namespace zero
