// Reductions: bits equal those of a plain loop in rank order, over every transport and with both implementations.
#include <bit>
#include <cmath>
#include <cstring>

#include "zero/comm/collectives.h"
#include "zero/comm/rank_sum.h"

#include "tests/world/pattern.h"
#include "tests/world/suite.h"

namespace zero {
namespace {

class Reductions : public WorldTest {};
ZERO_INSTANTIATE_WORLDS(Reductions);

struct Case {
  std::size_t numel;  // of each block
  DType dtype;
  DType out_dtype;
  bool accumulate;
  bool in_place;
};

std::vector<Case> cases() {
  constexpr DType f = DType::kFloat32, b = DType::kBFloat16, h = DType::kFloat16;
  std::vector<Case> list;
  for (const std::size_t numel : {0, 1, 17, 4096, 4097, 20001}) {
    list.push_back({numel, f, f, false, false});
    list.push_back({numel, f, f, false, true});
    list.push_back({numel, f, f, true, false});
    list.push_back({numel, b, b, false, false});
    list.push_back({numel, b, b, false, true});
    list.push_back({numel, b, f, true, false});
    list.push_back({numel, b, f, false, false});
    list.push_back({numel, h, h, false, true});
    list.push_back({numel, h, f, true, false});
  }
  // Several tiles of the default reduction.
  list.push_back({150001, f, f, false, false});
  return list;
}

// The block that rank `rank` must hold, element by element.
std::vector<std::byte> expected_block(const Case& c, int rank, int world) {
  std::vector<std::byte> out(c.numel * size_of(c.out_dtype));
  const auto input = [&](int r, std::size_t i) {
    const float value = pattern_value(r, rank * c.numel + i);
    return with_type_of(c.dtype, [&]<typename T>(std::type_identity<T>) { return to_float(rounded_to<T>(value)); });
  };
  for (std::size_t i = 0; i < c.numel; ++i) {
    float sum = input(0, i);
    for (int r = 1; r < world; ++r) sum += input(r, i);
    if (c.accumulate) sum = pattern_value(999, i) + sum;
    with_type_of(c.out_dtype,
                 [&]<typename T>(std::type_identity<T>) { reinterpret_cast<T*>(out.data())[i] = rounded_to<T>(sum); });
  }
  return out;
}

using Reduce = Work (*)(Communicator&, const ReduceScatter&);

void expect_sums(Communicator& comm, const Case& c, Reduce reduce) {
  auto in = pattern_values(c.numel * comm.world(), c.dtype, comm.rank());
  auto separate = c.accumulate ? pattern_values(c.numel, DType::kFloat32, 999)
                               : std::vector<std::byte>(c.numel * size_of(c.out_dtype));
  const std::size_t block = c.numel * size_of(c.dtype);
  const std::span<std::byte> out = c.in_place ? std::span(in).subspan(comm.rank() * block, block) : std::span(separate);
  ReduceStats stats;
  reduce(
      comm,
      {.in = in, .dtype = c.dtype, .out = out, .out_dtype = c.out_dtype, .accumulate = c.accumulate, .stats = &stats})
      .wait();
  const auto expected = expected_block(c, comm.rank(), comm.world());
  const ReduceStats expected_stats = stats_of(expected.data(), c.out_dtype, static_cast<std::int64_t>(c.numel));
  EXPECT_TRUE(std::ranges::equal(out, expected)) << c.numel << " " << name_of(c.dtype) << " " << c.accumulate;
  EXPECT_EQ(stats.num_non_finite, expected_stats.num_non_finite) << "only overflows of fp16 are not finite";
  EXPECT_TRUE(c.dtype == DType::kFloat16 || stats.num_non_finite == 0);
  if (stats.num_non_finite > 0) {
    EXPECT_FALSE(std::isfinite(stats.sum_squares.value()));
  } else {
    EXPECT_EQ(std::bit_cast<std::uint64_t>(stats.sum_squares.value()),
              std::bit_cast<std::uint64_t>(expected_stats.sum_squares.value()));
  }
  comm.drain();
}

TEST_P(Reductions, ReduceScatterSumsInRankOrder) {
  expect_world(world(), [](Communicator& comm) {
    for (const Case& c : cases()) {
      expect_sums(comm, c, [](Communicator& comm, const ReduceScatter& r) { return comm.reduce_scatter(r, {}); });
    }
  });
}

TEST_P(Reductions, TiledDefaultKeepsBits) {
  expect_world(world(), [](Communicator& comm) {
    for (const Case& c : cases()) {
      expect_sums(comm, c,
                  [](Communicator& comm, const ReduceScatter& r) { return comm.Communicator::reduce_scatter(r, {}); });
    }
  });
}

// The owner of a block counts the block's elements that are not finite.
TEST_P(Reductions, NonFiniteElementsCountAtOwner) {
  expect_world(world(), [](Communicator& comm) {
    std::vector<float> in(5000 * comm.world(), 1.0f), out(5000);
    if (comm.rank() == 0) in[7] = INFINITY;                         // block of rank 0
    if (comm.rank() == comm.world() - 1) in[4999] = std::nanf("");  // also of rank 0, in its second block of statistics
    ReduceStats stats;
    comm.reduce_scatter(
            {.in = std::as_bytes(std::span(in)), .out = std::as_writable_bytes(std::span(out)), .stats = &stats}, {})
        .wait();
    EXPECT_EQ(stats.num_non_finite, comm.rank() == 0 ? 2 : 0);
    EXPECT_EQ(std::isfinite(stats.sum_squares.value()), comm.rank() != 0);
    comm.drain();
  });
}

// The sum is equal everywhere to the bit, at any size.
TEST_P(Reductions, AllReduceMatchesEverywhere) {
  expect_world(world(), [](Communicator& comm) {
    for (const std::size_t numel : {0, 1, 2, 6, 7, 1000, 50003}) {
      std::vector<float> data(numel);
      for (std::size_t i = 0; i < numel; ++i) data[i] = pattern_value(comm.rank(), i);
      all_reduce(comm, data, {});
      for (std::size_t i = 0; i < numel; ++i) {
        float sum = pattern_value(0, i);
        for (int r = 1; r < comm.world(); ++r) sum += pattern_value(r, i);
        ASSERT_EQ(std::bit_cast<std::uint32_t>(data[i]), std::bit_cast<std::uint32_t>(sum)) << i << " of " << numel;
      }
    }
  });
}

TEST_P(Reductions, ValuesComeInRankOrder) {
  expect_world(world(), [](Communicator& comm) {
    const auto values = all_gather_value(comm, 10 * comm.rank() - 5);
    ASSERT_EQ(values.size(), static_cast<std::size_t>(comm.world()));
    for (int r = 0; r < comm.world(); ++r) EXPECT_EQ(values[r], 10 * r - 5);
    EXPECT_EQ(all_reduce_min(comm, 10 * comm.rank() - 5), -5);
    EXPECT_EQ(all_reduce_max(comm, 10 * comm.rank() - 5), 10 * (comm.world() - 1) - 5);
  });
}

}  // namespace
}  // namespace zero
