#include "zero/base/process/machine.h"

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cstdlib>
#include <limits>
#include <memory>
#include <optional>
#include <sstream>
#include <thread>

#include <sched.h>

#include "zero/base/error/error.h"
#include "zero/base/files/proc_file.h"

namespace zero {
namespace {

constexpr std::int64_t kUnlimited = std::numeric_limits<std::int64_t>::max();

// The files of versions 1 and 2 of control groups with the same numbers. The kernel throttles a group above `high`.
struct GroupFiles {
  const char* limit;
  const char* high;
  const char* usage;
  const char* inactive;
};
constexpr GroupFiles kVersion1{"memory.limit_in_bytes", nullptr, "memory.usage_in_bytes", "total_inactive_file"};
constexpr GroupFiles kVersion2{"memory.max", "memory.high", "memory.current", "inactive_file"};

// Parses a number; nothing for "max" and for numbers that are too large.
std::optional<std::int64_t> parse_number(std::string_view text) {
  std::int64_t number = 0;
  if (std::from_chars(text.data(), text.data() + text.size(), number).ec != std::errc{}) return std::nullopt;
  return number;
}

std::optional<std::int64_t> read_number(const std::string& path) {
  const auto text = try_read_proc_file(path);
  return text ? parse_number(*text) : std::nullopt;
}

// Returns the number after "NAME " in a file of such lines; 0 without that line.
std::int64_t read_statistic(const std::string& path, std::string_view name) {
  std::istringstream lines(try_read_proc_file(path).value_or(""));
  for (std::string line; std::getline(lines, line);) {
    if (line.starts_with(name) && line.substr(name.size(), 1) == " ") {
      return parse_number(std::string_view(line).substr(name.size() + 1)).value_or(0);
    }
  }
  return 0;
}

std::int64_t limit_of_group(const std::string& folder, const GroupFiles& files) {
  const std::int64_t limit = read_number(folder + "/" + files.limit).value_or(kUnlimited);
  if (files.high == nullptr) return limit;
  return std::min(limit, read_number(folder + "/" + files.high).value_or(kUnlimited));
}

std::int64_t room_in_group(const std::string& folder, const GroupFiles& files) {
  const std::int64_t limit = limit_of_group(folder, files);
  const auto usage = read_number(folder + "/" + files.usage);
  if (limit == kUnlimited || !usage) return kUnlimited;
  const std::int64_t droppable = read_statistic(folder + "/memory.stat", files.inactive);
  return std::max<std::int64_t>(0, limit - std::max<std::int64_t>(0, *usage - droppable));
}

// A limit holds for all groups below it, so visit the process's group and all its parents up to the mount point. A
// group whose folder is not visible is skipped, because it has no files (a container sees only its own part, as the
// root).
template <typename Visit>
void for_each_group_above(const std::string& mount, std::string group, const GroupFiles& files, Visit visit) {
  while (true) {
    visit(mount + group, files);
    const auto slash = group.rfind('/');
    if (slash == std::string::npos) return;
    group.resize(slash);
  }
}

// Lines of /proc/self/cgroup are "ID:CONTROLLERS:GROUP"; version 2 has ID 0 and no controllers.
template <typename Visit>
void for_each_group(const std::string& root, Visit visit) {
  std::istringstream lines(try_read_proc_file(root + "/proc/self/cgroup").value_or(""));
  for (std::string line; std::getline(lines, line);) {
    const auto first = line.find(':');
    const auto second = line.find(':', first + 1);
    if (first == std::string::npos || second == std::string::npos) continue;
    const std::string controllers = "," + line.substr(first + 1, second - first - 1) + ",";
    std::string group = line.substr(second + 1);
    if (group == "/") group.clear();
    if (controllers == ",,") {
      for_each_group_above(root + "/sys/fs/cgroup", group, kVersion2, visit);
    } else if (controllers.find(",memory,") != std::string::npos) {
      for_each_group_above(root + "/sys/fs/cgroup/memory", group, kVersion1, visit);
    }
  }
}

// Parses "some avg10=1.53 avg60=...", in percent.
double average_stall(const std::string& path) {
  const std::string text = try_read_proc_file(path).value_or("");
  constexpr std::string_view kBegin = "some avg10=";
  return text.starts_with(kBegin) ? std::strtod(text.c_str() + kBegin.size(), nullptr) : 0;
}

}  // namespace

std::int64_t available_memory(const std::string& root) {
  const std::string path = root + "/proc/meminfo";
  const auto available = field_kib(read_proc_file(path), "MemAvailable");
  if (!available) throw IoError(path, "parse", 0, "no line \"MemAvailable\"");
  std::int64_t room = *available;
  for_each_group(root, [&](const std::string& folder, const GroupFiles& files) {
    room = std::min(room, room_in_group(folder, files));
  });
  return room;
}

std::int64_t memory_limit(const std::string& root) {
  std::int64_t limit = kUnlimited;
  for_each_group(root, [&](const std::string& folder, const GroupFiles& files) {
    limit = std::min(limit, limit_of_group(folder, files));
  });
  return limit;
}

double memory_pressure(const std::string& root) {
  double worst = average_stall(root + "/proc/pressure/memory");
  for_each_group(root, [&](const std::string& folder, const GroupFiles&) {
    worst = std::max(worst, average_stall(folder + "/memory.pressure"));
  });
  return worst;
}

std::string processor_name(const std::string& root) {
  std::istringstream lines(try_read_proc_file(root + "/proc/cpuinfo").value_or(""));
  for (std::string line; std::getline(lines, line);) {
    if (!line.starts_with("model name") && !line.starts_with("CPU part")) continue;
    const auto begin = line.find_first_not_of(" \t", line.find(':') + 1);
    return begin == std::string::npos ? "unknown" : line.substr(begin);
  }
  return "unknown";
}

int num_usable_cores() {
  // The kernel refuses (EINVAL) a set that is smaller than its own; machines with more than 1,024 cores exist.
  for (int capacity = 1024; capacity <= (1 << 20); capacity *= 2) {
    const std::unique_ptr<cpu_set_t, void (*)(cpu_set_t*)> set(CPU_ALLOC(capacity), [](cpu_set_t* s) { CPU_FREE(s); });
    const std::size_t bytes = CPU_ALLOC_SIZE(capacity);
    if (sched_getaffinity(0, bytes, set.get()) == 0) return std::max(1, CPU_COUNT_S(bytes, set.get()));
    if (errno != EINVAL) break;
  }
  return std::max(1, static_cast<int>(std::thread::hardware_concurrency()));
}

}  // namespace zero
