#include "zero/checkpoint/image/image_memory.h"

#include <algorithm>

#include "zero/base/process/clock.h"
#include "zero/base/process/pages.h"
#include "zero/checkpoint/image/same_outcome.h"
#include "zero/comm/collectives.h"
#include "zero/memory/account/host_memory.h"
#include "zero/memory/memory_policy.h"

namespace zero {
namespace {

// Rounds up to huge pages, so a few more losses in an image need no new memory.
std::int64_t whole_pages(std::int64_t bytes) {
  constexpr auto kStagingPage = static_cast<std::int64_t>(kHugePageBytes);
  return (bytes + kStagingPage - 1) / kStagingPage * kStagingPage;
}

// Returns the bytes that the memory monitor leaves free; the most that it could leave if they are unknown.
std::int64_t reserve_of(const EngineResources& engine) {
  constexpr std::int64_t kMost = std::int64_t{1} << 50;
  const std::int64_t wanted = engine.options.offload.monitor.reserve_bytes;
  if (wanted > 0) return std::min(wanted, kMost);
  std::int64_t free_bytes = kMost;
  (void)failure_of([&] { free_bytes = engine.read_memory().free_bytes; });
  return default_reserve(free_bytes);
}

}  // namespace

ImageMemory::ImageMemory(const EngineResources& engine)
    : engine_(engine),
      reserve_(reserve_of(engine)),
      blocks_(allocate_host, engine.ledger, MemoryTag::kStaging, Tier::kHost) {}

bool ImageMemory::has_room(std::int64_t bytes) {
  const std::int64_t needed = whole_pages(bytes);
  if (idle_bytes() < needed || is_short()) give_back();
  const bool fits = memory_has_room(engine_, idle_bytes() > 0 ? 0 : needed);
  if (!fits) give_back();
  return fits;
}

std::span<std::byte> ImageMemory::lend(std::int64_t bytes) {
  std::byte* block = blocks_.acquire(whole_pages(bytes), 0);
  ++num_lent_;
  return {block, static_cast<std::size_t>(bytes)};
}

void ImageMemory::take_back(std::span<std::byte> lent) {
  blocks_.release(lent.data());
  if (--num_lent_ > 0) give_back();
}

void ImageMemory::yield() {
  constexpr double kPause = 0.1;
  const double now = monotonic_seconds();
  if (idle_bytes() == 0 || now - looked_ < kPause) return;
  looked_ = now;
  if (is_short()) give_back();
}

bool ImageMemory::is_short() const {
  const std::int64_t held = idle_bytes() * engine_.local_world;
  bool enough = false;
  const std::string unknown = failure_of([&] {
    const MemoryReading now = engine_.read_memory();
    enough = now.free_bytes >= std::max(held / 3, 2 * reserve_) && now.pressure < MemoryPolicy::kStalled;
  });
  return !enough || !unknown.empty();
}

bool memory_has_room(const EngineResources& engine, std::int64_t bytes) {
  bool fits = false;
  const std::string unknown = failure_of([&] {
    const std::int64_t free_bytes = engine.read_memory().free_bytes;
    fits = bytes * engine.local_world <= free_bytes - free_bytes / 4;
  });
  return all_reduce_min(engine.comm, fits && unknown.empty() ? 1 : 0) == 1;
}

}  // namespace zero
