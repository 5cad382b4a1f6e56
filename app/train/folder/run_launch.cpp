#include "app/train/folder/run_launch.h"

#include <optional>
#include <sstream>
#include <string_view>

#include <fmt/format.h>

#include "zero/base/files/proc_file.h"

namespace zero {
namespace {

constexpr const char* kRestarts = "TORCHELASTIC_RESTART_COUNT";

struct AncestorProcess {
  int parent = 0;
  std::string start;  // clock ticks since the boot
};

// "PID (NAME) STATE PPID ...": NAME may contain spaces and parentheses. The start is field 22 (proc(5)).
std::optional<AncestorProcess> ancestor(const std::string& proc, int process) {
  const auto text = try_read_proc_file(fmt::format("{}/{}/stat", proc, process));
  const std::size_t name_end = text ? text->rfind(')') : std::string::npos;
  if (name_end == std::string::npos) return std::nullopt;
  std::istringstream fields(text->substr(name_end + 1));
  std::string state;
  AncestorProcess found;
  fields >> state >> found.parent;
  for (int field = 5; field <= 22; ++field) fields >> found.start;
  return fields ? std::optional(found) : std::nullopt;
}

// Is the variable in the environment with which a process began? Empty: that environment cannot be read.
std::optional<bool> began_with(const std::string& proc, int process, std::string_view variable) {
  const auto text = try_read_proc_file(fmt::format("{}/{}/environ", proc, process));
  if (!text || text->empty()) return std::nullopt;
  const std::string entry = fmt::format("{}=", variable);
  return text->starts_with(entry) || text->find('\0' + entry) != std::string::npos;
}

// Returns torchrun's agent as "PROCESS START"; empty: not found.
std::string agent_of(const std::string& proc, int process) {
  constexpr int kMostAncestors = 64;
  for (int i = 0; i < kMostAncestors && process > 0; ++i) {
    const auto found = ancestor(proc, process);
    const auto is_of_rank = began_with(proc, process, kRestarts);
    if (!found || !is_of_rank) return "";
    if (!*is_of_rank) return fmt::format("{} {}", process, found->start);
    process = found->parent;
  }
  return "";
}

}  // namespace

RunLaunch detect_launch(const GetEnvironment& environment, int parent, const std::string& proc) {
  const char* const attempt = environment(kRestarts);
  if (attempt == nullptr) return {};
  const bool is_first = std::string_view(attempt) == "0";
  if (const char* const launch_id = environment("ZERO_LAUNCH_ID"); launch_id != nullptr)
    return {.name = launch_id, .is_restart = !is_first, .keeps_runs = false};
  RunLaunch launch{.name = "", .is_restart = false, .keeps_runs = !is_first};
  const char* const torchrun_id = environment("TORCHELASTIC_RUN_ID");
  const std::string agent = agent_of(proc, parent);
  const auto boot = try_read_proc_file(proc + "/sys/kernel/random/boot_id");
  if (torchrun_id == nullptr || agent.empty() || !boot) return launch;
  launch.name = fmt::format("torchrun {} {} {}", torchrun_id, boot->substr(0, boot->find('\n')), agent);
  launch.is_restart = true;  // a change of membership restarts ranks without counting
  return launch;
}

}  // namespace zero
