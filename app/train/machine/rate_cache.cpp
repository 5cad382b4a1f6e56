#include "app/train/machine/rate_cache.h"

#include <cstdlib>
#include <utility>

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
  const auto rate = [&](const std::string& name) {
    const auto found = entry->find(name);
    return found != entry->end() && found->is_number() ? found->get<double>() : 0.0;
  };
  TierRates rates{.update_numel = rate("update_numel")};
  bool complete = rates.update_numel > 0;
  for (const Tier tier : kRequestTiers) {
    const std::string name(name_of(tier));
    rates.requests[tier] = {
        .read = rate(name + "_read"), .write = rate(name + "_write"), .share = rate(name + "_share")};
    complete = complete && rates.requests[tier].share > 0;
  }
  const RequestRates& disk = rates.requests.disk;
  if (with_disk) complete = complete && disk.read > 0 && disk.write > 0;
  return complete ? std::optional(rates) : std::nullopt;
}

void RateCache::keep(const std::string& machine, const TierRates& rates) const {
  nlohmann::ordered_json entry;
  for (const Tier tier : kRequestTiers) {
    const std::string name(name_of(tier));
    entry[name + "_read"] = rates.requests[tier].read;
    entry[name + "_write"] = rates.requests[tier].write;
    entry[name + "_share"] = rates.requests[tier].share;
  }
  entry["update_numel"] = rates.update_numel;
  keep_in_cache(path_, machine, std::move(entry), "the probed rates");
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
