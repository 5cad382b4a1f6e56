#include "app/launch/flight_records.h"

#include <filesystem>

#include <gtest/gtest.h>
#include <signal.h>
#include <unistd.h>

#include "zero/base/process/memory_file.h"
#include "zero/comm/board/windows.h"
#include "zero/comm/flight/file.h"
#include "zero/comm/flight/ring.h"

#include "tests/support/temporary_folder.h"

namespace zero {
namespace {

// The ring of one rank, in memory that a launcher holds.
class HeldRing {
 public:
  HeldRing(MemoryFiles& kept, int rank)
      : file_(make_memory_file("ring", FlightRing::bytes(8))),
        memory_(map_memory_file(file_.get(), FlightRing::bytes(8), true)),
        ring_(memory_.bytes(), {.rank = rank, .world = 3, .run = "run"}) {
    ring_.end(ring_.begin({.operation = FlightOperation::kBarrier}));
    ring_.begin({.operation = FlightOperation::kAllGather, .unit = 4, .bytes = 64});
    EXPECT_EQ(kept.put("flight/rank-0000" + std::to_string(rank), FileDescriptor(dup(file_.get()))), "");
  }
  FlightRing& ring() { return ring_; }

 private:
  FileDescriptor file_;
  Allocation memory_;
  FlightRing ring_;
};

class FlightRecords : public testing::Test {
 protected:
  std::vector<FlightRecord> written() { return read_flight_folder(folder_ / "flight").records; }

  const TemporaryFolder folder_;
  MemoryFiles kept_;
};

TEST_F(FlightRecords, KilledRanksRecordBlamesIt) {
  HeldRing killed(kept_, 1), ended(kept_, 2);
  const std::vector<RankEnd> ends{{.rank = 1, .end = {.signal = SIGKILL}},
                                  {.rank = 2, .end = {.signal = SIGTERM}, .ended_by_us = true}};
  write_flights(folder_ / "flight", kept_, ends);
  const auto records = written();
  ASSERT_EQ(records.size(), 2u);
  EXPECT_EQ(records[0].cause.blamed, 1);
  EXPECT_NE(records[0].cause.reason.find("SIGKILL"), std::string::npos);
  EXPECT_EQ(records[1].cause.blamed, -1) << "the launcher ended it";
  ASSERT_EQ(records[0].entries.size(), 2u);
  EXPECT_EQ(records[0].entries[1].call.unit, 4);
  EXPECT_EQ(records[0].entries[1].ended_ns, 0) << "this collective had not ended";
}

TEST_F(FlightRecords, KeepsARanksOwnFile) {
  HeldRing rank(kept_, 0);
  rank.ring().mark_written();
  write_flights(folder_ / "flight", kept_, std::vector<RankEnd>{{.rank = 0, .end = {.exit_code = 3}}});
  EXPECT_FALSE(std::filesystem::exists(folder_ / "flight"));
}

TEST_F(FlightRecords, DamagedRingDoesNotStopOthers) {
  FileDescriptor nonsense = make_memory_file("ring", 100);
  ASSERT_EQ(pwrite(nonsense.get(), "not a ring at all", 17, 0), 17);
  ASSERT_EQ(kept_.put("flight/rank-00000", std::move(nonsense)), "");
  HeldRing killed(kept_, 1);
  write_flights(folder_ / "flight", kept_, std::vector<RankEnd>{{.rank = 1, .end = {.signal = SIGSEGV}}});
  ASSERT_EQ(written().size(), 1u);
  EXPECT_EQ(written()[0].identity.rank, 1);
}

TEST_F(FlightRecords, FurthestStepIsTheGreatestNoted) {
  EXPECT_FALSE(furthest_step(kept_));
  FileDescriptor nonsense = make_memory_file("ring", 100);
  ASSERT_EQ(pwrite(nonsense.get(), "not a ring at all", 17, 0), 17);
  ASSERT_EQ(kept_.put("flight/rank-00002", std::move(nonsense)), "");
  HeldRing ahead(kept_, 0), behind(kept_, 1);
  EXPECT_FALSE(furthest_step(kept_)) << "no ring has noted a step";
  behind.ring().note_step(0);
  EXPECT_EQ(furthest_step(kept_), 0);
  ahead.ring().note_step(41);
  behind.ring().note_step(40);
  EXPECT_EQ(furthest_step(kept_), 41);
}

TEST_F(FlightRecords, LostRankIsReadFromRing) {
  HeldRing rank(kept_, 1);
  EXPECT_FALSE(lost_by(0, kept_)) << "it has no ring";
  EXPECT_FALSE(lost_by(1, kept_));
  rank.ring().note_lost({.rank = 0});
  EXPECT_EQ(lost_by(1, kept_), (FlightLoss{.rank = 0, .left = false}));
}

TEST_F(FlightRecords, ABadConfigurationLeavesNone) {
  HeldRing rank(kept_, 1);
  write_flights(folder_ / "flight", kept_, std::vector<RankEnd>{{.rank = 1, .end = {.exit_code = 2}}});
  EXPECT_FALSE(std::filesystem::exists(folder_ / "flight"));
}

}  // namespace
}  // namespace zero
