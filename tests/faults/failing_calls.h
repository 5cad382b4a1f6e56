// fail_calls(): makes system calls fail, by strace.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include <fmt/format.h>

#include "tests/faults/watched_command.h"

namespace zero {

// Makes each of these calls of one rank fail while the returned command exists. Returns null if strace is missing or
// may not attach.
inline std::unique_ptr<WatchedCommand> fail_calls(const std::string& calls, pid_t rank) {
  auto strace = std::make_unique<WatchedCommand>(
      std::vector<std::string>{"strace", "-f", "-o", "/dev/null", "-e", "trace=" + calls, "-e",
                               fmt::format("inject={}:error=EIO", calls), "-p", std::to_string(rank)});
  return strace->wait_for(" attached") ? std::move(strace) : nullptr;
}

}  // namespace zero
