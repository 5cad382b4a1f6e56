// WeightVersions: the newest versions of a server's part of the weights, in the type in which operators read them, for
// workers that are behind.
//
//   WeightVersions versions(engine, /*count=*/plan.num_versions(), servers);
//   versions.keep(8);                          // what the engine holds now; the oldest of `count` goes
//   versions.shard(7, unit)
//
// Frozen units have one version, the engine's. Memory is charged as staging, and lies where peers can read it. Local but
// for the constructor, which is Collective over the servers.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "zero/engine/engine.h"
#include "zero/memory/charge.h"

namespace zero {

class WeightVersions {
 public:
  WeightVersions(Engine& engine, int count, Communicator& servers);

  // Nobody reads the oldest any more.
  void keep(std::int64_t version);
  // The same with bytes of before, as kept() has given them.
  void restore(std::int64_t version, std::span<const std::byte> bytes);
  bool has(std::int64_t version) const { return find(version) != nullptr; }
  // Versions that there are, the oldest first; the bytes of one.
  std::vector<std::int64_t> numbers() const;
  std::span<const std::byte> kept(std::int64_t version) const;
  std::span<const std::byte> shard(std::int64_t version, int unit) const { return part(kept(version), unit); }
  // A unit's shard within bytes as kept() gives them.
  std::span<const std::byte> part(std::span<const std::byte> kept, int unit) const;
  std::int64_t bytes_each() const { return bytes_; }
  // That may be kept beside the newest.
  int num_older() const { return static_cast<int>(versions_.size()) - 1; }

 private:
  struct Version {
    std::int64_t number = -1;
    Allocation memory;
    Charge charge;
  };
  const Version* find(std::int64_t version) const;
  Version& oldest();
  std::size_t shard_bytes(const Unit& unit) const;

  Engine& engine_;
  int servers_;
  std::vector<std::size_t> offsets_;  // by unit
  std::int64_t bytes_ = 0;
  std::vector<Version> versions_;
};

}  // namespace zero
