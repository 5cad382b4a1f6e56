// WeightVersions: versions of a server's part of the weights, in the type in which operators read them: the newest, for
// workers that are behind, and older ones that workers still read.
//
//   WeightVersions versions(engine, plan, workers, servers);
//   versions.keep(8);                          // what the engine holds now; no place changes that a worker reads
//   versions.pin(1, 8);                        // worker 1 is being sent version 8, until unpin(1)
//   versions.shard(8, unit)
//
// Frozen units have one version, the engine's. The places in memory are those of VersionPlaces. One beside the newest
// versions is allocated, and charged as staging, when a worker first reads for so long that it is needed; then it is kept.
// Memory lies where peers can read it. Local but for the constructor, which is Collective over the servers.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "zero/engine/engine.h"
#include "zero/memory/charge.h"
#include "zero/plan/version_places.h"

namespace zero {

class WeightVersions {
 public:
  WeightVersions(Engine& engine, const SyncPlan& plan, int workers, Communicator& servers);

  // False: all places are being read. Then nothing may be kept before a worker is unpinned.
  bool has_room() const { return places_.has_room(); }
  void keep(std::int64_t version);
  // The same with bytes of before, as kept() has given them.
  void restore(std::int64_t version, std::span<const std::byte> bytes);
  void pin(int worker, std::int64_t version) { places_.pin(worker, version); }
  void unpin(int worker) { places_.unpin(worker); }
  std::vector<int> readers() const { return places_.readers(); }

  bool has(std::int64_t version) const { return places_.place_of(version) >= 0; }
  // The newest versions, the oldest of them first: those that workers may be answered with. The bytes of a version.
  std::vector<std::int64_t> numbers() const { return places_.newest(); }
  std::span<const std::byte> kept(std::int64_t version) const;
  std::span<const std::byte> shard(std::int64_t version, int unit) const { return part(kept(version), unit); }
  // A unit's shard within bytes as kept() gives them.
  std::span<const std::byte> part(std::span<const std::byte> kept, int unit) const;
  std::int64_t bytes_each() const { return bytes_; }
  // That may be kept beside the newest for workers that are behind.
  int num_older() const { return num_versions_ - 1; }

 private:
  struct Place {
    Allocation memory;
    Charge charge;
  };
  std::byte* memory_for(std::int64_t version);
  void allocate(Place& place);
  std::size_t shard_bytes(const Unit& unit) const;

  Engine& engine_;
  Communicator& servers_;
  int num_versions_;
  std::vector<std::size_t> offsets_;  // by unit
  std::int64_t bytes_ = 0;
  VersionPlaces places_;
  std::vector<Place> memory_;  // by place
};

}  // namespace zero
