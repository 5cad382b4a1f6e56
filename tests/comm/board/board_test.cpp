#include "zero/comm/board/board.h"

#include <cstdlib>
#include <memory>
#include <thread>
#include <vector>

#include <gtest/gtest.h>

#include "zero/base/error/error.h"

namespace zero {
namespace {

struct Free {
  void operator()(std::byte* memory) const { std::free(memory); }
};

class BoardTest : public ::testing::Test {
 protected:
  static std::byte* zeros(int world) {
    const std::size_t bytes = (Board::bytes(world) + 4095) / 4096 * 4096;
    auto* memory = static_cast<std::byte*>(std::aligned_alloc(4096, bytes));
    std::fill_n(memory, bytes, std::byte{0});
    return memory;
  }
  std::unique_ptr<std::byte, Free> memory_{zeros(3)};
  Board board_{memory_.get(), 3};
};

TEST_F(BoardTest, ZeroBytesAreTheInitialState) {
  EXPECT_FALSE(board_.failed());
  EXPECT_EQ(board_.left(), 0u);
  for (int rank = 0; rank < 3; ++rank) {
    EXPECT_EQ(board_[rank].newest.describe(), "nothing");
    EXPECT_EQ(board_[rank].slot(5).unread.load(), 0u);
  }
}

TEST_F(BoardTest, PostsReadBackAsWritten) {
  const Signature signature{.sequence = 70, .operation = Operation::kBroadcast, .unit = 4, .bytes = 9, .root = 2};
  const Source source{.kind = Source::Kind::kMemory, .number = 11, .offset = 22};
  board_[1].slot(70).post(signature, 70, source, only(0) | only(2));
  // Another view of the same memory, like that of another process.
  Board view(memory_.get(), 3);
  const Slot& slot = view[1].slot(70);
  EXPECT_EQ(slot.signature(), signature);
  EXPECT_EQ(slot.source().number, 11u);
  EXPECT_EQ(slot.source().offset, 22u);
  EXPECT_EQ(slot.unread.load(), 5u);
  EXPECT_EQ(&view[1].slot(70 + kSlots), &slot);
}

TEST_F(BoardTest, NewestWorkNamesItsGroup) {
  Newest& newest = board_[1].newest;
  newest.note({.sequence = 4, .operation = Operation::kBroadcast, .unit = 2, .bytes = 8, .root = 1},
              " of group copy 1 (ranks 2, 3)");
  EXPECT_EQ(newest.describe(), "broadcast #4 (from rank 1, unit 2, 8 bytes) of group copy 1 (ranks 2, 3)");
  newest.note({.sequence = 5, .operation = Operation::kBarrier}, "");
  EXPECT_EQ(newest.describe(), "barrier #5");
  newest.note({.sequence = 6, .operation = Operation::kBarrier}, std::string(500, 'x'));
  EXPECT_EQ(newest.describe(), "barrier #6" + std::string(96, 'x'));
}

TEST_F(BoardTest, AllThrowTheFirstFailure) {
  board_.fail(1, "barrier #3", "its process ended");
  board_.fail(2, "barrier #4", "something later");
  EXPECT_TRUE(board_.failed());
  for (int look = 0; look < 2; ++look) {
    try {
      board_.throw_failure();
    } catch (const CommError& error) {
      EXPECT_EQ(error.rank(), 1);
      EXPECT_STREQ(error.what(), "rank 1: barrier #3: its process ended");
    }
  }
}

TEST_F(BoardTest, CutsAnOverlongFailure) {
  board_.fail(0, std::string(10000, 'o'), std::string(100000, 'r'));
  try {
    board_.throw_failure();
  } catch (const CommError& error) {
    EXPECT_LT(std::string(error.what()).size(), 2000u);
  }
}

TEST_F(BoardTest, ConcurrentFailuresAgreeOnOne) {
  std::vector<std::jthread> threads;
  std::string seen[8];
  for (int t = 0; t < 8; ++t) {
    threads.emplace_back([&, t] {
      board_.fail(t % 3, "barrier #1", std::string(500, static_cast<char>('a' + t)));
      try {
        board_.throw_failure();
      } catch (const CommError& error) {
        seen[t] = error.what();
      }
    });
  }
  threads.clear();
  for (const std::string& text : seen) EXPECT_EQ(text, seen[0]);
}

TEST_F(BoardTest, RankLeavesThisBoardOrRun) {
  const std::unique_ptr<std::byte, Free> memory(zeros(3));
  Board group(memory.get(), board_, only(0) | only(2));
  group.leave(2);
  EXPECT_EQ(group.left(), only(2));
  EXPECT_EQ(board_.left(), 0u);
  group.leave_run(0);
  EXPECT_EQ(board_.left(), only(0));
  group.leave_run(0);
  EXPECT_TRUE(board_.left_run(0)) << "also after a second call";
}

// A rank that notices the death of a process late does not end its replacement.
TEST_F(BoardTest, LateDeathSparesTheReplacement) {
  const std::uint32_t seen = board_[2].left.load();
  board_.note_lost(2, seen);
  EXPECT_TRUE(board_.left_run(2));
  board_[2].replacement.store(1);
  board_.begin_again(2);
  EXPECT_FALSE(board_.left_run(2));
  board_.note_lost(2, seen);  // by another rank, late
  EXPECT_FALSE(board_.left_run(2));
  board_.note_lost(2, board_[2].left.load());
  EXPECT_TRUE(board_.left_run(2)) << "the replacement is also lost";
}

// A lost rank is not awaited as a reader of messages and slots.
TEST_F(BoardTest, LostRankIsNotAwaited) {
  board_[1].messages[0].post({.sequence = 1}, message_key(1, 2), {}, only(2));
  board_[1].slots[3].post({.sequence = 3}, 3, {}, only(0) | only(2));
  board_[2].messages[0].post({.sequence = 1}, message_key(1, 0), {}, only(0));
  board_.forget(1, 2);
  EXPECT_EQ(board_[1].messages[0].unread.load(), 0u);
  EXPECT_EQ(board_[1].slots[3].unread.load(), only(0));
  board_.begin_again(2);
  EXPECT_EQ(board_[2].messages[0].unread.load(), 0u) << "its replacement uses the slot again";
}

TEST(MessageKeys, DifferByNumberAndReceiver) {
  EXPECT_NE(message_key(1, 0), message_key(1, 1));
  EXPECT_NE(message_key(1, 0), message_key(2, 0));
  EXPECT_NE(message_key(1, 63), message_key(2, 0));
  EXPECT_LT(message_key(first_message(1) - 1, 63), message_key(first_message(1), 0))
      << "keys of the predecessor's messages";
}

}  // namespace
}  // namespace zero
