#include "zero/plan/served/version_places.h"

#include <gtest/gtest.h>

#include "zero/base/error/error.h"

namespace zero {
namespace {

using Versions = std::vector<std::int64_t>;

// If nobody reads the previous version, the newest version takes its place.
TEST(VersionPlaces, NewestReusesUnreadPlace) {
  VersionPlaces places({.mode = SyncMode::kAsync, .servers = 1}, 3);
  EXPECT_EQ(places.keep(0), 0);
  EXPECT_EQ(places.keep(1), 0);
  EXPECT_EQ(places.place_of(0), -1);
  EXPECT_EQ(places.place_of(1), 0);
}

TEST(VersionPlaces, ReadVersionKeepsItsPlace) {
  VersionPlaces places({.mode = SyncMode::kAsync, .servers = 1}, 3);
  places.keep(0);
  places.pin(2, 0);
  EXPECT_EQ(places.keep(1), 1);
  EXPECT_EQ(places.keep(2), 1) << "nobody reads version 1";
  EXPECT_EQ(places.place_of(0), 0);
  EXPECT_EQ(places.newest(), Versions{2}) << "no other worker is answered with version 0";
  places.unpin(2);
  EXPECT_EQ(places.keep(3), 0);
}

TEST(VersionPlaces, StaleVersionsStayForLateWorkers) {
  VersionPlaces places({.mode = SyncMode::kStale, .servers = 1, .staleness = 2}, 3);
  EXPECT_EQ(places.size(), 3) << "every update needs all workers, and none of them reads then";
  for (std::int64_t version = 0; version < 5; ++version) {
    if (version == 2) places.pin(0, 1);
    if (version == 4) places.unpin(0);
    places.keep(version);
  }
  EXPECT_EQ(places.newest(), (Versions{2, 3, 4}));
}

// At most four places are added: one for each worker that an update does not need.
TEST(VersionPlaces, SpareWorkersAddFourPlaces) {
  EXPECT_EQ(VersionPlaces({.servers = 1}, 8).size(), 1);
  EXPECT_EQ(VersionPlaces({.servers = 1, .quorum = 6}, 8).size(), 1 + 2);
  EXPECT_EQ(VersionPlaces({.mode = SyncMode::kAsync, .servers = 1}, 1).size(), 1);
  EXPECT_EQ(VersionPlaces({.mode = SyncMode::kAsync, .servers = 1}, 4).size(), 1 + 3);
  EXPECT_EQ(VersionPlaces({.mode = SyncMode::kAsync, .servers = 1}, 40).size(), 1 + 4);
}

// All places are full until a worker has finished reading.
TEST(VersionPlaces, FiveReadVersionsFillAllPlaces) {
  VersionPlaces places({.mode = SyncMode::kAsync, .servers = 1}, 8);
  places.keep(0);
  for (int worker = 0; worker < 5; ++worker) {
    places.pin(worker, worker);
    if (worker < 4) places.keep(worker + 1);
  }
  EXPECT_FALSE(places.has_room());
  EXPECT_EQ(places.readers(), (std::vector<int>{0, 1, 2, 3, 4}));
  EXPECT_THROW(places.keep(5), InternalError);
  places.unpin(3);
  EXPECT_TRUE(places.has_room());
  EXPECT_EQ(places.keep(5), 3);
}

TEST(VersionPlaces, NobodyReadsMissingVersion) {
  VersionPlaces places({.mode = SyncMode::kAsync, .servers = 1}, 2);
  places.keep(7);
  EXPECT_THROW(places.pin(0, 6), InternalError);
}

}  // namespace
}  // namespace zero
