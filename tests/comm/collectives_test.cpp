#include "zero/comm/collectives.h"

#include <bit>
#include <functional>
#include <thread>

#include <gtest/gtest.h>
#include <rapidcheck.h>

#include "zero/comm/board/in_process.h"

namespace zero {
namespace {

void on_ranks(int world, const std::function<void(Communicator&)>& body) {
  auto comms = make_in_process(world, std::chrono::seconds(20));
  std::vector<std::jthread> threads;
  for (auto& comm : comms) threads.emplace_back([&body, &comm] { body(*comm); });
}

// For any number of elements.
TEST(Collectives, AllReduceSumsInRankOrder) {
  rc::check([] {
    const int world = *rc::gen::inRange(1, 6);
    const auto numel = *rc::gen::inRange<std::size_t>(0, 200);
    std::vector<std::vector<float>> data(world, std::vector<float>(numel));
    for (auto& values : data) {
      for (float& value : values) {
        value = static_cast<float>(*rc::gen::inRange(-1000, 1000)) *
                std::bit_cast<float>(0x3f800000u + 12345u * static_cast<std::uint32_t>(numel));
      }
    }
    std::vector<float> expected = data[0];
    for (int r = 1; r < world; ++r) {
      for (std::size_t i = 0; i < numel; ++i) expected[i] += data[r][i];
    }
    on_ranks(world, [&](Communicator& comm) { all_reduce(comm, data[comm.rank()], {}); });
    for (const auto& values : data) RC_ASSERT(values == expected);
  });
}

TEST(Collectives, AllReduceSendsARingsBytes) {
  on_ranks(4, [](Communicator& comm) {
    std::vector<float> data(4000);
    all_reduce(comm, data, {});
    EXPECT_EQ(comm.traffic().sent_bytes, 2 * 3 * 4000);
    // Elements that the ranks cannot divide evenly are sent to all ranks.
    std::vector<float> rest(3);
    all_reduce(comm, rest, {});
    EXPECT_EQ(comm.traffic().sent_bytes, 2 * 3 * 4000 + 3 * 12);
  });
}

TEST(Collectives, RanksMayGatherDifferentCounts) {
  on_ranks(3, [](Communicator& comm) {
    const std::vector<std::int64_t> mine(static_cast<std::size_t>(2 - comm.rank()), -comm.rank() - 1);
    EXPECT_EQ(all_gather_numbers(comm, mine), (std::vector<std::vector<std::int64_t>>{{-1, -1}, {-2}, {}}));
    EXPECT_EQ(all_gather_numbers(comm, {}), std::vector<std::vector<std::int64_t>>(3));
  });
}

TEST(Collectives, AWorldOfOneSendsNothing) {
  on_ranks(1, [](Communicator& comm) {
    std::vector<float> data{1, 2, 3};
    all_reduce(comm, data, {});
    EXPECT_EQ(data, (std::vector<float>{1, 2, 3}));
    EXPECT_EQ(all_gather_value(comm, 5), (std::vector<std::int64_t>{5}));
    EXPECT_EQ(comm.traffic().sent_bytes + comm.traffic().control_sent_bytes, 0);
  });
}

TEST(Collectives, WholeRangeStaysExact) {
  on_ranks(2, [](Communicator& comm) {
    const std::int64_t values[] = {INT64_MIN, INT64_MAX};
    EXPECT_EQ(all_gather_value(comm, values[comm.rank()]), (std::vector<std::int64_t>{INT64_MIN, INT64_MAX}));
    EXPECT_EQ(all_reduce_min(comm, values[comm.rank()]), INT64_MIN);
    EXPECT_EQ(all_reduce_max(comm, values[comm.rank()]), INT64_MAX);
  });
}

TEST(Collectives, ValuesAreBookkeepingUnlessSaidOtherwise) {
  on_ranks(2, [](Communicator& comm) {
    all_gather_value(comm, 1);
    EXPECT_EQ(comm.traffic().sent_bytes, 0);
    all_gather_value(comm, 1, {.unit = 3});
    EXPECT_EQ(comm.traffic().sent_bytes, 8);
  });
}

}  // namespace
}  // namespace zero
