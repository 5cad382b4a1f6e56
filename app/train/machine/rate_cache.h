// RateCache: what this machine was once found to manage, so that not every run probes it again. A file in the user's
// cache folder (${XDG_CACHE_HOME:-~/.cache}/zero.cpp/rates.json): one entry for each processor, number of ranks and
// threads, and set of disks.
//
//   RateCache cache;
//   const std::string machine = machine_identity(folders, /*ranks=*/2, threads);
//   const TierRates rates = cache.find(machine).value_or(TierRates{});
//   cache.keep(machine, rates);
//
// A cache: a file that is not there, or not to be read, holds nothing; one that cannot be written is a warning. Local.
#pragma once

#include <filesystem>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "zero/engine/options/options.h"
#include "zero/memory/io/file_calls.h"
#include "zero/optim/rule_registry.h"
#include "zero/plan/model/step_model.h"

namespace zero {

class RateCache {
 public:
  RateCache() : RateCache(default_path()) {}
  explicit RateCache(std::filesystem::path path) : path_(std::move(path)) {}
  static std::filesystem::path default_path();

  // `with_disk`: rates without a disk's do not serve (it was too small to be probed). Nor do those of an older zero.cpp
  // that lack one.
  std::optional<TierRates> find(const std::string& machine, bool with_disk = false) const;
  void keep(const std::string& machine, const TierRates& rates) const;

 private:
  std::filesystem::path path_;
};

// The same for the same hardware and update rule: processor and cores, what the folders' file systems are and on which
// devices; a folder that `calls` cannot try (with TimedCalls, one that hangs) is left to whoever opens it. Also for a
// process that may use some of the cores alone, as a launcher's ranks may.
std::string machine_identity(std::span<const std::string> folders, int local_ranks, int threads,
                             std::string_view update_rule, const FileCalls& calls = FileCalls::kernel());
// The same of what an engine is to be told; a disk without an answer is given up after its disk_timeout.
std::string machine_identity(const OffloadOptions& offload, const OptimizerOptions& optimizer, int local_ranks,
                             int threads);

}  // namespace zero
