// DiskTier: a tier in files. Its places are fixed, and its requests overlap with all other work.
//
//   DiskTier disk({.paths = {"/nvme0", "/nvme1"}, .bytes = 64 << 30});
//   const std::int64_t at = disk.reserve(bytes);              // a permanent place of its own
//   Transfer write = disk.write(at, block);                   // block: page-aligned memory, whole pages
//   write.wait();
//   Transfer read = disk.read(at, block);
//
// Each path has one preallocated file without a name, so nothing is left behind, even after kill -9. Stripe k of
// kStripeBytes is in file k mod paths. Requests bypass the page cache (O_DIRECT) if the file system allows it (tmpfs
// does not). They go through io_uring, several in flight; if the kernel refuses it, through threads with the same
// behaviour. Both fallbacks are logged once per process. Invariants: every result is checked, and a short read or write
// is continued. With checksums, bytes that write() did not write are never read without an error. Requests in flight
// must not overlap, except two reads. The destructor waits for transfers, which keep their results. Local; one thread
// at a time.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "zero/base/process/timeline.h"
#include "zero/memory/disk/disk_options.h"
#include "zero/memory/disk/traffic.h"
#include "zero/memory/io/transfer.h"

namespace zero {

struct DiskSeam;  // disk_seam.h

class DiskTier {
 public:
  static constexpr std::int64_t kPageBytes = 4096;
  static constexpr std::int64_t kStripeBytes = std::int64_t{1} << 20;

  // Throws ConfigError before any file is created. Under "zero.disk" a path is missing, no folder, or not writable.
  // Under "zero.disk_memory" there is too little space: the error names free and requested bytes by path. Also throws
  // it if kUring is requested and refused. Throws IoError if a file can still not be created or preallocated. With
  // checksums, each page's sum is kept in memory (8 bytes per 4 KiB).
  explicit DiskTier(const DiskOptions& options);
  DiskTier(const DiskOptions& options, const DiskSeam& seam);  // for tests
  // Throws ConfigError as the constructor does if the tiers of `ranks` ranks of this machine together do not fit.
  // Creates no file.
  static void require_room(const DiskOptions& options, int ranks, const DiskSeam& seam);
  DiskTier(const DiskTier&) = delete;
  DiskTier& operator=(const DiskTier&) = delete;
  ~DiskTier();

  // Reserves whole pages for `bytes`, and returns their offset. Throws ConfigError under "zero.disk_memory" if
  // capacity_bytes() are used up. A place cannot be given back: places are made once, when a model is attached.
  std::int64_t reserve(std::int64_t bytes);

  // Begin a transfer. `offset` and the size are multiples of kPageBytes within one reserved place; the memory is
  // page-aligned. Requests larger than a stripe are split. Block only while queue_depth requests are in flight. The
  // transfer's wait() throws IoError if it fails. `unit`: the unit of the bytes, for the timeline and the error.
  [[nodiscard]] Transfer read(std::int64_t offset, std::span<std::byte> into, int unit = -1);
  [[nodiscard]] Transfer write(std::int64_t offset, std::span<const std::byte> from, int unit = -1);

  // Registers memory that transfers reuse (page-aligned, whole pages), so io_uring locks it and looks up its pages once
  // instead of per request. Returns false if that fails, for example because of too little lockable memory (`ulimit
  // -l`). That is logged once per process, and transfers still work.
  bool register_memory(std::span<std::byte> memory);
  // Unregisters memory; call it before the memory is unmapped, and without transfers in flight from or to it.
  void forget_memory(std::span<std::byte> memory);

  std::int64_t capacity_bytes() const;
  std::int64_t reserved_bytes() const;
  const DiskTraffic& traffic() const;
  // Describes the tier for the report and `zero doctor`: "io_uring, O_DIRECT, registered buffers, 2 paths".
  std::string describe() const;

 private:
  struct Implementation;
  std::unique_ptr<Implementation> implementation_;
};

}  // namespace zero
