// VersionPlaces: which place in a server's memory holds which version of the weights, while workers read them.
//
//   VersionPlaces places(plan, workers);
//   places.pin(1, 7);                               // worker 1 is being sent version 7
//   if (places.has_room()) place = places.keep(8);  // version 8 goes there: nobody reads what lay there
//   places.unpin(1);                                // it has read all of it
//
// A worker reads one version at a time, and pushes nothing before it has read all of it. The workers of an update have
// pushed, so only those that an update can do without may still read an older version, each one. Each holds the place of its
// version, and no more. There are num_versions() places and num_older_versions() beside them. So with at most four workers
// of that kind there is always room, and a server that updates waits for no reader. With more there is none where workers
// read five different versions: then an update waits until one of them is read, whichever is the first.
//
// A place that was never used is taken last. Values only; Local.
#pragma once

#include <cstdint>
#include <vector>

#include "zero/plan/sync_plan.h"

namespace zero {

class VersionPlaces {
 public:
  VersionPlaces(const SyncPlan& plan, int workers);

  // For another version.
  bool has_room() const { return free_place() >= 0; }
  // The place of a version that comes new. What lay there is gone. There is room.
  int keep(std::int64_t version);
  // -1: it is not there.
  int place_of(std::int64_t version) const;
  // `version` is there. A worker that is pinned to another is so no more.
  void pin(int worker, std::int64_t version);
  void unpin(int worker);
  // Workers that read a version now.
  std::vector<int> readers() const;

  // Of the versions that workers may still be answered with, the oldest first: at most num_versions().
  std::vector<std::int64_t> newest() const;
  int size() const { return static_cast<int>(versions_.size()); }

 private:
  int free_place() const;
  bool is_pinned(std::int64_t version) const;

  int num_versions_;
  std::vector<std::int64_t> versions_;  // by place; -1: never used
  std::vector<std::int64_t> pins_;      // by worker; -1: it reads none
};

}  // namespace zero
