#include "zero/comm/code/coded_communicator.h"

#include <cmath>
#include <functional>
#include <limits>
#include <thread>
#include <vector>

#include <gtest/gtest.h>
#include <rapidcheck.h>

#include "zero/comm/board/in_process.h"
#include "zero/comm/code/block_code.h"
#include "zero/comm/copies_reduce.h"
#include "zero/comm/group.h"
#include "zero/comm/rank_sum.h"

namespace zero {
namespace {

void on_coded_ranks(int world, const std::function<void(Communicator&)>& body) {
  auto comms = make_in_process(world, std::chrono::seconds(20));
  std::vector<std::jthread> threads;
  for (auto& comm : comms) threads.emplace_back([&body, &comm] { body(*comm); });
}

constexpr WireCodecs kBoth8{.gather = WireCodec::kInt8, .reduce = WireCodec::kInt8};

std::vector<float> ramp(std::size_t numel, int rank) {
  std::vector<float> values(numel);
  for (std::size_t i = 0; i < numel; ++i)
    values[i] = std::sin(static_cast<float>(i) * 0.37F + static_cast<float>(rank)) * static_cast<float>(1 + i % 5);
  return values;
}

std::span<const std::byte> bytes_of(const std::vector<float>& values) {
  return std::as_bytes(std::span(values));
}

std::vector<float> coded(WireCodec codec, const float* values, std::int64_t numel, const WireRounding& rounding) {
  std::vector<std::byte> wire(static_cast<std::size_t>(wire_bytes(codec, numel, DType::kFloat32)));
  encode_for_wire(codec, {reinterpret_cast<const std::byte*>(values), DType::kFloat32, numel}, rounding, wire.data());
  std::vector<float> back(static_cast<std::size_t>(numel));
  decode_from_wire(codec, wire.data(), numel, reinterpret_cast<std::byte*>(back.data()), DType::kFloat32);
  return back;
}

// A rank also decodes its own shard.
TEST(CodedCommunicator, GatherDecodesEveryShardEverywhere) {
  rc::check([] {
    const int world = *rc::gen::inRange(2, 5);
    const auto numel = *rc::gen::inRange<std::size_t>(0, 3000);
    const auto codec = *rc::gen::element(WireCodec::kInt8, WireCodec::kInt4);
    const bool one_slot = *rc::gen::arbitrary<bool>(), in_place = *rc::gen::arbitrary<bool>();
    // 0: smaller than a block, so the gather has several tiles.
    const std::int64_t largest = *rc::gen::inRange<std::int64_t>(0, 2) * 3000;
    std::vector<std::vector<float>> wholes(world, std::vector<float>(numel * world, -1));
    on_coded_ranks(world, [&](Communicator& comm) {
      CodedCommunicator wire(comm, {.gather = codec}, {DType::kFloat32},
                             {.largest_numel = largest, .one_slot = one_slot});
      const std::vector<float> shard = ramp(numel, comm.rank());
      const std::span<float> whole(wholes[comm.rank()]), own = whole.subspan(comm.rank() * numel, numel);
      if (in_place) std::ranges::copy(shard, own.begin());
      wire.all_gather(in_place ? std::as_bytes(own) : bytes_of(shard), std::as_writable_bytes(whole), {.unit = 0})
          .wait();
      comm.drain();
    });
    std::vector<float> expected;
    for (int rank = 0; rank < world; ++rank) {
      const std::vector<float> part = coded(codec, ramp(numel, rank).data(), static_cast<std::int64_t>(numel), {});
      expected.insert(expected.end(), part.begin(), part.end());
    }
    for (const auto& whole : wholes) RC_ASSERT(whole == expected);
  });
}

struct Reduced {
  std::vector<std::vector<float>> sums;  // by rank
  std::vector<ReduceStats> stats;
  bool operator==(const Reduced& other) const { return sums == other.sums; }
};

// Several units at once. Their works are waited for in the order in which they begin.
Reduced reduced(int world, std::size_t numel, const WireCodecs& codecs, std::int64_t largest, bool one_slot,
                std::int64_t step = 0) {
  Reduced result{std::vector<std::vector<float>>(world), std::vector<ReduceStats>(world)};
  on_coded_ranks(world, [&](Communicator& comm) {
    CodedCommunicator wire(comm, codecs, std::vector<DType>(3, DType::kFloat32),
                           {.largest_numel = largest, .one_slot = one_slot, .contributor = comm.rank()});
    wire.begin_step(step);
    const std::vector<float> in = ramp(numel * world, comm.rank());
    std::vector<float> out(3 * numel);
    std::vector<ReduceStats> stats(3);
    std::vector<Work> works;
    for (int unit = 0; unit < 3; ++unit) {
      const std::span<float> part = std::span(out).subspan(unit * numel, numel);
      works.push_back(wire.reduce_scatter(
          {.in = bytes_of(in), .out = std::as_writable_bytes(part), .stats = &stats[unit]}, {.unit = unit}));
    }
    for (Work& work : works) work.wait();
    result.sums[comm.rank()] = out;
    result.stats[comm.rank()] = stats[1];
    comm.drain();
    comm.barrier({.control = true}).wait();
  });
  return result;
}

// For any size of the tiles.
TEST(CodedCommunicator, SumRoundsEachContributionOnce) {
  const std::size_t numel = 9000;
  for (const int world : {2, 3}) {
    const Reduced exact = reduced(world, numel, {}, 9000, false);
    const Reduced whole = reduced(world, numel, kBoth8, 9000, false);
    EXPECT_EQ(reduced(world, numel, kBoth8, 0, false), whole) << "in tiles of 4,096";
    EXPECT_EQ(reduced(world, numel, kBoth8, 0, true), whole) << "one at a time";
    for (int rank = 0; rank < world; ++rank) {
      for (std::size_t i = 0; i < numel; ++i)
        ASSERT_NEAR(whole.sums[rank][i], exact.sums[rank][i], world * 5 / 127.0) << i;
    }
    EXPECT_NE(whole.sums, exact.sums);
  }
}

TEST(CodedCommunicator, StatisticsDescribeTheFinalSum) {
  const Reduced sums = reduced(2, 9000, kBoth8, 0, false);
  for (int rank = 0; rank < 2; ++rank) {
    const std::byte* second = reinterpret_cast<const std::byte*>(sums.sums[rank].data() + 9000);
    const ReduceStats expected = stats_of(second, DType::kFloat32, 9000);
    EXPECT_EQ(sums.stats[rank].sum_squares.value(), expected.sum_squares.value());
    EXPECT_EQ(sums.stats[rank].num_non_finite, 0);
  }
}

// The rounding also depends on the number of times that the unit was coded in this step.
TEST(CodedCommunicator, RoundingVariesByStepAndUnit) {
  const Reduced zero = reduced(2, 500, kBoth8, 500, false, 0), one = reduced(2, 500, kBoth8, 500, false, 1);
  EXPECT_NE(zero.sums, one.sums);
  const std::vector<float>& sums = zero.sums[0];  // three units with the same contributions
  EXPECT_FALSE(std::equal(sums.begin(), sums.begin() + 500, sums.begin() + 500));
  on_coded_ranks(2, [](Communicator& comm) {
    CodedCommunicator wire(comm, kBoth8, {DType::kFloat32}, {.largest_numel = 500, .contributor = comm.rank()});
    const std::vector<float> in = ramp(1000, comm.rank());
    const auto again = [&] {
      std::vector<float> out(500);
      wire.reduce_scatter({.in = bytes_of(in), .out = std::as_writable_bytes(std::span(out))}, {.unit = 0}).wait();
      return out;
    };
    wire.begin_step(4);
    const auto first = again(), second = again();
    EXPECT_NE(first, second);
    wire.begin_step(4);
    EXPECT_EQ(again(), first) << "a resumed run rounds as the first run did";
    EXPECT_EQ(again(), second);
  });
}

// Sums round to their own type.
TEST(CodedCommunicator, SumsStartFromInputAndRound) {
  on_coded_ranks(2, [](Communicator& comm) {
    CodedCommunicator wire(comm, kBoth8, {DType::kFloat32}, {.largest_numel = 500, .contributor = comm.rank()});
    const std::vector<float> in = ramp(1000, comm.rank()), onto = ramp(500, 9);
    const auto sum = [&](ReduceScatter request) {
      wire.begin_step(0);
      request.in = bytes_of(in);
      wire.reduce_scatter(request, {.unit = 0}).wait();
    };
    std::vector<float> plain(500), begun(500), added = onto;
    sum({.out = std::as_writable_bytes(std::span(plain))});
    sum({.out = std::as_writable_bytes(std::span(begun)), .onto = bytes_of(onto)});
    sum({.out = std::as_writable_bytes(std::span(added)), .accumulate = true});
    std::vector<BFloat16Bits> low(500);
    sum({.out = std::as_writable_bytes(std::span(low)), .out_dtype = DType::kBFloat16});
    for (std::size_t i = 0; i < plain.size(); ++i) {
      EXPECT_NEAR(begun[i], onto[i] + plain[i], 1e-5);
      EXPECT_EQ(added[i], onto[i] + plain[i]);
      EXPECT_EQ(low[i], to_bfloat16(plain[i]));
    }
  });
}

TEST(CodedCommunicator, InfinityReachesTheStatistics) {
  for (const DType dtype : {DType::kFloat32, DType::kFloat16}) {
    on_coded_ranks(2, [dtype](Communicator& comm) {
      CodedCommunicator wire(comm, kBoth8, {dtype}, {.largest_numel = 512, .contributor = comm.rank()});
      std::vector<float> values = ramp(1024, comm.rank());
      if (comm.rank() == 1) values[600] = std::numeric_limits<float>::infinity();  // in rank 1's block
      std::vector<std::byte> in(values.size() * size_of(dtype));
      convert_elements(reinterpret_cast<const std::byte*>(values.data()), DType::kFloat32, in.data(), dtype, 1024);
      std::vector<float> out(512);
      ReduceStats stats;
      wire.reduce_scatter({.in = in, .dtype = dtype, .out = std::as_writable_bytes(std::span(out)), .stats = &stats},
                          {.unit = 0})
          .wait();
      EXPECT_EQ(stats.num_non_finite, comm.rank() == 1 ? kWireBlock : 0);
      comm.barrier({.control = true}).wait();
    });
  }
}

// Types without a code are sent unchanged.
TEST(CodedCommunicator, SendsTheFormulasBytes) {
  on_coded_ranks(4, [](Communicator& comm) {
    for (const WireCodec codec : {WireCodec::kInt8, WireCodec::kInt4}) {
      CodedCommunicator wire(comm, {.gather = codec, .reduce = codec}, {DType::kFloat32}, {.largest_numel = 1000});
      const std::vector<float> in = ramp(4000, comm.rank());
      std::vector<float> out(1000), whole(4000);
      const auto sent_by = [&](const std::function<void()>& body) {
        const std::int64_t before = comm.traffic().sent_bytes;
        body();
        return comm.traffic().sent_bytes - before;
      };
      const std::span<std::byte> into = std::as_writable_bytes(std::span(out)),
                                 all = std::as_writable_bytes(std::span(whole));
      const std::int64_t expected = 3 * wire_bytes(codec, 1000, DType::kFloat32);
      const auto reduce = [&] { wire.reduce_scatter({.in = bytes_of(in), .out = into}, {.unit = 0}).wait(); };
      const auto gather = [&](CommTag tag) { return [&, tag] { wire.all_gather(bytes_of(out), all, tag).wait(); }; };
      EXPECT_EQ(sent_by(reduce), expected);
      EXPECT_EQ(sent_by(gather({.unit = 0})), expected);
      EXPECT_EQ(sent_by(gather({})), 3 * 4000) << "a collective without a unit is not coded";
      EXPECT_EQ(sent_by(gather({.unit = 0, .control = true})), 0) << "control messages are counted separately";
      EXPECT_TRUE(std::equal(out.begin(), out.end(), whole.begin() + comm.rank() * 1000)) << "and exact";
      comm.drain();
      EXPECT_FALSE(wire.set_exact_gathers(true));
      EXPECT_EQ(sent_by(gather({.unit = 0})), 3 * 4000);
      EXPECT_FALSE(wire.gathered_coded(0));
      EXPECT_TRUE(wire.set_exact_gathers(false));
      comm.drain();
      comm.barrier({.control = true}).wait();
    }
  });
}

TEST(CodedCommunicator, AWorldOfOneIsUnchanged) {
  on_coded_ranks(1, [](Communicator& comm) {
    CodedCommunicator wire(comm, kBoth8, {DType::kFloat32}, {.largest_numel = 100});
    const std::vector<float> in = ramp(100, 0);
    std::vector<float> out(100), whole(100);
    wire.reduce_scatter({.in = bytes_of(in), .out = std::as_writable_bytes(std::span(out))}, {.unit = 0}).wait();
    wire.all_gather(bytes_of(in), std::as_writable_bytes(std::span(whole)), {.unit = 0}).wait();
    EXPECT_EQ(out, in);
    EXPECT_EQ(whole, in);
    EXPECT_EQ(CodedCommunicator::staging_bytes(1, kBoth8, 100, false), 0);
  });
}

TEST(CodedCommunicator, CopiesPassPartialSumsUncoded) {
  std::vector<std::vector<float>> sums(4);
  on_coded_ranks(4, [&](Communicator& run) {
    const int copy_number = run.rank() / 2, place = run.rank() % 2;
    auto copy = open_group(run, {2 * copy_number, 2 * copy_number + 1}, "copy");
    auto across = open_group(run, {place, 2 + place}, "shard");
    {
      CodedCommunicator wire(*copy, kBoth8, {DType::kFloat32}, {.largest_numel = 300, .contributor = run.rank()});
      const std::vector<float> in = ramp(600, run.rank());
      std::vector<float> out(300), partial(300);
      const std::int64_t before = across->traffic().sent_bytes;
      SumOverCopies chain(wire, *across);
      chain.begin({.in = bytes_of(in), .out = std::as_writable_bytes(std::span(out))}, partial, {.unit = 0}).wait();
      EXPECT_EQ(across->traffic().sent_bytes - before, 300 * 4);
      sums[run.rank()] = out;
      copy->drain();
      run.barrier({.control = true}).wait();
    }
    across.reset();
    copy.reset();
  });
  EXPECT_EQ(sums[0], sums[2]);
  EXPECT_EQ(sums[1], sums[3]);
  for (int place = 0; place < 2; ++place) {
    for (std::size_t i = 0; i < 300; ++i) {
      float exact = 0;
      for (int rank = 0; rank < 4; ++rank) exact += ramp(600, rank)[place * 300 + i];
      ASSERT_NEAR(sums[place][i], exact, 4 * 5 / 127.0);
    }
  }
}

}  // namespace
}  // namespace zero
