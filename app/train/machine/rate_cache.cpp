#include "app/train/machine/rate_cache.h"

#include <cstdlib>

#include <fmt/format.h>
#include <sys/stat.h>
#include <sys/statfs.h>
#include <unistd.h>

#include "zero/base/process/machine.h"
#include "zero/memory/io/timed_calls.h"

#include "app/train/machine/cache_file.h"

namespace zero {

std::filesystem::path RateCache::default_path() {
  const char* cache = std::getenv("XDG_CACHE_HOME");
  const char* home = std::getenv("HOME");
  if (cache != nullptr && *cache != '\0') return std::filesystem::path(cache) / "zero.cpp" / "rates.json";
  return std::filesystem::path(home != nullptr ? home : "/tmp") / ".cache" / "zero.cpp" / "rates.json";
}

std::optional<TierRates> RateCache::find(const std::string& machine, bool with_disk) const {
  const auto entries = read_cache(path_);
  const auto entry = entries.find(machine);
  if (entry == entries.end() || !entry->is_object()) return std::nullopt;
  const auto rate = [&](const char* name) {
    const auto found = entry->find(name);
    return found != entry->end() && found->is_number() ? found->get<double>() : 0.0;
  };
  const TierRates rates{.disk_read = rate("disk_read"),
                        .disk_write = rate("disk_write"),
                        .disk_share = rate("disk_share"),
                        .update_numel = rate("update_numel")};
  const bool has_disk = rates.disk_read > 0 && rates.disk_write > 0;
  const bool complete = rates.update_numel > 0 && rates.disk_share > 0 && (!with_disk || has_disk);
  return complete ? std::optional(rates) : std::nullopt;
}

void RateCache::keep(const std::string& machine, const TierRates& rates) const {
  keep_in_cache(path_, machine,
                {{"disk_read", rates.disk_read},
                 {"disk_write", rates.disk_write},
                 {"disk_share", rates.disk_share},
                 {"update_numel", rates.update_numel}},
                "the probed rates");
}

std::string machine_identity(std::span<const std::string> folders, int local_ranks, int threads,
                             std::string_view update_rule, const FileCalls& calls) {
  constexpr int kProbe = 2;  // version of the probes; rates of other versions are not used
  std::string identity = fmt::format("probe {}, {}, {} cores, {} ranks, {} threads, {}", kProbe, processor_name(),
                                     ::sysconf(_SC_NPROCESSORS_ONLN), local_ranks, threads, update_rule);
  for (const std::string& folder : folders) {
    if (calls.try_folder(folder) != 0) continue;  // the code that opens it reports why
    struct stat status {};
    struct statfs system {};
    if (::stat(folder.c_str(), &status) != 0 || ::statfs(folder.c_str(), &system) != 0) continue;
    identity += fmt::format(", device {:x} type {:x} of {} blocks", status.st_dev, system.f_type, system.f_blocks);
  }
  return identity;
}

std::string machine_identity(const OffloadOptions& offload, const OptimizerOptions& optimizer, int local_ranks,
                             int threads) {
  return machine_identity(offload.disk, local_ranks, threads, name_of(optimizer),
                          TimedCalls(FileCalls::kernel(), offload.disk_timeout));
}

}  // namespace zero
