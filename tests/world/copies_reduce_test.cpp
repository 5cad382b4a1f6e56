// Sums over copies equal sums over the world, to the bit, over every transport.
#include "zero/comm/copies_reduce.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <numeric>

#include "zero/comm/code/coded_communicator.h"
#include "zero/comm/collectives.h"
#include "zero/comm/group.h"

#include "tests/support/tier.h"
#include "tests/world/pattern.h"
#include "tests/world/suite.h"

namespace zero {
namespace {

class CopiesReduce : public WorldTest {};
ZERO_INSTANTIATE_WORLDS(CopiesReduce);

struct Grid {
  std::unique_ptr<Communicator> copy, across;
};

Grid open_grid(Communicator& world, int shard) {
  std::vector<int> copy, across;
  for (int rank = 0; rank < world.world(); ++rank) {
    if (rank / shard == world.rank() / shard) copy.push_back(rank);
    if (rank % shard == world.rank() % shard) across.push_back(rank);
  }
  Grid grid;
  grid.copy = open_group(world, copy, "copy");
  grid.across = open_group(world, across, "across");
  return grid;
}

std::vector<int> divisors(int world) {
  std::vector<int> found;
  for (int divisor = 1; divisor <= world; ++divisor)
    if (world % divisor == 0) found.push_back(divisor);
  return found;
}

struct Case {
  DType dtype, out_dtype;
  bool accumulate;
};
constexpr DType kF = DType::kFloat32, kB = DType::kBFloat16, kH = DType::kFloat16;
constexpr Case kCases[] = {{kF, kF, false}, {kF, kF, true}, {kB, kB, false}, {kB, kF, true}, {kH, kH, false}};

// The sum of all ranks in rank order, element by element, of block `block` of `numel` elements.
std::vector<std::byte> expected(const Case& c, int world, int block, std::size_t numel) {
  std::vector<std::byte> out(numel * size_of(c.out_dtype));
  for (std::size_t i = 0; i < numel; ++i) {
    float sum = 0;
    for (int rank = 0; rank < world; ++rank) {
      const float value = pattern_value(rank, block * numel + i);
      const float crossed =
          with_type_of(c.dtype, [&]<typename T>(std::type_identity<T>) { return to_float(rounded_to<T>(value)); });
      sum = rank == 0 ? crossed : sum + crossed;
    }
    if (c.accumulate) sum = pattern_value(999, i) + sum;
    with_type_of(c.out_dtype,
                 [&]<typename T>(std::type_identity<T>) { reinterpret_cast<T*>(out.data())[i] = rounded_to<T>(sum); });
  }
  return out;
}

// The sum equals that of all ranks in rank order, to the bit.
TEST_P(CopiesReduce, ShardRanksMatchWholeSum) {
  expect_world(world(), [](Communicator& world) {
    for (const int shard : divisors(world.world())) {
      const Grid grid = open_grid(world, shard);
      for (const std::size_t numel : {0, 1, 17, 4097, in_full_tier() ? 700001 : 50011}) {
        for (const Case& c : kCases) {
          const auto in = pattern_values(numel * shard, c.dtype, world.rank());
          auto out =
              c.accumulate ? pattern_values(numel, kF, 999) : std::vector<std::byte>(numel * size_of(c.out_dtype));
          std::vector<float> partial(numel);
          ReduceStats stats;
          SumOverCopies sums(*grid.copy, *grid.across);
          sums.begin({.in = in,
                      .dtype = c.dtype,
                      .out = out,
                      .out_dtype = c.out_dtype,
                      .accumulate = c.accumulate,
                      .stats = &stats},
                     partial, {.unit = 1})
              .wait();
          grid.copy->drain();
          const auto want = expected(c, world.world(), grid.copy->rank(), numel);
          ASSERT_TRUE(out == want) << shard << " ranks per copy, " << numel << " elements of " << name_of(c.dtype);
          // All copies have the same statistics, even if fp16 overflows.
          const double own = stats.sum_squares.value();
          std::vector<double> squares(static_cast<std::size_t>(grid.across->world()));
          all_gather(*grid.across, std::as_bytes(std::span(&own, 1)), std::as_writable_bytes(std::span(squares)), {});
          for (const double other : squares)
            ASSERT_EQ(std::bit_cast<std::uint64_t>(other), std::bit_cast<std::uint64_t>(own));
        }
      }
    }
  });
}

// The sum of each copy's ranks in rank order, then of the copies in their order.
std::vector<float> expected_in_blocks(int world, int shard, int block, std::size_t numel) {
  std::vector<float> sums(numel);
  for (std::size_t i = 0; i < numel; ++i) {
    for (int copy = 0; copy < world / shard; ++copy) {
      float of_copy = 0;
      for (int rank = copy * shard; rank < (copy + 1) * shard; ++rank) {
        const float value = pattern_value(rank, block * numel + i);
        of_copy = rank == copy * shard ? value : of_copy + value;
      }
      sums[i] = copy == 0 ? of_copy : sums[i] + of_copy;
    }
  }
  return sums;
}

// The coded sum is the same on all copies.
TEST_P(CopiesReduce, BlocksSumTheCopiesSums) {
  expect_world(world(), [](Communicator& world) {
    for (const int shard : divisors(world.world())) {
      const Grid grid = open_grid(world, shard);
      const auto copies = static_cast<std::size_t>(grid.across->world());
      for (const std::size_t numel : {0, 1, 17, 4097}) {
        const std::size_t block = (numel + copies - 1) / copies;
        const std::vector<float> want = expected_in_blocks(world.world(), shard, grid.copy->rank(), numel);
        const auto in = pattern_values(numel * shard, kF, world.rank());
        const auto sum = [&](Communicator& across) {
          std::vector<float> out(numel), blocks(block * copies);
          reduce_in_blocks_over_copies(*grid.copy, across, {.in = in, .out = std::as_writable_bytes(std::span(out))},
                                       blocks, {.unit = 0})
              .wait();
          grid.copy->drain();
          return out;
        };
        ASSERT_EQ(sum(*grid.across), want) << shard << " ranks per copy, " << numel << " elements";

        CodedCommunicator coded(*grid.across, {.gather = WireCodec::kInt8, .reduce = WireCodec::kInt8}, {kF},
                                {.largest_numel = static_cast<std::int64_t>(block),
                                 .one_slot = true,
                                 .stochastic_gathers = true,
                                 .contributor = world.rank()});
        coded.begin_step(1);
        const std::int64_t before = grid.across->traffic().sent_bytes;
        const std::vector<float> seen = sum(coded);
        EXPECT_EQ(grid.across->traffic().sent_bytes - before,
                  copies == 1 || numel == 0 ? 0
                                            : 2 * static_cast<std::int64_t>(copies - 1) *
                                                  wire_bytes(WireCodec::kInt8, static_cast<std::int64_t>(block), kF));
        std::vector<float> of_all(copies * numel);
        all_gather(*grid.across, std::as_bytes(std::span(seen)), std::as_writable_bytes(std::span(of_all)), {});
        float largest = 0;  // largest element of any copy's sum
        for (int rank = 0; rank < world.world(); ++rank)
          for (std::size_t i = 0; i < numel; ++i)
            largest = std::max(largest, shard * std::abs(pattern_value(rank, grid.copy->rank() * numel + i)));
        // Each copy's sum and the total err by at most one codec step each.
        const float error = copies == 1 ? 0 : 2 * static_cast<float>(copies) * largest / 127;
        for (std::size_t i = 0; i < copies * numel; ++i) {
          ASSERT_EQ(of_all[i], seen[i % numel]) << "another copy has another sum";
          ASSERT_NEAR(of_all[i], want[i % numel], error) << i;
        }
      }
    }
  });
}

// Several sums of several pieces are under way. They are awaited in the order in which they began.
TEST_P(CopiesReduce, SeveralMayBeUnderWay) {
  expect_world(world(), [](Communicator& world) {
    for (const int shard : divisors(world.world())) {
      const Grid grid = open_grid(world, shard);
      constexpr std::size_t kNumel = 50000;
      std::vector<std::vector<float>> in, out, partial;
      std::vector<Work> works;
      for (int unit = 0; unit < 8; ++unit) {
        in.emplace_back(kNumel * shard, static_cast<float>(unit + world.rank()));
        out.emplace_back(kNumel);
        partial.emplace_back(kNumel);
      }
      SumOverCopies sums(*grid.copy, *grid.across);
      for (int unit = 0; unit < 8; ++unit) {
        works.push_back(
            sums.begin({.in = std::as_bytes(std::span(in[unit])), .out = std::as_writable_bytes(std::span(out[unit]))},
                       partial[unit], {.unit = unit}));
      }
      for (Work& work : works) work.wait();
      grid.copy->drain();
      const int n = world.world();
      for (int unit = 0; unit < 8; ++unit)
        EXPECT_EQ(out[unit], std::vector<float>(kNumel, static_cast<float>(n * unit + n * (n - 1) / 2)));
    }
  });
}

// The rank with the smaller block has no part of the last pieces.
TEST_P(CopiesReduce, BlocksMayDiffer) {
  expect_world(world(), [](Communicator& world) {
    if (world.world() % 2 != 0) return;
    const Grid grid = open_grid(world, 2);
    const std::vector<std::int64_t> bounds{0, 50000, 60000};
    const std::size_t numel = grid.copy->rank() == 0 ? 50000 : 10000;
    std::vector<float> in(60000), out(numel), partial(numel);
    std::iota(in.begin(), in.end(), static_cast<float>(world.rank()));
    SumOverCopies sums(*grid.copy, *grid.across);
    sums.begin({.in = std::as_bytes(std::span(in)), .out = std::as_writable_bytes(std::span(out))}, partial,
               {.unit = 0, .blocks = {bounds, sizeof(float)}})
        .wait();
    grid.copy->drain();
    const int n = world.world();
    const std::size_t first = grid.copy->rank() == 0 ? 0 : 50000;
    for (std::size_t i = 0; i < numel; ++i)
      ASSERT_EQ(out[i], static_cast<float>(n * static_cast<int>(first + i) + n * (n - 1) / 2)) << i;
  });
}

std::span<std::byte> bytes_of(std::vector<float>& values) {
  return std::as_writable_bytes(std::span(values));
}

void sum_two(Communicator& copy, Communicator& across) {
  std::vector<float> a(100, 1.0F), b(100, 2.0F), of_a(100), of_b(100), partial(100), next(100);
  SumOverCopies sums(copy, across);
  Work first = sums.begin({.in = bytes_of(a), .out = bytes_of(of_a)}, partial, {.unit = 0});
  Work second = sums.begin({.in = bytes_of(b), .out = bytes_of(of_b)}, next, {.unit = 1});
  first.wait();
  second.wait();
  EXPECT_EQ(of_a, std::vector<float>(100, 7.0F));
  EXPECT_EQ(of_b, std::vector<float>(100, 8.0F));
}

// The other copy, which sends the first total only after both partial sums have arrived.
void answer_two(Communicator& across) {
  std::vector<float> a(100), b(100), of_a(100, 7.0F), of_b(100, 8.0F);
  across.receive(bytes_of(a), 0, {.unit = 0}).wait();
  across.receive(bytes_of(b), 0, {.unit = 1}).wait();
  EXPECT_EQ(a, std::vector<float>(100, 1.0F));
  EXPECT_EQ(b, std::vector<float>(100, 2.0F));
  across.send(bytes_of(of_a), 0, {.unit = 0}).wait();
  across.send(bytes_of(of_b), 0, {.unit = 1}).wait();
  across.drain();
}

TEST_P(CopiesReduce, NextSumOverlapsAwaitedTotal) {
  expect_world(world(), [](Communicator& world) {
    const int rank = world.rank();
    const bool takes_part = world.world() > 1 && rank < 2;
    const auto copy = open_group(world, {rank}, "copy");
    const auto across = open_group(world, takes_part ? std::vector{0, 1} : std::vector{rank}, "across");
    if (takes_part) rank == 0 ? sum_two(*copy, *across) : answer_two(*across);
  });
}

// The mean over the copies is 2 (P/S)(R-1)/R: the first and the last copy send one block, all other copies two.
TEST_P(CopiesReduce, SendsFormulaBytes) {
  expect_world(world(), [](Communicator& world) {
    for (const int shard : divisors(world.world())) {
      const Grid grid = open_grid(world, shard);
      const int copies = grid.across->world(), copy = grid.across->rank();
      std::vector<float> in(1000 * shard), out(1000), partial(1000);
      SumOverCopies sums(*grid.copy, *grid.across);
      sums.begin({.in = std::as_bytes(std::span(in)), .out = std::as_writable_bytes(std::span(out))}, partial, {})
          .wait();
      grid.copy->drain();
      EXPECT_EQ(grid.copy->traffic().sent_bytes, 4000 * (shard - 1));
      const bool at_an_end = copy == 0 || copy == copies - 1;
      EXPECT_EQ(grid.across->traffic().sent_bytes, copies == 1 ? 0 : (at_an_end ? 4000 : 8000));
      std::int64_t sum = 0;
      for (const std::int64_t sent : all_gather_value(*grid.across, grid.across->traffic().sent_bytes)) sum += sent;
      EXPECT_EQ(sum, 2 * 4000 * (copies - 1));
    }
  });
}

}  // namespace
}  // namespace zero
