#include <algorithm>
#include <charconv>
#include <limits>
#include <optional>
#include <sstream>
#include <string_view>

#include <fmt/format.h>
#include <sys/resource.h>
#include <sys/statvfs.h>
#include <sys/utsname.h>
#include <unistd.h>

#include "zero/base/error/error.h"
#include "zero/base/files/proc_file.h"
#include "zero/base/process/clock.h"
#include "zero/base/process/machine.h"
#include "zero/base/text/bytes.h"
#include "zero/memory/account/host_memory.h"
#include "zero/optim/lanes/kernel_target.h"

#include "app/cli/doctor/finding.h"
#include "app/launch/ranks/cores.h"

namespace zero::cli {
namespace {

namespace fs = std::filesystem;

constexpr std::int64_t kMiB = 1 << 20;
constexpr std::int64_t kGiB = 1 << 30;

// Returns the text of a file of /proc or /sys; "" if the file is absent or forbidden.
std::string text_of(const fs::path& path) {
  std::string text = try_read_proc_file(path.string()).value_or("");
  while (!text.empty() && text.back() == '\n') text.pop_back();
  return text;
}

// Returns the value of the line "Key:   value".
std::string field(const std::string& text, std::string_view key) {
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) {
    if (!line.starts_with(key)) continue;
    const auto colon = line.find(':');
    const auto begin = colon == std::string::npos ? colon : line.find_first_not_of(" \t", colon + 1);
    if (begin != std::string::npos) return line.substr(begin);
  }
  return "";
}

std::optional<std::int64_t> number(const std::string& text) {
  std::int64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  return error == std::errc{} ? std::optional(value) : std::nullopt;
}

// Returns the word in brackets: "always [madvise] never" -> "madvise".
std::string chosen(const std::string& text) {
  const auto open = text.find('[');
  const auto close = text.find(']');
  return open == std::string::npos || close == std::string::npos ? text : text.substr(open + 1, close - open - 1);
}

Finding processor(const fs::path& root) {
  std::string name = field(text_of(root / "proc/cpuinfo"), "model name");
  if (name.empty()) name = "processor";
  const std::string target = kernel_target();
  Finding finding{"processor", Health::kOk, fmt::format("{}; kernels use {}", name, target), ""};
  if (target == "SCALAR" || target == "EMU128") {
    finding.health = Health::kWarn;
    finding.remedy = "no vector instructions that zero.cpp knows: updates and sums will be slow";
  }
  return finding;
}

Finding cores() {
  const auto allowed = allowed_cores().size();
  const auto online = static_cast<std::size_t>(sysconf(_SC_NPROCESSORS_ONLN));
  Finding finding{"cores", Health::kOk, fmt::format("{} of {} usable", allowed, online), ""};
  if (allowed < online) {
    finding.health = Health::kWarn;
    finding.remedy =
        "this process may use only some (taskset, cpuset or batch system); ask for more if that is not meant";
  }
  return finding;
}

Finding memory(const fs::path& root) {
  const auto total = field_kib(text_of(root / "proc/meminfo"), "MemTotal");
  if (!total) return {"memory", Health::kWarn, "not known", "/proc/meminfo cannot be read"};
  const std::int64_t available = available_memory(root == "/" ? "" : root.string());
  Finding finding{"memory", Health::kOk,
                  fmt::format("{}, {} may be taken", format_bytes(*total), format_bytes(available)), ""};
  if (available < kGiB) {
    finding.health = Health::kWarn;
    finding.remedy = "less than 1 GiB is free: end other programs, or lower [zero] device_memory";
  }
  return finding;
}

// Measures a copy: update kernels and host tiers cannot be faster.
Finding memory_speed() {
  constexpr std::size_t kBytes = 64 << 20;
  try {
    const Allocation from = allocate_host(kBytes), to = allocate_host(kBytes);
    std::ranges::fill(from.bytes(), std::byte{1});  // unwritten pages all map to one page of zeros
    double least = std::numeric_limits<double>::max();
    for (int round = 0; round < 4; ++round) {  // the first round also maps new pages
      const double begin = monotonic_seconds();
      std::ranges::copy(from.bytes(), to.bytes().begin());
      least = std::min(least, monotonic_seconds() - begin);
    }
    return {"memory speed", Health::kOk, fmt::format("{:.1f} GB/s copied by one core", kBytes / 1e9 / least), ""};
  } catch (const Error& error) {
    return {"memory speed", Health::kWarn, error.what(), "ulimit -v unlimited, or end other programs"};
  }
}

Finding control_group(const fs::path& root) {
  const bool second = fs::exists(root / "sys/fs/cgroup/cgroup.controllers");
  const bool first = fs::exists(root / "sys/fs/cgroup/memory");
  // The limit is of this process's group and its parents, or of the root group that a container sees.
  const std::string limit = second ? text_of(root / "sys/fs/cgroup/memory.max")
                                   : text_of(root / "sys/fs/cgroup/memory/memory.limit_in_bytes");
  const std::int64_t bytes = std::min(memory_limit(root == "/" ? "" : root.string()),
                                      number(limit).value_or(std::numeric_limits<std::int64_t>::max()));
  const bool limited = bytes < (std::int64_t{1} << 60);
  return {"control group", Health::kOk,
          fmt::format("{}, memory {}",
                      second  ? "version 2"
                      : first ? "version 1"
                              : "none seen",
                      limited ? "limited to " + format_bytes(bytes) : "not limited"),
          ""};
}

Finding huge_pages(const fs::path& root, std::string_view subject, std::string_view file, std::string_view good,
                   std::string_view want) {
  const std::string mode = chosen(text_of(root / "sys/kernel/mm/transparent_hugepage" / file));
  if (mode.empty())
    return {std::string(subject), Health::kWarn, "not known", "the kernel has no transparent huge pages"};
  const bool usable = good.find(mode) != std::string_view::npos;
  return {std::string(subject), usable ? Health::kOk : Health::kWarn, mode,
          usable ? "" : fmt::format("as root: echo {} > /sys/kernel/mm/transparent_hugepage/{}", want, file)};
}

Finding locked_memory() {
  rlimit limit{};
  getrlimit(RLIMIT_MEMLOCK, &limit);
  if (limit.rlim_cur == RLIM_INFINITY) return {"locked memory", Health::kOk, "unlimited", ""};
  const auto bytes = static_cast<std::int64_t>(limit.rlim_cur);
  const bool enough = bytes >= 8 * kMiB;
  return {"locked memory", enough ? Health::kOk : Health::kWarn, format_bytes(bytes),
          enough ? "" : "ulimit -l unlimited (limits.conf: memlock), or registered I/O buffers will be refused"};
}

Finding open_files() {
  rlimit limit{};
  getrlimit(RLIMIT_NOFILE, &limit);
  const bool enough = limit.rlim_cur >= 1024;
  return {"open files", enough ? Health::kOk : Health::kWarn, std::to_string(limit.rlim_cur),
          enough ? "" : "ulimit -n 4096"};
}

Finding shared_memory() {
  struct statvfs info {};
  if (statvfs("/dev/shm", &info) != 0) {
    return {"/dev/shm", Health::kOk, "absent; zero.cpp uses memfd and does not need it", ""};
  }
  const auto bytes = static_cast<std::int64_t>(info.f_blocks * info.f_frsize);
  const bool enough = bytes >= 256 * kMiB;
  return {"/dev/shm", enough ? Health::kOk : Health::kWarn, format_bytes(bytes),
          enough
              ? ""
              : "Open MPI and other libraries use it: docker run --shm-size=1g, or mount -o remount,size=50% /dev/shm"};
}

Finding pressure(const fs::path& root) {
  const bool present = fs::exists(root / "proc/pressure/memory");
  return {"pressure (PSI)", present ? Health::kOk : Health::kWarn, present ? "present" : "absent",
          present ? "" : "boot with psi=1 to see memory and I/O stalls"};
}

Finding clock(const fs::path& root) {
  const std::string source = text_of(root / "sys/devices/system/clocksource/clocksource0/current_clocksource");
  const bool slow = source == "hpet" || source == "acpi_pm" || source == "jiffies";
  return {
      "clock", slow ? Health::kWarn : Health::kOk, source.empty() ? "not known" : source,
      slow ? "reading the time is slow with this source; boot with clocksource=tsc where the machine allows it" : ""};
}

Finding kernel() {
  utsname name{};
  uname(&name);
  return {"kernel", Health::kOk, fmt::format("{} {}", name.sysname, name.release), ""};
}

}  // namespace

std::vector<Finding> check_machine(const fs::path& root) {
  return {processor(root),
          cores(),
          memory(root),
          memory_speed(),
          control_group(root),
          huge_pages(root, "huge pages", "enabled", "always madvise", "madvise"),
          huge_pages(root, "huge pages, shared", "shmem_enabled", "always within_size advise force", "advise"),
          locked_memory(),
          open_files(),
          shared_memory(),
          pressure(root),
          clock(root),
          kernel()};
}

}  // namespace zero::cli
