#include "zero/comm/board/board_posts.h"

#include <chrono>
#include <memory>
#include <thread>
#include <vector>

#include <gtest/gtest.h>

#include "zero/base/error/error.h"

#include "tests/comm/scripted_memory.h"

namespace zero {
namespace {

constexpr std::size_t kLarge = kInlineBytes + 1;

// Rank 0 of three. Its peers read when the test tells them to.
class BoardPostsTest : public ::testing::Test {
 protected:
  static constexpr int kWorld = 3;
  static constexpr RankSet kPeers = only(1) | only(2);
  static constexpr std::chrono::milliseconds kLong{60000};

  static Signature barrier(std::uint64_t number) { return {.sequence = number, .operation = Operation::kBarrier}; }
  static Signature message(std::uint64_t number) { return {.sequence = number, .operation = Operation::kSend}; }
  static void read(int peer, const BoardPosts::Post& post) { post.slot->unread.fetch_and(~only(peer), kOrdered); }
  // A peer that reads after rank 0 waits for it. If rank 0 does not wait, the peer never reads.
  std::jthread reading(int peer, const BoardPosts::Post& post) {
    return std::jthread([this, peer, &post](const std::stop_token& end) {
      while (board_[0].waiting_for.load() == 0 && !end.stop_requested()) std::this_thread::yield();
      if (end.stop_requested()) return;
      read(peer, post);
      board_[0].bell.ring();
    });
  }

  tests::BoardMemory of_board_{kWorld}, of_group_{kWorld};
  tests::ScriptedMemory peers_;
  Board board_{of_board_.data(), kWorld};
  BoardWait wait_{board_, peers_, 0, kLong};
  BoardPosts posts_{board_, peers_, wait_, 0};
  std::vector<std::byte> input_ = std::vector<std::byte>(kLarge, std::byte{7});
};

TEST_F(BoardPostsTest, SmallInputMayChangeAfterPosting) {
  std::byte small{7};
  const auto& post = posts_.collective(barrier(1), {&small, 1}, kPeers);
  small = std::byte{8};
  EXPECT_EQ(board_[0].slot(1).inline_bytes[0], std::byte{7});
  EXPECT_EQ(board_[0].slot(1).source().kind, Source::Kind::kInline);
  EXPECT_TRUE(post.in_place.empty());
}

TEST_F(BoardPostsTest, BoardHoldsEverythingPeersNeed) {
  posts_.collective({.sequence = 5, .operation = Operation::kAllGather, .unit = 3, .bytes = kLarge}, input_, kPeers);
  EXPECT_EQ(board_[0].slot(5).sequence.load(), 5U);
  EXPECT_EQ(board_[0].slot(5).unread.load(), kPeers);
  EXPECT_EQ(board_[0].slot(5).source().number, 1U);
  EXPECT_EQ(board_[0].newest.describe(), "all_gather #5 (unit 3, 4097 bytes)");
}

TEST_F(BoardPostsTest, DrainWaitsForLargeInputsReaders) {
  auto& post = posts_.collective(barrier(1), input_, kPeers);
  post.waited = true;
  read(1, post);
  const std::jthread reader = reading(2, post);
  posts_.drain();
  EXPECT_EQ(post.slot->unread.load(), 0U);
}

TEST_F(BoardPostsTest, DrainIgnoresReadersOfUnfinishedWork) {
  const auto& post = posts_.collective(barrier(1), input_, kPeers);
  posts_.drain();
  EXPECT_EQ(post.slot->unread.load(), kPeers);
  EXPECT_EQ(post.in_place.data(), input_.data());
}

TEST_F(BoardPostsTest, IgnoresReadersThatLeft) {
  posts_.collective(barrier(1), input_, kPeers).waited = true;
  board_[1].left.store(1);
  board_[2].left.store(1);
  posts_.drain();
  EXPECT_EQ(wait_.seconds(), 0);
}

TEST_F(BoardPostsTest, LastReaderReleasesACopy) {
  peers_.in_place = false;
  const auto& post = posts_.collective(barrier(1), input_, kPeers);
  EXPECT_TRUE(post.in_place.empty());
  read(1, post);
  posts_.collective(barrier(2), {}, kPeers);
  EXPECT_TRUE(peers_.reclaimed.empty());
  read(2, post);
  posts_.collective(barrier(3), {}, kPeers);
  EXPECT_EQ(peers_.reclaimed, std::vector<std::uint64_t>{1});
}

TEST_F(BoardPostsTest, SlotIsReusedAfterItsReaders) {
  auto& post = posts_.collective(barrier(1), input_, only(1));
  post.waited = true;
  const std::jthread reader = reading(1, post);
  const auto& next = posts_.collective(barrier(1 + kSlots), {}, kPeers);
  EXPECT_EQ(&next, &post);
  EXPECT_EQ(post.slot->sequence.load(), 1U + kSlots);
  EXPECT_GT(wait_.seconds(), 0);
}

TEST_F(BoardPostsTest, LateWorkGivesItsSlot) {
  struct Late final : BoardPosts::Begun {
    explicit Late(BoardPosts::Post& of) : post(of) { post.begun = this; }
    void complete() override {
      post.begun = nullptr;
      post.waited = true;
    }
    BoardPosts::Post& post;
  };
  auto& post = posts_.collective(barrier(1), {}, kPeers);
  const Late late(post);
  read(1, post);
  read(2, post);
  const auto& next = posts_.collective(barrier(1 + kSlots), {}, kPeers);
  EXPECT_EQ(&next, &post);
  EXPECT_FALSE(next.waited);
  EXPECT_EQ(next.begun, nullptr);
}

TEST_F(BoardPostsTest, GivenUpWorkIsABug) {
  const auto& post = posts_.collective(barrier(1), {}, kPeers);
  read(1, post);
  read(2, post);
  EXPECT_THROW(posts_.collective(barrier(1 + kSlots), {}, kPeers), InternalError);
}

TEST_F(BoardPostsTest, MessageTakesTheFirstReadSlot) {
  std::vector<BoardPosts::Post*> posts;
  for (std::uint64_t n = 1; n <= kMessageSlots; ++n) posts.push_back(&posts_.message(message(n), {}, 1));
  read(1, *posts[4]);
  EXPECT_EQ(&posts_.message(message(kMessageSlots + 1), {}, 2), posts[4]);
  EXPECT_EQ(posts[4]->slot->sequence.load(), message_key(kMessageSlots + 1, 2));
}

// No slot is free, and rank 1 reads nothing. The message waits for the first reader.
TEST_F(BoardPostsTest, MessageWaitsForTheFirstReader) {
  std::vector<BoardPosts::Post*> posts;
  for (std::uint64_t n = 1; n <= kMessageSlots; ++n) posts.push_back(&posts_.message(message(n), {}, n == 8 ? 2 : 1));
  const std::jthread reader = reading(2, *posts[7]);
  EXPECT_EQ(&posts_.message(message(kMessageSlots), {}, 1), posts[7]);
  EXPECT_GT(wait_.seconds(), 0);
}

TEST_F(BoardPostsTest, CountsUnreadMessages) {
  EXPECT_EQ(posts_.unread_messages(1), 0);
  const auto& first = posts_.message(message(1), input_, 1);
  posts_.message(message(2), input_, 1);
  posts_.message(message(1), input_, 2);
  EXPECT_EQ(posts_.unread_messages(1), 2);
  EXPECT_EQ(posts_.unread_messages(2), 1);
  read(1, first);
  EXPECT_EQ(posts_.unread_messages(1), 1);
  board_[1].left.store(1);
  EXPECT_EQ(posts_.unread_messages(1), 0) << "nobody reads them any more";
}

TEST_F(BoardPostsTest, MemoryReleaseWaitsForReaders) {
  Allocation memory = posts_.allocate(kLarge, Written::kWhole);
  const auto& post = posts_.collective(barrier(1), memory.bytes(), only(2));
  const std::jthread reader = reading(2, post);
  memory = {};
  EXPECT_EQ(post.slot->unread.load(), 0U);
  EXPECT_EQ(peers_.num_released, 1);
  EXPECT_TRUE(peers_.kept.empty());
}

// A failed run keeps memory that a peer may still read.
TEST_F(BoardPostsTest, FailedRunKeepsSharedMemory) {
  Allocation read_one = posts_.allocate(kLarge, Written::kWhole), other = posts_.allocate(kLarge, Written::kWhole);
  posts_.collective(barrier(1), read_one.bytes(), only(2));
  board_.fail(2, "barrier #1", "died");
  other = {};
  EXPECT_EQ(peers_.num_released, 1) << "nobody reads it";
  read_one = {};
  EXPECT_EQ(peers_.kept.size(), 1U);
  EXPECT_EQ(peers_.num_released, 1);
}

// The group no longer exists, but its peers may still read the memory.
TEST_F(BoardPostsTest, FailedRunKeepsAGroupsMemory) {
  Allocation memory = posts_.allocate(kLarge, Written::kWhole);
  {
    Board board(of_group_.data(), board_, only(0) | only(2));
    BoardWait wait(board, peers_, 0, kLong);
    BoardPosts posts(posts_, board, wait, " of group copy 0 (ranks 0, 2)");
    posts.collective(barrier(1), memory.bytes(), only(2));
    EXPECT_EQ(board_[0].newest.describe(), "barrier #1 of group copy 0 (ranks 0, 2)");
    board_.fail(2, "barrier #1", "died");
  }
  memory = {};
  EXPECT_EQ(peers_.kept.size(), 1U);
}

// The rank leaves only the group, not the run.
TEST_F(BoardPostsTest, LeavingAGroupWaitsForReaders) {
  Board board(of_group_.data(), board_, only(0) | only(2));
  BoardWait wait(board, peers_, 0, kLong);
  auto posts = std::make_unique<BoardPosts>(posts_, board, wait, " of group copy 0 (ranks 0, 2)");
  auto& slot = *posts->collective(barrier(1), input_, only(2)).slot;
  const std::jthread reader([&](const std::stop_token& end) {
    while (board_[0].waiting_for.load() == 0 && !end.stop_requested()) std::this_thread::yield();
    if (end.stop_requested()) return;
    EXPECT_EQ(board.left(), only(0)) << "it tells its peers before it waits";
    slot.unread.store(0, kOrdered);
    board_[0].bell.ring();
  });
  posts.reset();
  EXPECT_EQ(slot.unread.load(), 0U);
  EXPECT_EQ(board_.left(), 0U);
}

}  // namespace
}  // namespace zero
