#include "zero/comm/board/in_process.h"

#include <chrono>
#include <thread>
#include <vector>

#include <gtest/gtest.h>

#include "zero/base/error/error.h"
#include "zero/comm/collectives.h"

namespace zero {
namespace {

using std::chrono::seconds;

TEST(InProcess, SaysWhoItIs) {
  const auto ranks = make_in_process(3, seconds(9));
  for (int rank = 0; rank < 3; ++rank) {
    EXPECT_EQ(ranks[rank]->rank(), rank);
    EXPECT_EQ(ranks[rank]->world(), 3);
    EXPECT_EQ(ranks[rank]->transport(), "in_process");
    EXPECT_EQ(ranks[rank]->timeout(), seconds(9));
  }
}

TEST(InProcess, RefusesWorldsOutside1To64) {
  for (const int world : {-1, 0, 65}) EXPECT_THROW(make_in_process(world, seconds(1)), ConfigError) << world;
  EXPECT_EQ(make_in_process(64, seconds(1)).size(), 64u);
}

TEST(InProcess, OneThreadMayRunAllRanks) {
  // The begin of a collective waits for no rank, so a single thread can run both ranks.
  const auto ranks = make_in_process(2, seconds(5));
  const std::byte in[2] = {std::byte{1}, std::byte{2}};
  std::byte out[2][2];
  Work first = ranks[0]->all_gather(std::span(in).subspan(0, 1), out[0], {});
  Work second = ranks[1]->all_gather(std::span(in).subspan(1, 1), out[1], {});
  first.wait();
  second.wait();
  EXPECT_EQ(out[0][1], std::byte{2});
  EXPECT_EQ(out[1][0], std::byte{1});
}

TEST(InProcess, ACommunicatorOutlivesTheOthers) {
  auto ranks = make_in_process(2, seconds(5));
  ranks[0] = nullptr;
  EXPECT_THROW(ranks[1]->barrier({}).wait(), CommError);
}

// Rank 0 is 64 broadcasts ahead, as many as a board has slots, when it begins another collective. Rank 1 can join only
// after rank 0 has read its posts of these broadcasts.
TEST(InProcess, RankFarBehindCatchesUp) {
  constexpr int kBroadcasts = 64;
  const auto ranks = make_in_process(2, seconds(5));
  std::byte value{7};
  for (int i = 0; i < kBroadcasts; ++i) broadcast(*ranks[0], std::span(&value, 1), 0, {});
  std::vector<std::int64_t> of_root;
  std::thread root([&] { of_root = all_gather_value(*ranks[0], 1); });
  std::this_thread::sleep_for(std::chrono::milliseconds(50));  // then it waits for rank 1 to read its first broadcast
  std::byte received{0};
  for (int i = 0; i < kBroadcasts; ++i) broadcast(*ranks[1], std::span(&received, 1), 0, {});
  EXPECT_EQ(all_gather_value(*ranks[1], 2), (std::vector<std::int64_t>{1, 2}));
  root.join();
  EXPECT_EQ(of_root, (std::vector<std::int64_t>{1, 2}));
  EXPECT_EQ(received, value);
}

TEST(InProcess, FailureDropsUnfinishedWork) {
  auto ranks = make_in_process(2, seconds(5));
  {
    const Work work = ranks[0]->barrier({});
    EXPECT_FALSE(work.finished());
  }
  EXPECT_TRUE(Work().finished());
}

}  // namespace
}  // namespace zero
