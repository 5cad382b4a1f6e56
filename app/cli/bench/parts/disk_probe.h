// DiskProbe: the speed of disks under a plain loop, the limit that DiskTier is measured against.
//
//   DiskProbe probe({"/nvme0"}, 512 << 20, 32);
//   probe.write();   // all bytes once, random ones
//   probe.read();
//   probe.read_and_write();   // both at once: the limit of a disk that shares its speed between them
//
// It moves stripes of 1 MiB without the page cache, with a fixed number of requests in flight, and does no other work.
// It uses io_uring, or as many threads if the kernel refuses io_uring. Each folder gets one unnamed file, and stripes
// are distributed over the files in turn. Local. Throws as ScratchFile does.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "zero/base/process/allocation.h"
#include "zero/memory/io/scratch_file.h"

struct io_uring;

namespace zero::cli {

// Fills memory with random bytes, which a disk can neither compress nor deduplicate.
void fill_randomly(std::span<std::byte> memory);

class DiskProbe {
 public:
  static constexpr std::int64_t kStripeBytes = 1 << 20;

  // Returns the memory of `depth` requests in flight, filled with random bytes.
  static Allocation random_stripes(int depth);

  // `bytes` is a multiple of kStripeBytes. `stripes`: from random_stripes(). Creating a probe then only creates files.
  DiskProbe(const std::vector<std::string>& folders, std::int64_t bytes, Allocation stripes);
  DiskProbe(const std::vector<std::string>& folders, std::int64_t bytes, int depth)
      : DiskProbe(folders, bytes, random_stripes(depth)) {}

  void write() { move(Way::kWrite); }
  void read() { move(Way::kRead); }
  void read_and_write() { move(Way::kBoth); }
  std::string name() const;  // "io_uring", or "threads" if the kernel refuses io_uring

 private:
  enum class Way : std::uint8_t { kRead, kWrite, kBoth };
  struct Request {
    const ScratchFile* file = nullptr;
    std::int64_t offset = 0;
    bool write = false;
  };
  void move(Way way);
  std::int64_t num_requests(Way way) const { return way == Way::kBoth ? 2 * num_stripes_ : num_stripes_; }
  Request request(Way way, std::int64_t number) const;
  void move_with_uring(io_uring& ring, Way way);
  void move_with_threads(Way way);

  std::vector<ScratchFile> files_;
  std::int64_t num_stripes_;
  int depth_;
  Allocation memory_;  // a stripe for each request in flight
};

}  // namespace zero::cli
