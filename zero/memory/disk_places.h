// DiskPlaces: places on disk that come and go, kept between uses.
//
// A DiskTier is told its size when it is made, and its places are for good. Where neither is known beforehand, take
// places here. They lie in slabs, a DiskTier each, which are made as they are needed. A place that is given back
// serves the next request for its size.
//
//   DiskPlaces places({.paths = {"/nvme0"}}, ledger, MemoryTag::kActivation);
//   const DiskPlace place = places.take(bytes);
//   place.tier->write(place.offset, block).wait();  ...  places.give_back(place);
//
// A slab has kSlabBytes, or a quarter of all before it where that is more: a few files, and at most that much unused.
// Requests for the same sizes again and again make no new slab. Slabs are charged whole to the ledger, for they are
// preallocated; all together they take no more than `most_bytes`. Local; one thread at a time.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "zero/memory/charge.h"
#include "zero/memory/disk_seam.h"
#include "zero/memory/disk_tier.h"

namespace zero {

struct DiskPlace {
  DiskTier* tier = nullptr;
  std::int64_t offset = 0;
  std::int64_t bytes = 0;  // whole pages; at least what was asked for
};

class DiskPlaces {
 public:
  static constexpr std::int64_t kSlabBytes = std::int64_t{64} << 20;

  // `options` are every slab's, its bytes aside. `most_bytes`: of all slabs; 0: no limit. Touches no disk.
  DiskPlaces(DiskOptions options, Ledger& ledger, MemoryTag tag, DiskSeam seam = {}, std::int64_t most_bytes = 0);

  // Slabs that are made from now on record what they do there.
  void record(Timeline* timeline) { options_.timeline = timeline; }
  // Makes the first slab, if there is none yet, so that faults of the folders show here. The slab has `bytes`, if it is
  // known how many bytes will be taken. Throws what DiskTier does, and as take().
  void open(std::int64_t bytes = 0);
  // Throws ConfigError ("zero.disk_memory") where the disk, or what it may take of it, has no room for another slab,
  // and IoError.
  DiskPlace take(std::int64_t bytes);
  void give_back(const DiskPlace& place);

  std::int64_t capacity_bytes() const;
  DiskTraffic traffic() const;   // of all slabs
  std::string describe() const;  // as DiskTier's; empty before there is a slab

 private:
  struct Slab {
    std::unique_ptr<DiskTier> tier;
    Charge charge;
  };
  DiskTier& tier_with(std::int64_t bytes);
  void add_slab(std::int64_t least_bytes, std::int64_t wanted_bytes);

  DiskOptions options_;
  Ledger& ledger_;
  MemoryTag tag_;
  DiskSeam seam_;
  std::int64_t most_bytes_;
  std::vector<Slab> slabs_;
  std::multimap<std::int64_t, DiskPlace> free_;  // by size
};

}  // namespace zero
