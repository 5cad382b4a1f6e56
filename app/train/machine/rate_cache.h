// RateCache: the rates that were probed on this machine, kept so not every run probes them again.
//
//   RateCache cache;
//   const std::string machine = machine_identity(folders, /*ranks=*/2, threads);
//   const TierRates rates = cache.find(machine).value_or(TierRates{});
//   cache.keep(machine, rates);
//
// They are stored in a file of the user's cache folder (${XDG_CACHE_HOME:-~/.cache}/zero.cpp/rates.json). It has one
// entry for each processor, number of ranks and threads, and set of disks. A missing or unreadable file holds nothing;
// a file that cannot be written is a warning. Local.
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

  // Returns the rates of `machine`. With `with_disk`, an entry without a disk's rates is not returned (the disk was too
  // small to be probed). An entry of an older zero.cpp that lacks a rate is not returned either.
  std::optional<TierRates> find(const std::string& machine, bool with_disk = false) const;
  void keep(const std::string& machine, const TierRates& rates) const;

 private:
  std::filesystem::path path_;
};

// Returns an equal text for equal hardware and update rule: processor and cores, and the folders' file systems and
// devices. If `calls` cannot try a folder (with TimedCalls: a folder that hangs), the folder is skipped; the code that
// opens it reports the error. The text does not depend on the cores that a process may use, which a launcher restricts
// for its ranks.
std::string machine_identity(std::span<const std::string> folders, int local_ranks, int threads,
                             std::string_view update_rule, const FileCalls& calls = FileCalls::kernel());
// Returns the identity for an engine's options. It gives up on a disk without an answer after its disk_timeout.
std::string machine_identity(const OffloadOptions& offload, const OptimizerOptions& optimizer, int local_ranks,
                             int threads);

}  // namespace zero
