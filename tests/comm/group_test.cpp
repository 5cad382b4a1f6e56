#include "zero/comm/group.h"

#include <thread>

#include <gtest/gtest.h>

#include "zero/base/error/error.h"
#include "zero/comm/board/in_process.h"

#include "tests/support/message_of.h"

namespace zero {
namespace {

using std::chrono::seconds;

std::unique_ptr<Communicator> alone() {
  return std::move(make_in_process(1, seconds(5)).front());
}

TEST(Group, OfOneRankIsACommunicator) {
  const auto world = alone();
  const auto group = open_group(*world, {0}, "one");
  EXPECT_EQ(group->rank(), 0);
  EXPECT_EQ(group->world(), 1);
  group->barrier({}).wait();
}

TEST(Group, OfNoRanksIsNone) {
  const auto world = alone();
  EXPECT_EQ(open_group(*world, {}, "none"), nullptr);
}

TEST(Group, RejectsNonsensicalRanks) {
  const auto world = alone();
  for (const std::vector<int>& ranks : {std::vector{1}, {0, 1}, {0, 0}, {-1, 0}, {1, 0}}) {
    EXPECT_THROW(open_group(*world, ranks, "wrong"), InternalError);
  }
}

TEST(Group, NamesItsFirstRanks) {
  EXPECT_EQ((GroupPlace{.name = "copy 1", .ranks = {2, 3}}.suffix()), " of group copy 1 (ranks 2, 3)");
  EXPECT_EQ((GroupPlace{.name = "alone", .ranks = {5}}.text()), "alone (rank 5)");
  GroupPlace many{.name = "all"};
  for (int rank = 0; rank < 64; ++rank) many.ranks.push_back(rank);
  EXPECT_EQ(many.text(), "all (ranks 0, 1, 2, 3, 4, 5, 6, 7 and 56 more)");
}

TEST(Group, ATransportWithoutGroupsSaysSo) {
  struct Plain final : Communicator {
    int rank() const override { return 0; }
    int world() const override { return 1; }
    std::string_view transport() const override { return "plain"; }
    Work all_gather(std::span<const std::byte>, std::span<std::byte>, CommTag) override { return {}; }
    Work all_to_all(std::span<const std::byte>, std::span<std::byte>, CommTag) override { return {}; }
    Work broadcast(std::span<std::byte>, int, CommTag) override { return {}; }
    Work send(std::span<const std::byte>, int, CommTag) override { return {}; }
    Work receive(std::span<std::byte>, int, CommTag) override { return {}; }
    Work barrier(CommTag) override { return {}; }
    Traffic traffic() const override { return {}; }
    double waited_seconds() const override { return 0; }
    std::chrono::milliseconds timeout() const override { return {}; }
  } plain;
  EXPECT_TRUE(says(message_of<InternalError>([&] { open_group(plain, {0}, "one"); }), "plain has no groups"));
}

// The input of a group's collective stays in memory until the group has read it.
TEST(Group, FinishedRankWaitsForReaders) {
  const auto ranks = make_in_process(2, seconds(20));
  std::vector<std::byte> got(20000);
  std::jthread other([&] {
    const auto group = open_group(*ranks[1], {0, 1}, "pair");
    group->broadcast(got, 0, {}).wait();
  });
  {
    std::vector<std::byte> sent(got.size(), std::byte{9});
    const auto group = open_group(*ranks[0], {0, 1}, "pair");
    group->broadcast(sent, 0, {}).wait();
    // No drain() here: the group is destroyed first, then `sent`.
  }
  other.join();
  EXPECT_EQ(got, std::vector<std::byte>(got.size(), std::byte{9}));
}

}  // namespace
}  // namespace zero
