// VectorClock: for each lane and the host, the last operation before a point.
//
//   compute.merge(mark);                                     // lane `compute` waits for the mark
//   if (!compute.covers(earlier.actor, earlier.number)) ...  // the earlier operation is not ordered before it
//
// A device's operations are numbered from 1, in the order of queueing.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <string>

#include "zero/device/lane.h"

namespace zero {

// A source of ordered operations: a lane by its number, or the host.
using Actor = std::size_t;
constexpr Actor kHostActor = kNumLanes;
constexpr std::size_t kNumActors = kNumLanes + 1;

constexpr Actor actor_of(Lane lane) {
  return static_cast<Actor>(lane);
}
inline std::string actor_name(Actor actor) {
  return actor == kHostActor ? "the host" : "lane " + std::string(name_of(static_cast<Lane>(actor)));
}

class VectorClock {
 public:
  // Returns the actor's last operation before the point; 0 if there is none.
  std::uint64_t of(Actor actor) const { return last_[actor]; }
  bool covers(Actor actor, std::uint64_t operation) const { return operation <= last_[actor]; }

  void see(Actor actor, std::uint64_t operation) { last_[actor] = std::max(last_[actor], operation); }
  void merge(const VectorClock& other) {
    for (Actor actor = 0; actor < kNumActors; ++actor) see(actor, other.last_[actor]);
  }
  bool operator==(const VectorClock&) const = default;

 private:
  std::array<std::uint64_t, kNumActors> last_{};
};

}  // namespace zero
