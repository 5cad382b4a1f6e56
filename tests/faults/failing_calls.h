// System calls that fail, by strace.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include <fmt/format.h>

#include "tests/faults/watched_command.h"

namespace zero {

// Each of these calls of one rank fails, as long as it is there. Nothing where strace is not, or may not.
inline std::unique_ptr<WatchedCommand> fail_calls(const std::string& calls, pid_t rank) {
  auto strace = std::make_unique<WatchedCommand>(
      std::vector<std::string>{"strace", "-f", "-o", "/dev/null", "-e", "trace=" + calls, "-e",
                               fmt::format("inject={}:error=EIO", calls), "-p", std::to_string(rank)});
  return strace->wait_for(" attached") ? std::move(strace) : nullptr;
}

}  // namespace zero
