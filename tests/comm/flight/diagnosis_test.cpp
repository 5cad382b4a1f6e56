#include "zero/comm/flight/diagnosis.h"

#include <algorithm>
#include <map>

#include <gtest/gtest.h>

#include "tests/support/message_of.h"

namespace zero {
namespace {

constexpr std::int64_t kSecond = 1'000'000'000;
constexpr std::int64_t kStart = 1000 * kSecond;

// The record of one rank, built in the order of its events. Every collective takes a millisecond.
class Told {
 public:
  Told(int rank, int world) {
    record_.identity = {.rank = rank, .world = world, .run = "run"};
    record_.started_ns = kStart;
    record_.written_ns = kStart + 10 * kSecond;
  }
  Told& did(const FlightCall& call) {
    add(call);
    record_.entries.back().ended_ns = time_;
    return *this;
  }
  // Rounds of a gather and a sum, for units 0 to 3.
  Told& rounds(int count) {
    for (int i = 0; i < count; ++i) {
      did({FlightOperation::kAllGather, i % 4, 100, -1});
      did({FlightOperation::kReduceScatter, i % 4, 400, -1});
    }
    return *this;
  }
  // Like did(), in a group of ranks.
  Told& did_in(const std::string& group, const FlightCall& call) {
    waits_in(group, call);
    record_.entries.back().ended_ns = time_;
    return *this;
  }
  Told& waits_in(const std::string& group, const FlightCall& call) {
    auto& groups = record_.groups;
    const auto found = std::ranges::find(groups, group);
    const auto index = static_cast<int>(found - groups.begin());
    if (found == groups.end()) groups.push_back(group);
    add(call);
    --collectives_;
    record_.entries.back().group = index + 1;
    record_.entries.back().collective = ++in_group_[group];
    return *this;
  }
  Told& waits(const FlightCall& call) {
    add(call);
    return *this;
  }
  Told& fails(const FlightCall& call, int blamed) {
    add(call);
    record_.entries.back().ended_ns = time_ + 2 * kSecond;
    record_.entries.back().failed = true;
    return because("late", blamed);
  }
  Told& because(const std::string& reason, int blamed) {
    record_.cause = {.reason = reason, .blamed = blamed};
    return *this;
  }
  // Adds the time that the communicator waited before its error.
  Told& waited(std::int64_t nanoseconds) {
    record_.cause.waited_ns = nanoseconds;
    return *this;
  }
  // Drops all entries but the newest `count`.
  Told& keeps(std::size_t count) {
    auto& entries = record_.entries;
    entries.erase(entries.begin(), entries.end() - static_cast<std::ptrdiff_t>(count));
    return *this;
  }
  FlightRecord record() const { return record_; }
  operator FlightRecord() const { return record_; }

 private:
  void add(const FlightCall& call) {
    const bool message = is_message(call.operation);
    if (!message) ++collectives_;
    record_.entries.push_back(
        {.number = ++number_, .collective = message ? 0 : collectives_, .call = call, .began_ns = time_});
    time_ += kSecond / 1000;
  }
  FlightRecord record_;
  std::uint64_t number_ = 0, collectives_ = 0;
  std::map<std::string, std::uint64_t> in_group_;
  std::int64_t time_ = kStart;
};

const FlightCall kGather{FlightOperation::kAllGather, 0, 100, -1};
const FlightCall kSum{FlightOperation::kReduceScatter, 0, 400, -1};
const FlightCall kBarrier{};

TEST(Diagnosis, OneRankReadsInTheSingular) {
  EXPECT_EQ(diagnose({Told(0, 1).rounds(20)}).summary, "nothing is wrong: the only rank has begun 40 collectives");
  EXPECT_EQ(diagnose({Told(0, 1).did(kGather)}).summary, "nothing is wrong: the only rank has begun 1 collective");
  EXPECT_EQ(diagnose({Told(0, 1).rounds(20).because("late", -1)}).summary,
            "an error was met, and the only rank has begun 40 collectives: the reasons below say more than the order");
}

TEST(Diagnosis, AllWellIsSaid) {
  const auto found = diagnose({Told(0, 3).rounds(20), Told(1, 3).rounds(20), Told(2, 3).rounds(20)});
  EXPECT_EQ(found.trouble, FlightTrouble::kNone);
  EXPECT_TRUE(found.culprits.empty());
  EXPECT_EQ(found.summary, "nothing is wrong: all 3 ranks have begun the same 40 collectives");
  ASSERT_EQ(found.ranks.size(), 3u);
  EXPECT_EQ(found.ranks[1].did,
            "reduce_scatter #40 (unit 3, 400 bytes): ended 9.960 s before the last record; computing, or in no "
            "collective, since then");
}

TEST(Diagnosis, SkippedCollectiveIsFirstDifference) {
  // Rank 1 omits a sum, so all its later collectives are one ahead.
  const auto found = diagnose({Told(0, 3).rounds(5).did(kGather).did(kSum).waits(kGather),
                               Told(1, 3).rounds(5).did(kGather).did(kGather).waits(kSum),
                               Told(2, 3).rounds(5).did(kGather).did(kSum).waits(kGather)});
  EXPECT_EQ(found.trouble, FlightTrouble::kDisagreement);
  EXPECT_EQ(found.culprits, std::vector{1});
  EXPECT_EQ(found.collective, 12u);
  EXPECT_TRUE(says(found.summary, "rank 1 does all_gather #12 (unit 0, 100 bytes)"));
  EXPECT_TRUE(says(found.summary, "ranks 0, 2 do reduce_scatter #12 (unit 0, 400 bytes)"));
  EXPECT_TRUE(says(found.summary, "only rank 1 is at fault"));
}

TEST(Diagnosis, ReorderedCollectivesAreTheFirstDifference) {
  const auto found = diagnose({Told(0, 4).rounds(2).waits(kGather), Told(1, 4).rounds(2).waits(kGather),
                               Told(2, 4).rounds(2).waits(kGather), Told(3, 4).rounds(2).did(kSum).waits(kGather)});
  EXPECT_EQ(found.trouble, FlightTrouble::kDisagreement);
  EXPECT_EQ(found.culprits, std::vector{3});
  EXPECT_EQ(found.collective, 5u);
}

TEST(Diagnosis, SizesUnitsAndRootsCount) {
  for (const auto& other :
       {FlightCall{FlightOperation::kAllGather, 0, 101, -1}, FlightCall{FlightOperation::kAllGather, 1, 100, -1}}) {
    const auto found = diagnose({Told(0, 3).did(kGather), Told(1, 3).did(kGather), Told(2, 3).did(other)});
    EXPECT_EQ(found.trouble, FlightTrouble::kDisagreement) << found.summary;
    EXPECT_EQ(found.culprits, std::vector{2});
  }
  const FlightCall from_0{FlightOperation::kBroadcast, -1, 8, 0}, from_1{FlightOperation::kBroadcast, -1, 8, 1};
  EXPECT_EQ(diagnose({Told(0, 2).did(from_0), Told(1, 2).did(from_1)}).trouble, FlightTrouble::kDisagreement);
}

TEST(Diagnosis, TwoThatDisagreeAreBothNamed) {
  const auto found = diagnose({Told(0, 2).rounds(1).waits(kGather), Told(1, 2).rounds(1).waits(kBarrier)});
  EXPECT_EQ(found.culprits, (std::vector{0, 1}));
  EXPECT_TRUE(says(found.summary, "do not say which"));
}

TEST(Diagnosis, RingsCompareTheirOverlap) {
  // Rank 0's older entries are unknown, which is no difference.
  EXPECT_EQ(diagnose({Told(0, 2).rounds(50).keeps(7), Told(1, 2).rounds(50)}).trouble, FlightTrouble::kNone);
  const auto found = diagnose({Told(0, 2).rounds(50).waits(kSum).keeps(7), Told(1, 2).rounds(50).waits(kGather)});
  EXPECT_EQ(found.collective, 101u);
}

TEST(Diagnosis, MessagesDoNotShiftCollectiveNumbers) {
  const FlightCall send{FlightOperation::kSend, -1, 10, 1}, receive{FlightOperation::kReceive, -1, 10, 0};
  const auto found = diagnose({Told(0, 2).did(send).did(send).rounds(3), Told(1, 2).rounds(3).did(receive)});
  EXPECT_EQ(found.trouble, FlightTrouble::kNone) << found.summary;
}

TEST(Diagnosis, ComputingRankIsBehind) {
  const auto found = diagnose({Told(0, 3).rounds(5).fails(kGather, 1), Told(1, 3).rounds(5),  //
                               Told(2, 3).rounds(5).fails(kGather, 1)});
  EXPECT_EQ(found.trouble, FlightTrouble::kBehind);
  EXPECT_EQ(found.culprits, std::vector{1});
  EXPECT_EQ(found.collective, 11u);
  EXPECT_TRUE(says(found.summary, "others have begun #11, it has begun #10 only"));
  EXPECT_TRUE(says(found.ranks[1].did, "computing, or in no collective, since then"));
  EXPECT_TRUE(says(found.ranks[0].did, "all_gather #11 (unit 0, 100 bytes): failed after 2.001 s"));
}

TEST(Diagnosis, ErrorsDecideBetweenTwoBehind) {
  const auto found = diagnose({Told(0, 3).rounds(5).fails(kGather, 2), Told(1, 3).rounds(5), Told(2, 3).rounds(5)});
  EXPECT_EQ(found.culprits, std::vector{2});
}

// Two ranks are behind.
TEST(Diagnosis, FewerEndsDecideWithoutErrors) {
  const auto found = diagnose({Told(0, 3).rounds(5).waits(kGather), Told(1, 3).rounds(4).did(kGather).waits(kSum),
                               Told(2, 3).rounds(4).did(kGather).did(kSum)});
  // The fifth round is for unit 0, as are kGather and kSum, so the calls agree.
  EXPECT_EQ(found.trouble, FlightTrouble::kBehind) << found.summary;
  EXPECT_EQ(found.culprits, std::vector{1});
}

// The other ranks have ended that collective.
TEST(Diagnosis, RankStoppedInCollectiveIsBehind) {
  const auto found =
      diagnose({Told(0, 2).rounds(4).did(kGather).because("late", -1), Told(1, 2).rounds(4).waits(kGather)});
  EXPECT_EQ(found.trouble, FlightTrouble::kBehind) << found.summary;
  EXPECT_EQ(found.culprits, std::vector{1});
  EXPECT_EQ(found.collective, 9u);
}

// All ranks have begun the same collectives.
TEST(Diagnosis, ErrorsDecideIfAllAreEqual) {
  const auto found = diagnose({Told(0, 3).rounds(4).fails(kGather, 2), Told(1, 3).rounds(4).fails(kGather, 2),
                               Told(2, 3).rounds(4).waits(kGather)});
  EXPECT_EQ(found.trouble, FlightTrouble::kBlamed);
  EXPECT_EQ(found.culprits, std::vector{2});
  EXPECT_TRUE(says(found.summary, "all_gather #9 (unit 0, 100 bytes): begun 9.992 s before the last record, and not"));
}

// Its progress does not matter.
TEST(Diagnosis, SelfEndedRankIsTheCulprit) {
  const auto found = diagnose(
      {Told(0, 3).rounds(4).fails(kGather, 1), Told(1, 3).rounds(4).because("disk full", 1), Told(2, 3).rounds(3)});
  EXPECT_EQ(found.trouble, FlightTrouble::kOwnError);
  EXPECT_EQ(found.culprits, std::vector{1});
  EXPECT_EQ(found.ranks[1].reason, "disk full");
}

TEST(Diagnosis, RankWithoutARecordIsNamed) {
  const auto found = diagnose({Told(0, 3).rounds(4).fails(kGather, 1), Told(2, 3).rounds(4).fails(kGather, 1)});
  EXPECT_EQ(found.trouble, FlightTrouble::kMissing);
  EXPECT_EQ(found.culprits, std::vector{1});
  EXPECT_TRUE(says(found.summary, "rank 1 has no record, and the other ranks name it; rank 0 came to all_gather #9"));
  EXPECT_FALSE(found.ranks[1].has_record);
  EXPECT_EQ(found.num_missing, 1);
}

TEST(Diagnosis, MissingRecordIsAFinding) {
  const auto found = diagnose({Told(0, 2).rounds(4)});
  EXPECT_EQ(found.trouble, FlightTrouble::kMissing);
  EXPECT_EQ(found.culprits, std::vector{1});
}

// The errors name a rank that has a record.
TEST(Diagnosis, NamedRankPrecedesAMissingOne) {
  const auto found = diagnose({Told(0, 3).rounds(4).fails(kGather, 1), Told(1, 3).rounds(4)});
  EXPECT_EQ(found.trouble, FlightTrouble::kBlamed);
  EXPECT_EQ(found.culprits, std::vector{1});
  EXPECT_EQ(found.num_missing, 1);
}

TEST(Diagnosis, ErrorWithoutATraceIsUnclear) {
  const auto found = diagnose({Told(0, 2).rounds(4).because("no idea", -1), Told(1, 2).rounds(4)});
  EXPECT_EQ(found.trouble, FlightTrouble::kUnclear);
  EXPECT_TRUE(found.culprits.empty());
}

TEST(Diagnosis, EarlierRunsDoNotCount) {
  FlightRecord other_run = Told(1, 3).rounds(9).waits(kBarrier);
  other_run.identity.run = "an earlier run";
  other_run.written_ns = kStart - kSecond;
  FlightRecord same_name = Told(2, 3).rounds(9).waits(kBarrier);  // --run-id gives every run the same name
  same_name.written_ns = kStart - kSecond;
  const auto found = diagnose({Told(0, 3).rounds(4).fails(kGather, 2), other_run, same_name});
  EXPECT_EQ(found.stale, (std::vector{1, 2}));
  EXPECT_EQ(found.trouble, FlightTrouble::kMissing);
  EXPECT_EQ(found.culprits, std::vector{2});
  FlightRecord earlier_attempt = Told(1, 2).rounds(9);
  earlier_attempt.written_ns -= 1;
  FlightRecord now = Told(0, 2).rounds(4);
  now.identity.restart = 1;
  EXPECT_EQ(diagnose({now, earlier_attempt}).stale, std::vector{1});
}

TEST(Diagnosis, ManyMissingRanksStayShort) {
  const auto found = diagnose({Told(5, 65536).rounds(2)});
  EXPECT_EQ(found.num_missing, 65535);
  EXPECT_LE(found.ranks.size(), 65u);
  EXPECT_LT(found.summary.size(), 300u);
  EXPECT_TRUE(says(found.summary, "and 65519 more"));
}

TEST(Diagnosis, RecordOrderDoesNotMatter) {
  const FlightRecord a = Told(0, 3).rounds(5).fails(kGather, 1), b = Told(1, 3).rounds(5), c = a;
  FlightRecord third = c;
  third.identity.rank = 2;
  const auto one = diagnose({a, b, third}), other = diagnose({third, b, a});
  EXPECT_EQ(one.summary, other.summary);
  EXPECT_EQ(one.culprits, other.culprits);
}

// Rank 2 was stopped before it read rank 1's input. Rank 1 waits for that in drain(). Rank 0 waits for both, and its
// transport names the first of them, rank 1. All ranks throw that same error, but rank 1 is not the culprit.
TEST(Diagnosis, WitnessIsNotTheCulprit) {
  const FlightRecord first = Told(0, 3).rounds(5).fails(kGather, 1).waited(2 * kSecond),
                     second = Told(1, 3).rounds(5).because("late", 1).waited(2 * kSecond - 900'000'000);
  const auto without = diagnose({first, second});
  EXPECT_EQ(without.trouble, FlightTrouble::kMissing) << without.summary;
  EXPECT_EQ(without.culprits, std::vector{2});
  EXPECT_TRUE(says(without.ranks[1].did, "then it waited for other ranks, 1.100 s until its error"));
  const auto with = diagnose({first, second, Told(2, 3).rounds(5)});
  EXPECT_EQ(with.trouble, FlightTrouble::kBehind) << with.summary;
  EXPECT_EQ(with.culprits, std::vector{2});
}

// Rank 1 computes for long, and receives the other rank's error when it begins its collective. That error accuses rank
// 1.
TEST(Diagnosis, LateRankAccusingItselfIsCulprit) {
  const auto found = diagnose({Told(0, 2).rounds(5).fails(kGather, 1).waited(2 * kSecond),
                               Told(1, 2).rounds(5).fails(kGather, 1).waited(50'000)});
  EXPECT_EQ(found.trouble, FlightTrouble::kOwnError) << found.summary;
  EXPECT_EQ(found.culprits, std::vector{1});
}

TEST(Diagnosis, RecordWrittenBeforeItsStartCompares) {
  FlightRecord record = Told(0, 1).rounds(1);
  record.written_ns = record.started_ns - 1;
  EXPECT_EQ(diagnose({record}).trouble, FlightTrouble::kNone);
}

TEST(Diagnosis, RankWithoutACollectiveIsReported) {
  const auto found = diagnose({Told(0, 2).fails(kBarrier, 1), Told(1, 2)});
  EXPECT_EQ(found.culprits, std::vector{1});
  EXPECT_EQ(found.ranks[1].did, "it has begun no collective");
}

// Two copies of two ranks. A row gathers, and a column sums over the copies.
const std::string kRow0 = "row 0 (ranks 0, 1)", kRow1 = "row 1 (ranks 2, 3)", kColumn0 = "column 0 (ranks 0, 2)",
                  kColumn1 = "column 1 (ranks 1, 3)";

// If there is no trouble, the summary says that also the groups agree.
TEST(Diagnosis, GroupsCountSeparately) {
  const auto found = diagnose({Told(0, 4).did_in(kRow0, kGather).did_in(kRow0, kGather).did_in(kColumn0, kSum),
                               Told(1, 4).did_in(kRow0, kGather).did_in(kRow0, kGather).did_in(kColumn1, kSum),
                               Told(2, 4).did_in(kColumn0, kSum), Told(3, 4).did_in(kColumn1, kSum)});
  EXPECT_EQ(found.trouble, FlightTrouble::kNone) << found.summary;
  EXPECT_TRUE(says(found.summary, "the same 0 collectives, also within each group"));
  EXPECT_EQ(found.ranks[0].begun, 3U);
}

TEST(Diagnosis, GroupDisagreementStaysInItsGroup) {
  const auto found =
      diagnose({Told(0, 4).rounds(2).waits_in(kRow0, kGather), Told(1, 4).rounds(2).waits_in(kRow0, kSum),
                Told(2, 4).rounds(2).waits_in(kRow1, kSum), Told(3, 4).rounds(2).waits_in(kRow1, kSum)});
  EXPECT_EQ(found.trouble, FlightTrouble::kDisagreement);
  EXPECT_EQ(found.culprits, (std::vector{0, 1}));
  EXPECT_TRUE(says(found.summary, "ranks disagree at collective #1 of group row 0 (ranks 0, 1): rank 0 does"));
}

// Rank 3 computes. Rank 1 waits for it in their column, and rank 2 in their row. Rank 0 waits for rank 1 in their row.
// So only rank 3 waits for nobody.
TEST(Diagnosis, WaitChainsEndIsBehind) {
  const auto found =
      diagnose({Told(0, 4).rounds(1).did_in(kRow0, kGather).did_in(kColumn0, kSum).waits_in(kRow0, kGather),
                Told(1, 4).rounds(1).did_in(kRow0, kGather).waits_in(kColumn1, kSum),
                Told(2, 4).rounds(1).did_in(kRow1, kGather).did_in(kColumn0, kSum).waits_in(kRow1, kGather),
                Told(3, 4).rounds(1).did_in(kRow1, kGather)});
  EXPECT_EQ(found.trouble, FlightTrouble::kBehind) << found.summary;
  EXPECT_EQ(found.culprits, std::vector{3}) << found.summary;
  EXPECT_TRUE(
      says(found.summary, "rank 3 is behind in group row 1 (ranks 2, 3): others have begun #2, it has begun #1"));
}

// A pipeline of three ranks, whose only collectives were at its start. Each has taken some messages.
FlightCall from(int rank) {
  return {FlightOperation::kReceive, -1, 64, rank};
}
FlightCall to(int rank) {
  return {FlightOperation::kSend, -1, 64, rank};
}

// Rank 2 is stopped. The error of all names rank 1, for which rank 0 waited first.
TEST(Diagnosis, FollowsMessagesToIdleRank) {
  const auto found = diagnose({Told(0, 3).rounds(2).waits(to(1)).fails(from(1), 1),
                               Told(1, 3).rounds(2).did(from(0)).waits(to(2)).fails(from(2), 1).waited(2 * kSecond),
                               Told(2, 3).rounds(2).did(from(1))});
  EXPECT_EQ(found.trouble, FlightTrouble::kBehind) << found.summary;
  EXPECT_EQ(found.culprits, std::vector{2});
  EXPECT_TRUE(says(found.summary,
                   "rank 2 is behind: rank 1 waits for it in receive from rank 2 (64 bytes); "
                   "reduce_scatter #4 (unit 1, 400 bytes): ended"))
      << found.summary;
  EXPECT_TRUE(says(found.ranks[0].did, "; receive from rank 1 (64 bytes): failed"));
}

// Rank 1 in the middle is stopped, and both neighbours wait for it.
TEST(Diagnosis, MiddleRankIsNamedByBoth) {
  const auto found = diagnose({Told(0, 3).rounds(2).waits(to(1)).fails(from(1), -1), Told(1, 3).rounds(2).did(from(0)),
                               Told(2, 3).rounds(2).waits(from(1))});
  EXPECT_EQ(found.trouble, FlightTrouble::kBehind) << found.summary;
  EXPECT_EQ(found.culprits, std::vector{1});
}

// Rank 2 was killed. The error names rank 1, which has a record.
TEST(Diagnosis, FollowsMessagesToMissingRank) {
  const auto found =
      diagnose({Told(0, 3).rounds(2).fails(from(1), 1), Told(1, 3).rounds(2).did(from(0)).waits(from(2))});
  EXPECT_EQ(found.trouble, FlightTrouble::kMissing) << found.summary;
  EXPECT_EQ(found.culprits, std::vector{2});
  EXPECT_EQ(found.summary, "rank 2 has no record; rank 1 waits for it in receive from rank 2 (64 bytes)");
}

// Two lines: ranks 0 and 1 at position 0, ranks 2 and 3 at position 1. Rank 2 is stopped. Rank 0 is behind in its
// group, because it waits for a message of rank 2, and so does not reach the group's next sum.
TEST(Diagnosis, RankAwaitingMessageIsNotBehind) {
  const auto found = diagnose(
      {Told(0, 4).rounds(1).did_in(kRow0, kGather).waits(from(2)),
       Told(1, 4).rounds(1).did_in(kRow0, kGather).did(from(3)).waits_in(kRow0, kSum).because("late", -1),
       Told(2, 4).rounds(1).did_in(kRow1, kGather), Told(3, 4).rounds(1).did_in(kRow1, kGather).waits_in(kRow1, kSum)});
  EXPECT_EQ(found.trouble, FlightTrouble::kBehind) << found.summary;
  EXPECT_EQ(found.culprits, std::vector{2}) << found.summary;
}

// Rank 0 waits for a message of rank 2, which waits in a collective for rank 3.
TEST(Diagnosis, MessageChainEndsInCollective) {
  const auto found = diagnose({Told(0, 4).rounds(1).did_in(kRow0, kGather).waits(from(2)).because("late", 2),
                               Told(1, 4).rounds(1).did_in(kRow0, kGather).waits(from(3)),
                               Told(2, 4).rounds(1).did_in(kRow1, kGather).waits_in(kRow1, kSum),
                               Told(3, 4).rounds(1).did_in(kRow1, kGather)});
  EXPECT_EQ(found.trouble, FlightTrouble::kBehind) << found.summary;
  EXPECT_EQ(found.culprits, std::vector{3}) << found.summary;
}

// Two ranks that wait for each other, and a server that receives from all workers: the errors decide.
TEST(Diagnosis, UndecidedMessagesLeaveErrors) {
  const auto cycle = diagnose({Told(0, 2).rounds(1).fails(from(1), 1), Told(1, 2).rounds(1).waits(from(0))});
  EXPECT_EQ(cycle.trouble, FlightTrouble::kBlamed) << cycle.summary;
  const auto server = diagnose({Told(0, 3).rounds(1).waits(from(1)).waits(from(2)).because("late", 2),
                                Told(1, 3).rounds(1).waits(from(0)), Told(2, 3).rounds(1)});
  EXPECT_EQ(server.trouble, FlightTrouble::kBlamed) << server.summary;
  EXPECT_EQ(server.culprits, std::vector{2});
}

// The ring has overwritten a group's entries. They are unknown, which does not mean that the group did nothing.
TEST(Diagnosis, ForgottenGroupIsNotCompared) {
  const auto found =
      diagnose({Told(0, 2).did_in(kRow0, kGather).rounds(4).keeps(3), Told(1, 2).did_in(kRow0, kGather).rounds(4)});
  EXPECT_EQ(found.trouble, FlightTrouble::kNone) << found.summary;
}

}  // namespace
}  // namespace zero
