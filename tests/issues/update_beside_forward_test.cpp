// The part of an update that runs beside the next forward pass waited for earlier writes to the disk. If a tile came in
// two requests, it also waited for room in the disk's queue. The update then ended before the pass continued.
#include <chrono>

#include <gtest/gtest.h>

#include "zero/engine/states/sharded_state.h"
#include "zero/memory/account/host_memory.h"
#include "zero/memory/disk/disk_seam.h"

#include "tests/memory/scripted_queue.h"
#include "tests/support/temporary_folder.h"

namespace zero {
namespace {

DiskSeam over(ScriptedDisk& script) {
  DiskSeam seam;
  seam.opening_limit = std::chrono::seconds(60);
  seam.make_queue = [&script](std::span<const int>, int) { return script.queue(); };
  return seam;
}

constexpr std::int64_t kNumel = 8 * TileStream::kTileNumel;

// The update works on tiles that were already read.
TEST(UpdateBesideForward, WorksUntilAWriteMustWait) {
  const TemporaryFolder folder;
  ScriptedDisk script;
  DiskTier disk({.paths = {folder.path()}, .bytes = kNumel * 4, .timeout = std::chrono::milliseconds(20)},
                over(script));
  Ledger ledger;
  StateArray moments({.splits = {{.disk = kNumel}}, .element_bytes = {4}}, MemoryTag::kMoment,
                     {.ledger = ledger, .disk = &disk}, allocate_host);
  BlockPool staging(allocate_host, ledger, MemoryTag::kStaging, Tier::kHost);
  constexpr int kDepth = 3;
  TileStream pass(HostDevice::instance(), &disk, nullptr, staging, kDepth);

  const auto whole = [](const IoRequest& request) { return static_cast<std::int64_t>(request.memory.size()); };
  script.answer = [&](const IoRequest& request) {
    return request.operation == IoOperation::kWrite ? ScriptedDisk::kNever : whole(request);
  };
  script.answer_to_cancel = whole;  // so the pass can end
  const double waited = disk.traffic().waited_seconds;
  pass.begin({{&moments, TileAccess::kReadWrite}}, {{0, kNumel}});
  int num_worked_on = 0;
  for (; pass.ready(); ++num_worked_on) {
    pass.next();
    pass.put_back();
  }
  EXPECT_EQ(num_worked_on, kDepth);
  EXPECT_EQ(disk.traffic().waited_seconds, waited);

  while (pass.next() != nullptr) ++num_worked_on;
  pass.finish();
  EXPECT_EQ(num_worked_on, 8);
}

TEST(UpdateBesideForward, DiskQueueHoldsAllTiles) {
  constexpr std::int64_t kDepth = OffloadTiers::kDefaultDepth;
  constexpr std::int64_t kUpdate = 2 * kDepth * static_cast<std::int64_t>(kMaxTileArrays);  // reads and writes
  constexpr std::int64_t kOthers =
      2 * OffloadTiers::prefetch_depth(OffloadTiers::kDefaultDepth);  // fetches and offloads
  EXPECT_GE(DiskOptions().queue_depth, kUpdate + kOthers);
}

// The request spans several stripes.
TEST(UpdateBesideForward, OneFileNeedsOneRequest) {
  const TemporaryFolder folder;
  ScriptedDisk script;
  DiskTier disk({.paths = {folder.path()}, .bytes = 4 * DiskTier::kStripeBytes}, over(script));
  const Allocation block = allocate_host(static_cast<std::size_t>(DiskTier::kStripeBytes));
  disk.reserve(DiskTier::kPageBytes);
  disk.write(disk.reserve(DiskTier::kStripeBytes), block.bytes()).wait();
  EXPECT_EQ(script.asked.size(), 1U);
}

}  // namespace
}  // namespace zero
