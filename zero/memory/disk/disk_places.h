// DiskPlaces: places on disk that are taken and given back, and kept for reuse.
//
//   DiskPlaces places({.paths = {"/nvme0"}}, ledger, MemoryTag::kActivation);
//   const DiskPlace place = places.take(bytes);
//   place.tier->write(place.offset, block).wait();  ...  places.give_back(place);
//
// A DiskTier needs its size at construction, and its places are permanent. DiskPlaces needs neither: it creates slabs,
// a DiskTier each, on demand. A place that is given back serves later requests of about its size.
//
// A slab has kSlabBytes, or a quarter of all earlier slabs if that is more. So there are few files, and at most that
// much is unused. Repeated requests for the same sizes create no new slab. Slabs are preallocated, so the ledger is
// charged with their full size. Together they take at most `most_bytes`. Local; one thread at a time.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "zero/memory/account/charge.h"
#include "zero/memory/disk/disk_seam.h"
#include "zero/memory/disk/disk_tier.h"

namespace zero {

struct DiskPlace {
  DiskTier* tier = nullptr;
  std::int64_t offset = 0;
  std::int64_t bytes = 0;  // whole pages; at least the requested bytes
};

class DiskPlaces {
 public:
  static constexpr std::int64_t kSlabBytes = std::int64_t{64} << 20;

  // `options`: of every slab, except for the bytes. `most_bytes`: limit of all slabs together; 0: no limit. Does not
  // access the disk.
  DiskPlaces(DiskOptions options, Ledger& ledger, MemoryTag tag, DiskSeam seam = {}, std::int64_t most_bytes = 0);

  // Makes later slabs record their work.
  void record(Timeline* timeline) { options_.timeline = timeline; }
  // Creates the first slab if there is none, so faults of the folders show here. `bytes`: its size, if the need is
  // known. Throws the errors of DiskTier and take().
  void open(std::int64_t bytes = 0);
  // Takes a place. Throws ConfigError ("zero.disk_memory") if the disk or `most_bytes` leave no room for another slab,
  // and IoError.
  DiskPlace take(std::int64_t bytes);
  void give_back(const DiskPlace& place);

  std::int64_t capacity_bytes() const;
  DiskTraffic traffic() const;   // traffic of all slabs
  std::string describe() const;  // as DiskTier's; empty without a slab

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
  std::multimap<std::int64_t, DiskPlace> free_;  // free places by size
};

}  // namespace zero
