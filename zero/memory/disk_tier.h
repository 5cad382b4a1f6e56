// DiskTier: a tier in files. Bytes at fixed places, moved by requests that overlap with everything else.
//
//   DiskTier disk({.paths = {"/nvme0", "/nvme1"}, .bytes = 64 << 30});
//   const std::int64_t at = disk.reserve(bytes);              // a place of one's own, for good
//   Transfer write = disk.write(at, block);                   // block: page-aligned memory, whole pages
//   write.wait();
//   Transfer read = disk.read(at, block);
//
// One file a path, without a name (nothing is left behind, also after kill -9), preallocated, and striped: stripe k of
// kStripeBytes lies in file k mod paths. Past the page cache (O_DIRECT) where the file system can; where it cannot
// (tmpfs), buffered. Requests go through io_uring, several in flight; where the kernel refuses it, through threads with
// the same behaviour. Either is said once a process.
//
// Invariants: every completion's result is looked at; a short read or write is continued; no byte that was not written
// by write() is ever returned as read without an error when checksums are on (each page's sum is kept in memory, 8
// bytes for 4 KiB, and compared when it returns). Requests of one DiskTier to overlapping places must not be in flight
// together, two reads aside. Destroyed with transfers in flight, it waits for them; they keep their results.
//
// Local; one thread at a time.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "zero/base/timeline.h"
#include "zero/memory/disk_options.h"
#include "zero/memory/traffic.h"
#include "zero/memory/transfer.h"

namespace zero {

struct DiskSeam;  // disk_seam.h

class DiskTier {
 public:
  static constexpr std::int64_t kPageBytes = 4096;
  static constexpr std::int64_t kStripeBytes = std::int64_t{1} << 20;

  // Throws ConfigError under "zero.disk" (a path that is missing, is no folder or cannot be written to) and
  // "zero.disk_memory" (too little room: names how much is free and how much was asked, by path), before any file is
  // made, and where kUring is asked for and refused; IoError when a file cannot be made or preallocated all the same.
  explicit DiskTier(const DiskOptions& options);
  DiskTier(const DiskOptions& options, const DiskSeam& seam);  // for tests
  // Throws ConfigError as the constructor does, where the tiers of `ranks` ranks of this machine have no room together.
  // No file is made.
  static void require_room(const DiskOptions& options, int ranks, const DiskSeam& seam);
  DiskTier(const DiskTier&) = delete;
  DiskTier& operator=(const DiskTier&) = delete;
  ~DiskTier();

  // The place of `bytes` that nobody else gets; whole pages. Throws ConfigError under "zero.disk_memory" when
  // capacity_bytes() are used up. There is no way to give a place back: places are made once, when a model is attached.
  std::int64_t reserve(std::int64_t bytes);

  // `offset` and the size are multiples of kPageBytes and lie in one reserved place; the memory is page-aligned. Larger
  // requests than a stripe are split. Blocks only while queue_depth requests are in flight. What goes wrong is thrown
  // by the transfer's wait(): IoError. `unit`: whose bytes they are, for the timeline and the error.
  [[nodiscard]] Transfer read(std::int64_t offset, std::span<std::byte> into, int unit = -1);
  [[nodiscard]] Transfer write(std::int64_t offset, std::span<const std::byte> from, int unit = -1);

  // Memory that transfers use again and again (page-aligned, whole pages): io_uring locks it and looks its pages up
  // once instead of at each request. False where that is not to be had, as with too little lockable memory (`ulimit
  // -l`); said once a process, and transfers work all the same.
  bool register_memory(std::span<std::byte> memory);
  // Before it is unmapped; nothing may be in flight from or to it.
  void forget_memory(std::span<std::byte> memory);

  std::int64_t capacity_bytes() const;
  std::int64_t reserved_bytes() const;
  const DiskTraffic& traffic() const;
  // "io_uring, O_DIRECT, registered buffers, 2 paths": for the report and `zero doctor`.
  std::string describe() const;

 private:
  struct Implementation;
  std::unique_ptr<Implementation> implementation_;
};

}  // namespace zero
