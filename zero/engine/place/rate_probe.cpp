#include "zero/engine/place/rate_probe.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "zero/base/files/random_bytes.h"
#include "zero/base/process/clock.h"
#include "zero/base/process/parallel.h"
#include "zero/comm/collectives.h"
#include "zero/memory/account/host_memory.h"
#include "zero/memory/disk/disk_room.h"
#include "zero/memory/disk/disk_seam.h"
#include "zero/memory/disk/disk_tier.h"

namespace zero {
namespace {

constexpr std::int64_t kProbeBytes = std::int64_t{64} << 20;
constexpr std::int64_t kProbeBlockBytes = std::int64_t{8} << 20;
constexpr std::int64_t kProbeNumel = std::int64_t{1} << 21;  // of an update: more than caches hold
constexpr int kProbeRounds = 3;
constexpr int kDiskRounds = 5;
constexpr std::int64_t kProbeGrain = 1 << 18;  // elements a thread takes at a time
constexpr double kMillion = 1e6;

struct DiskRates {
  std::int64_t read = 0;
  std::int64_t write = 0;
  double share = 1;
};

double median(std::vector<double>& rounds) {
  const auto middle = rounds.begin() + static_cast<std::ptrdiff_t>(rounds.size() / 2);
  std::ranges::nth_element(rounds, middle);
  return *middle;
}

// Returns the bytes of a block to read while the rest is written, so both take equally long: whole stripes.
std::int64_t read_part(double read_seconds, double write_seconds) {
  constexpr std::int64_t kStripes = kProbeBlockBytes / DiskTier::kStripeBytes;
  const double part = static_cast<double>(kStripes) * write_seconds / (read_seconds + write_seconds);
  return std::clamp<std::int64_t>(std::llround(part), 1, kStripes - 1) * DiskTier::kStripeBytes;
}

// All ranks call it at once, as in a step.
DiskRates probe_disk(const OffloadOptions& offload, std::int64_t most_bytes, const DiskSeam& seam) {
  const std::int64_t num_bytes = std::min(kProbeBytes, most_bytes) / kProbeBlockBytes * kProbeBlockBytes;
  if (num_bytes == 0) return {};  // so little that its rate does not matter
  DiskTier disk({.paths = offload.disk, .bytes = num_bytes, .timeout = offload.disk_timeout}, seam);
  const std::int64_t place = disk.reserve(num_bytes);
  const Allocation block = allocate_host(static_cast<std::size_t>(kProbeBlockBytes));
  fill_with_random_bytes(block.bytes());  // some disks write zeros faster
  // Reads the first `part` of each block and writes the rest, at once.
  const auto seconds = [&](std::int64_t part) {
    const auto bytes = static_cast<std::size_t>(part);
    const double start = monotonic_seconds();
    for (std::int64_t at = place; at < place + num_bytes; at += kProbeBlockBytes) {
      Transfer read, write;
      if (part > 0) read = disk.read(at, block.bytes().first(bytes));
      if (part < kProbeBlockBytes) write = disk.write(at + part, block.bytes().subspan(bytes));
      read.wait();
      write.wait();
    }
    return monotonic_seconds() - start;
  };
  // Takes turns, and the median of each: a disk that others use, or that has a cache, can be fast for a moment.
  std::vector<double> writes, reads, shares;
  for (int round = 0; round <= kDiskRounds; ++round) {
    const double write = seconds(0), read = seconds(kProbeBlockBytes);
    const std::int64_t part = read_part(read, write);
    const double share_read = static_cast<double>(part) / static_cast<double>(kProbeBlockBytes);
    const double share = seconds(part) / (share_read * read + (1 - share_read) * write);
    if (round == 0) continue;  // the first round also marks the file's blocks as written
    writes.push_back(write);
    reads.push_back(read);
    shares.push_back(share);
  }
  const auto rate = [&](std::vector<double>& rounds) {
    return static_cast<std::int64_t>(static_cast<double>(num_bytes) / median(rounds));
  };
  return {.read = rate(reads), .write = rate(writes), .share = std::clamp(median(shares), 0.5, 1.0)};
}

// Returns elements a second, the best of a few rounds.
std::int64_t probe_update(const UpdateRule& rule, int threads) {
  std::vector<Allocation> arrays;
  const auto add = [&arrays](std::int64_t bytes) {
    return arrays.emplace_back(allocate_host(static_cast<std::size_t>(bytes))).data();
  };
  const auto add_floats = [&add](std::int64_t numel) {
    return reinterpret_cast<float*>(add(numel * static_cast<std::int64_t>(sizeof(float))));
  };
  UpdateSpan all{.parameter = add_floats(kProbeNumel), .numel = kProbeNumel};
  all.gradient = add(kProbeNumel * static_cast<std::int64_t>(sizeof(float)));
  const std::vector<StateSpec> states = states_of_elements(rule.states());
  for (std::size_t i = 0; i < states.size(); ++i) {
    if (states[i].coded()) {
      all.coded[i].codes = reinterpret_cast<std::uint8_t*>(add(kProbeNumel));
      all.coded[i].scales = add_floats(kProbeNumel / kCodeBlock);
    } else {
      all.states[i] = add_floats(kProbeNumel);
    }
  }
  ThreadTeam team(threads);
  double least = std::numeric_limits<double>::max();
  for (int round = 0; round <= kProbeRounds; ++round) {
    const double start = monotonic_seconds();
    team.for_range(0, kProbeNumel, kProbeGrain, [&](std::int64_t begin, std::int64_t end) {
      const UpdateSpan span = all.part(begin, end - begin);
      UpdateScalars scalars{
          .step = round + 1, .lr = 1e-3, .gradient_scale = 1, .weight_decay = 0, .numel = kProbeNumel};
      std::vector<ExactSum> sums(static_cast<std::size_t>(rule.num_sums()));
      rule.add_sums(span, scalars, sums);  // no-op if a rule has no sums
      const std::vector<double> ones(sums.size(), 1.0);
      scalars.sums = ones;
      rule.update(span, scalars);
    });
    if (round > 0) least = std::min(least, monotonic_seconds() - start);  // the first round commits pages
  }
  return static_cast<std::int64_t>(static_cast<double>(kProbeNumel) / least);
}

}  // namespace

std::int64_t agreed_least(Communicator* comm, std::int64_t value) {
  return comm == nullptr ? value : all_reduce_min(*comm, value);
}

TierRates probe_rates(Communicator* comm, const OffloadOptions& offload, const UpdateRule& rule, int threads,
                      std::int64_t disk_bytes, const DiskSeam* given) {
  const auto least = [comm](std::int64_t mine) { return static_cast<double>(agreed_least(comm, mine)); };
  const DiskSeam& seam = DiskSeam::or_none(given);
  const TimedCalls calls = seam.opening_calls(offload.disk_timeout);
  const auto is_missing = [&calls](const std::string& folder) { return !is_folder_here(folder, calls); };
  TierRates rates{.link_up = offload.link_bytes_per_second, .link_down = offload.link_bytes_per_second};
  const bool is_elsewhere = comm == nullptr && std::ranges::any_of(offload.disk, is_missing);
  if (!offload.disk.empty() && !is_elsewhere) {
    // At most half of the free bytes: a small disk must not refuse states that fit on it.
    const std::int64_t room = room_on(offload.disk, calls) / (2 * (comm == nullptr ? 1 : comm->world()));
    const DiskRates mine = probe_disk(offload, disk_bytes > 0 ? std::min(disk_bytes, room) : room, seam);
    rates.requests.disk.read = least(mine.read);
    rates.requests.disk.write = least(mine.write);
    rates.requests.disk.share = -least(std::llround(-mine.share * kMillion)) / kMillion;  // the largest, in millionths
  }
  rates.update_numel = least(probe_update(rule, threads));
  return rates;
}

}  // namespace zero
