// VersionPlaces: which place in a server's memory holds which version of the weights, while workers read them.
//
//   VersionPlaces places(plan, workers);
//   places.pin(1, 7);                               // worker 1 is being sent version 7
//   if (places.has_room()) place = places.keep(8);  // version 8 replaces a version that no worker reads
//   places.unpin(1);                                // worker 1 has read all of it
//
// A worker reads one version at a time, and pushes only after it has read all of it. The workers of an update have
// pushed. So only workers that an update can do without may still read older versions, and each pins at most one place.
// There are num_versions() + num_older_versions() places. With at most four such workers there is always room, and an
// update waits for no reader. With more there is no room if workers read five different versions. The update then waits
// until any one of them has been read.
//
// A place that was never used is taken last. Values only; Local.
#pragma once

#include <cstdint>
#include <vector>

#include "zero/plan/served/sync_plan.h"

namespace zero {

class VersionPlaces {
 public:
  VersionPlaces(const SyncPlan& plan, int workers);

  // Returns whether there is a place for another version.
  bool has_room() const { return free_place() >= 0; }
  // Stores a new version in a free place, which it returns. The place's old version is lost. Needs has_room().
  int keep(std::int64_t version);
  // Returns the place of a version; -1: no place has it.
  int place_of(std::int64_t version) const;
  // Pins a stored version for a worker, and unpins the version that this worker had pinned before.
  void pin(int worker, std::int64_t version);
  void unpin(int worker);
  // Returns the workers that read a version now.
  std::vector<int> readers() const;

  // Returns the versions that answers to workers may still name, oldest first: at most num_versions().
  std::vector<std::int64_t> newest() const;
  int size() const { return static_cast<int>(versions_.size()); }

 private:
  int free_place() const;
  bool is_pinned(std::int64_t version) const;

  int num_versions_;
  std::vector<std::int64_t> versions_;  // version in each place; -1: never used
  std::vector<std::int64_t> pins_;      // version that each worker reads; -1: none
};

}  // namespace zero
