// WeightVersions: versions of a server's part of the weights, in the type that operators read.
//
//   WeightVersions versions(engine, plan, workers, servers);
//   versions.keep(8);                          // copies the engine's weights; no version that a worker reads changes
//   versions.pin(1, 8);                        // worker 1 is being sent version 8, until unpin(1)
//   versions.shard(8, unit)
//
// Holds the newest versions, for workers that are behind, and older versions that workers still read. Frozen units have
// one version, the engine's. VersionPlaces assigns places in memory. A place for an older version is allocated when a
// slow reader first needs it, charged as staging, and kept from then on. Peers can read the memory. Local, except the
// constructor, which is Collective over the servers.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "zero/engine/rank_engine.h"
#include "zero/memory/account/charge.h"
#include "zero/plan/served/version_places.h"

namespace zero {

class WeightVersions {
 public:
  WeightVersions(RankEngine& engine, const SyncPlan& plan, int workers, Communicator& servers);

  // Returns false if workers read all places. Then keep() must wait until a worker is unpinned.
  bool has_room() const { return places_.has_room(); }
  void keep(std::int64_t version);
  // Keeps a version whose bytes kept() returned earlier.
  void restore(std::int64_t version, std::span<const std::byte> bytes);
  void pin(int worker, std::int64_t version) { places_.pin(worker, version); }
  void unpin(int worker) { places_.unpin(worker); }
  std::vector<int> readers() const { return places_.readers(); }

  bool has(std::int64_t version) const { return places_.place_of(version) >= 0; }
  // Returns the newest versions, the oldest of them first: the versions that workers may be answered with.
  std::vector<std::int64_t> numbers() const { return places_.newest(); }
  // Returns the bytes of a version.
  std::span<const std::byte> kept(std::int64_t version) const;
  std::span<const std::byte> shard(std::int64_t version, int unit) const { return part(kept(version), unit); }
  // Returns a unit's shard in bytes that kept() returned.
  std::span<const std::byte> part(std::span<const std::byte> kept, int unit) const;
  std::int64_t bytes_each() const { return bytes_; }
  // Returns the number of versions kept beside the newest, for workers that are behind.
  int num_older() const { return num_versions_ - 1; }

 private:
  struct Place {
    Allocation memory;
    Charge charge;
  };
  std::byte* memory_for(std::int64_t version);
  void allocate(Place& place);
  std::size_t shard_bytes(const Unit& unit) const;

  RankEngine& engine_;
  Communicator& servers_;
  int num_versions_;
  std::vector<std::size_t> offsets_;  // by unit
  std::int64_t bytes_ = 0;
  VersionPlaces places_;
  std::vector<Place> memory_;  // by place
};

}  // namespace zero
