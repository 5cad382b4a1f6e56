#include "zero/comm/board/board_wait.h"

#include <atomic>
#include <functional>
#include <thread>

#include <gtest/gtest.h>

#include "zero/base/error/error.h"

#include "tests/comm/scripted_memory.h"
#include "tests/support/expect_contains.h"
#include "tests/support/message_of.h"

namespace zero {
namespace {

using std::chrono::milliseconds;

class BoardWaitTest : public ::testing::Test {
 protected:
  static constexpr int kWorld = 3;
  tests::BoardMemory memory_{kWorld};
  Board board_{memory_.data(), kWorld};
  tests::ScriptedMemory peers_;
  Signature what_{.sequence = 7, .operation = Operation::kBarrier};

  std::string wait(milliseconds timeout, const std::function<RankSet()>& late) {
    BoardWait wait(board_, peers_, 0, timeout);
    try {
      wait.until_nobody(late, what_);
      return "";
    } catch (const CommError& error) {
      return error.what();
    }
  }
};

TEST_F(BoardWaitTest, NobodyLateIsNoWait) {
  BoardWait wait(board_, peers_, 0, milliseconds(0));
  wait.until_nobody([] { return RankSet{0}; }, what_);
  EXPECT_EQ(wait.seconds(), 0);
}

TEST_F(BoardWaitTest, TheBellEndsTheWait) {
  std::atomic<bool> there = false;
  std::jthread other([&] {
    while (board_[0].waiting_for.load() == 0) std::this_thread::yield();
    there.store(true);
    board_[0].bell.ring();
  });
  BoardWait wait(board_, peers_, 0, milliseconds(60000));
  wait.until_nobody([&] { return there.load() ? RankSet{0} : only(1); }, what_);
  EXPECT_GT(wait.seconds(), 0);
  EXPECT_EQ(board_[0].waiting_for.load(), 0u);
}

// Each call receives a message, until the awaited rank has come.
TEST_F(BoardWaitTest, ReceivesMessagesMeanwhile) {
  int received = 0;
  const std::function<bool()> receive = [&] { return ++received < 3; };
  BoardWait wait(board_, peers_, 0, milliseconds(60000), "", &receive);
  wait.until_nobody([&] { return received == 3 ? RankSet{0} : only(1); }, what_);
  EXPECT_EQ(received, 3);
}

TEST_F(BoardWaitTest, LateRankIsNamedWithState) {
  EXPECT_EQ(wait(milliseconds(30), [] { return only(2); }),
            "rank 2: barrier #7: it is absent after 30 ms; it last began nothing; state of 2");
}

TEST_F(BoardWaitTest, NamesTheLateRanksOwnWait) {
  const Signature last{.sequence = 6, .operation = Operation::kAllGather, .unit = 1, .bytes = 8};
  board_[2].newest.note(last, "");
  board_[2].waiting_for.store(only(1));
  EXPECT_CONTAINS(wait(milliseconds(30), [] { return only(2); }),
                  "it last began all_gather #6 (unit 1, 8 bytes) and waits for rank 1; state of 2");
}

// The error names the group, and the late rank's work outside the group.
TEST_F(BoardWaitTest, GroupErrorNamesOutsideWork) {
  tests::BoardMemory memory(kWorld);
  Board group(memory.data(), board_, only(0) | only(2));
  board_[2].newest.note({.sequence = 6, .operation = Operation::kBarrier}, " of group copies (ranks 1, 2)");
  board_[2].waiting_for.store(only(1));
  BoardWait wait(group, peers_, 0, milliseconds(30), " of group shard (ranks 0, 2)");
  const std::string error = message_of<CommError>([&] { wait.until_nobody([] { return only(2); }, what_); });
  EXPECT_EQ(error,
            "rank 1: barrier #7 of group shard (ranks 0, 2): rank 2 is absent after 30 ms; rank 1: it last began "
            "nothing; state of 1; rank 2: it last began barrier #6 of group copies (ranks 1, 2) and waits for rank 1; "
            "state of 2");
  EXPECT_EQ(message_of<CommError>([&] { board_.throw_failure(); }), error) << "the run has also failed";
}
using BoardWaitTestSlow = BoardWaitTest;

TEST_F(BoardWaitTestSlow, NamesRanksThatLeftTheGroup) {
  tests::BoardMemory memory(kWorld);
  Board group(memory.data(), board_, only(0) | only(2));
  group[2].left.store(1);
  EXPECT_EQ(group.left(), only(2));
  EXPECT_EQ(board_.left(), 0U);
  BoardWait wait(group, peers_, 0, milliseconds(60000), " of group shard (ranks 0, 2)");
  EXPECT_CONTAINS(message_of<CommError>([&] { wait.until_nobody([] { return only(2); }, what_); }),
                  "rank 2: barrier #7 of group shard (ranks 0, 2): it left the group while rank 0 waits for it");
  board_[0].left.store(1);
  EXPECT_EQ(group.left(), only(0) | only(2)) << "a rank that leaves the run leaves its groups";
}

TEST_F(BoardWaitTest, SeveralLateRanksAreAllNamed) {
  const std::string error = wait(milliseconds(30), [] { return only(1) | only(2); });
  EXPECT_CONTAINS(error, "ranks 1, 2 are absent after 30 ms");
  EXPECT_CONTAINS(error, "rank 1: it last began nothing; state of 1; rank 2: ");
}

// Rank 1 is late because it waits for rank 2, which is also late. Rank 2 waits for no late rank, so it is blamed.
TEST_F(BoardWaitTest, BlamesTheLateRankThatComputes) {
  board_[1].waiting_for.store(only(2));
  EXPECT_CONTAINS(wait(milliseconds(30), [] { return only(1) | only(2); }),
                  "rank 2: barrier #7: ranks 1, 2 are absent");
}

// A pipeline: the late rank waits for a message of rank 2, which computes.
TEST_F(BoardWaitTest, FollowsWaitsToTheirEnd) {
  board_[1].waiting_for.store(only(2));
  EXPECT_EQ(wait(milliseconds(30), [] { return only(1); }),
            "rank 2: barrier #7: rank 1 is absent after 30 ms; rank 1: it last began nothing and waits for rank 2; "
            "state of 1; rank 2: it last began nothing; state of 2");
}

// Rank 2 was stopped while it waited for rank 1.
TEST_F(BoardWaitTest, StoppedRankEndsTheChain) {
  board_[1].waiting_for.store(only(2));
  board_[2].waiting_for.store(only(1));
  peers_.stopped_ranks = only(2);
  EXPECT_CONTAINS(wait(milliseconds(30), [] { return only(1); }), "rank 2: barrier #7: rank 1 is absent");
}

// The late ranks wait for each other.
TEST_F(BoardWaitTest, NamesTheFirstInACycle) {
  board_[1].waiting_for.store(only(2));
  board_[2].waiting_for.store(only(0) | only(1));
  EXPECT_CONTAINS(wait(milliseconds(30), [] { return only(1) | only(2); }),
                  "rank 1: barrier #7: ranks 1, 2 are absent");
}

TEST_F(BoardWaitTest, AnyDeathEndsTheWait) {
  board_[2].process.store(4711);
  peers_.dead_ranks = only(2);
  // The wait itself is for rank 1.
  EXPECT_EQ(wait(milliseconds(60000), [] { return only(1); }),
            "rank 2: barrier #7: its process ended; it last began nothing; it was process 4711");
}

TEST_F(BoardWaitTestSlow, OrderlyLeaveMattersOnlyIfNeeded) {
  peers_.dead_ranks = only(2);
  board_[2].left.store(1);
  std::atomic<int> looks = 0;
  EXPECT_EQ(wait(milliseconds(60000), [&] { return ++looks < 200 ? only(1) : RankSet{0}; }), "");
  EXPECT_CONTAINS(wait(milliseconds(60000), [] { return only(2); }),
                  "rank 2: barrier #7: it left the run while rank 0 waits");
}

TEST_F(BoardWaitTest, PartDoneBeforeLeavingCounts) {
  // The rank is late at the first check. Before the wait asks which ranks have left, the rank does its part and leaves.
  bool done = false;
  peers_.when_asked = [&] {
    done = true;
    board_[2].left.store(1);
  };
  EXPECT_EQ(wait(milliseconds(60000), [&] { return done ? RankSet{0} : only(2); }), "");
}

TEST_F(BoardWaitTest, TryingNeverThrows) {
  BoardWait wait(board_, peers_, 0, milliseconds(60000));
  EXPECT_TRUE(wait.try_until_nobody([] { return RankSet{0}; }, milliseconds(0)));
  EXPECT_FALSE(wait.try_until_nobody([] { return only(1); }, milliseconds(20)));
  EXPECT_FALSE(board_.failed());
  board_.fail(1, "barrier #1", "died");
  EXPECT_FALSE(wait.try_until_nobody([] { return only(1); }, milliseconds(60000)));
}

TEST_F(BoardWaitTest, ThrowsAnEarlierFailureFirst) {
  board_.fail(1, "all_to_all #3", "said by another rank");
  EXPECT_EQ(wait(milliseconds(60000), [] { return RankSet{0}; }), "rank 1: all_to_all #3: said by another rank");
}

}  // namespace
}  // namespace zero
