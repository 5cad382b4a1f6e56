#include "zero/base/process/clock.h"

#include <cerrno>
#include <cstdint>
#include <cstdlib>

#include <fmt/format.h>
#include <time.h>
#include <unistd.h>

#include "zero/base/error/error.h"
#include "zero/base/files/proc_file.h"

namespace zero {
namespace {

double seconds_of(clockid_t clock) {
  timespec now{};
  clock_gettime(clock, &now);
  return static_cast<double>(now.tv_sec) + 1e-9 * static_cast<double>(now.tv_nsec);
}

}  // namespace

double monotonic_seconds() {
  return seconds_of(CLOCK_MONOTONIC);
}

double boot_seconds() {
  return seconds_of(CLOCK_BOOTTIME);
}

double process_start_seconds(pid_t process) {
  const std::string path = process == 0 ? "/proc/self/stat" : fmt::format("/proc/{}/stat", process);
  const std::string text = read_proc_file(path);
  // "PID (NAME) STATE PPID ...": NAME may contain spaces and parentheses, so fields are counted from the last
  // parenthesis. The start is field 22 and the state field 3 (proc(5)).
  std::size_t at = text.rfind(')');
  for (int field = 3; field <= 22 && at != std::string::npos; ++field) at = text.find(' ', at + 1);
  if (at == std::string::npos) throw IoError(path, "parse", 0, "fewer than 22 fields");
  const auto ticks = std::strtoull(text.c_str() + at, nullptr, 10);
  return static_cast<double>(ticks) / static_cast<double>(sysconf(_SC_CLK_TCK));
}

}  // namespace zero
