#include "app/report/files/rank_values.h"

#include <algorithm>
#include <array>
#include <mutex>

#include <gtest/gtest.h>

#include "tests/comm/transport/worlds.h"

namespace zero {
namespace {

TEST(RankValues, EveryRankSeesRankOrder) {
  run_ranks(3, [](World& world) {
    const std::array<double, 2> mine{1.0 * world.rank(), 10.0 * world.rank()};
    const auto all = gather_ranks<double>(world.communicator(), mine);
    EXPECT_EQ(all, (std::vector<std::vector<double>>{{0, 0}, {1, 10}, {2, 20}}));
  });
}

TEST(RankValues, AreBookkeepingAndNotTraining) {
  run_ranks(2, [](World& world) {
    const std::array<double, 4> mine{};
    gather_ranks<double>(world.communicator(), mine);
    EXPECT_EQ(world.communicator().traffic().sent_bytes, 0);
    EXPECT_EQ(world.communicator().traffic().control_sent_bytes, 32);
  });
}

// A world of one with slow peers: after wait() they still read an input. Any transport may behave like that.
class LateReaders : public Communicator {
 public:
  int rank() const override { return 0; }
  int world() const override { return 1; }
  std::string_view transport() const override { return "late readers"; }
  Work all_gather(std::span<const std::byte> in, std::span<std::byte> out, CommTag) override {
    std::copy(in.begin(), in.end(), out.begin());
    still_reading_ = true;
    return {};
  }
  Work all_to_all(std::span<const std::byte>, std::span<std::byte>, CommTag) override { return {}; }
  Work broadcast(std::span<std::byte>, int, CommTag) override { return {}; }
  Work send(std::span<const std::byte>, int, CommTag) override { return {}; }
  Work receive(std::span<std::byte>, int, CommTag) override { return {}; }
  Work barrier(CommTag) override { return {}; }
  void drain() override { still_reading_ = false; }
  Traffic traffic() const override { return {}; }
  double waited_seconds() const override { return 0; }
  std::chrono::milliseconds timeout() const override { return std::chrono::seconds(1); }

  bool still_reading() const { return still_reading_; }

 private:
  bool still_reading_ = false;
};

TEST(RankValues, AreNotReadAfterReturn) {
  LateReaders comm;
  const std::array<double, 1> mine{3};
  EXPECT_EQ(gather_ranks<double>(comm, mine), (std::vector<std::vector<double>>{{3}}));
  EXPECT_FALSE(comm.still_reading()) << "the caller's values may be freed by now, and a slow rank would read "
                                        "other bytes";
}

}  // namespace
}  // namespace zero
