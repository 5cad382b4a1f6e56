#include "app/train/folder/save_pace.h"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <thread>

#include <fcntl.h>
#include <fmt/format.h>

#include "zero/base/files/random_bytes.h"
#include "zero/base/process/clock.h"
#include "zero/base/process/signals_blocked.h"
#include "zero/base/text/bytes.h"
#include "zero/checkpoint/image/same_outcome.h"
#include "zero/checkpoint/safetensors/block_file.h"
#include "zero/comm/collectives.h"
#include "zero/memory/account/host_memory.h"

namespace zero {
namespace {

constexpr std::chrono::milliseconds kPause{1};

// Writes an unnamed file, so no file is left however the process ends. sync() does nothing: its time does not grow with
// the bytes, so a sample must not include it.
class Sample final : public FileCalls {
 public:
  int open(const std::string& folder, int /*flags*/) const override {
    return FileCalls::open(folder, O_RDWR | O_TMPFILE);
  }
  int sync(int /*fd*/) const override { return 0; }
};

// Returns the seconds to write kLeastBytes as a save does.
double probe(const std::filesystem::path& folder) {
  static const Sample calls;  // threads may outlive the writer
  const Allocation memory = allocate_host(static_cast<std::size_t>(kSumBlockBytes));
  fill_with_random_bytes(memory.bytes());  // some disks detect zeros and write them faster
  const double begin = monotonic_seconds();
  BlockFileWriter writer(folder.string(), kLeastBytes, calls);
  for (std::int64_t done = 0; done < kLeastBytes; done += kSumBlockBytes) writer.append(memory.bytes());
  (void)writer.finish();
  return monotonic_seconds() - begin;
}

// Runs probe() in a separate thread, so no rank waits in a collective for a slow disk.
class Probe {
 public:
  explicit Probe(const std::filesystem::path& folder) {
    const SignalsBlocked blocked;
    thread_ = std::thread([this, folder] {
      unknown_ = failure_of([&] { seconds_ = probe(folder); });
      ended_ = true;
    });
  }
  Probe(const Probe&) = delete;
  Probe& operator=(const Probe&) = delete;
  ~Probe() { thread_.join(); }

  bool ended() const { return ended_; }
  // Returns the time after ended(); -1: the probe failed.
  std::int64_t microseconds() const { return unknown_.empty() ? static_cast<std::int64_t>(1e6 * seconds_) : -1; }

 private:
  std::string unknown_;
  double seconds_ = 0;
  std::atomic<bool> ended_{false};
  std::thread thread_;
};

}  // namespace

double estimate_save_seconds(Communicator& comm, const std::filesystem::path& folder, std::int64_t bytes) {
  const std::int64_t of_a_rank = bytes / comm.world();
  if (of_a_rank < kLeastBytes) return 0;
  comm.barrier({.control = true}).wait();  // all ranks begin at the same time
  const Probe probe(nearest_existing(folder));
  while (all_reduce_min(comm, probe.ended() ? 1 : 0) == 0) std::this_thread::sleep_for(kPause);
  const auto of_ranks = all_gather_value(comm, probe.microseconds());
  if (std::ranges::min(of_ranks) < 0) return 0;
  return 1e-6 * static_cast<double>(std::ranges::max(of_ranks)) * static_cast<double>(of_a_rank) /
         static_cast<double>(kLeastBytes);
}

std::string pace_note(const CheckpointPolicy& policy, std::int64_t bytes, double save_seconds, double step_seconds) {
  if (save_seconds <= 0 || !policy.on()) return "";
  const bool by_steps = policy.every_steps > 0;
  const double between = by_steps ? static_cast<double>(policy.every_steps) * step_seconds : policy.every_seconds;
  if (save_seconds <= between) return "";
  const std::string interval =
      by_steps ? fmt::format("{} steps may take only {}", policy.every_steps, format_seconds(between))
               : fmt::format("the next is due after {}", format_seconds(between));
  return fmt::format(
      "note: a checkpoint of {} takes about {} to write here, and {}: training may wait for saves; "
      "a larger checkpoint.every makes them fewer",
      format_bytes(bytes), format_seconds(save_seconds), interval);
}

}  // namespace zero
