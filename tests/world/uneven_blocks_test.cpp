// Blocks of different size on each rank, over every transport: gathers, exchanges, and sums to the bit.
#include <numeric>

#include "zero/comm/collectives.h"
#include "zero/comm/group.h"
#include "zero/comm/rank_sum.h"

#include "tests/world/pattern.h"
#include "tests/world/suite.h"

namespace zero {
namespace {

class UnevenBlocks : public WorldTest {};
ZERO_INSTANTIATE_WORLDS(UnevenBlocks);

// Elements of each rank's block. In the last kind, the largest block takes several tiles of the default reduction.
std::vector<std::vector<std::int64_t>> sizes_of(int world) {
  std::vector<std::vector<std::int64_t>> kinds(4);
  for (int rank = 0; rank < world; ++rank) {
    kinds[0].push_back(16 * (rank + 1));
    kinds[1].push_back(rank == 0 ? 20001 : 16);
    kinds[2].push_back(rank == world - 1 ? 4097 : rank % 2);  // some blocks are empty
    kinds[3].push_back(rank == 0 ? 400003 : 70001 * rank);
  }
  return kinds;
}

std::vector<std::int64_t> bounds_of(const std::vector<std::int64_t>& sizes) {
  std::vector<std::int64_t> bounds(sizes.size() + 1, 0);
  std::partial_sum(sizes.begin(), sizes.end(), bounds.begin() + 1);
  return bounds;
}

Traffic added(Communicator& comm, const Traffic& before) {
  const Traffic now = comm.traffic();
  return {.sent_bytes = now.sent_bytes - before.sent_bytes,
          .received_bytes = now.received_bytes - before.received_bytes};
}

// Each block is gathered at its place.
TEST_P(UnevenBlocks, GatherInsideAndOutsideTransportMemory) {
  expect_world(world(), [](Communicator& comm) {
    const auto rank = static_cast<std::size_t>(comm.rank());
    for (const auto& sizes : sizes_of(comm.world())) {
      const auto bounds = bounds_of(sizes);
      const auto part = [&](std::span<std::byte> all, std::size_t r) {
        return all.subspan(static_cast<std::size_t>(bounds[r]) * 4, static_cast<std::size_t>(sizes[r]) * 4);
      };
      const auto mine = pattern(static_cast<std::size_t>(sizes[rank]) * 4, comm.rank());
      std::vector<std::byte> out(static_cast<std::size_t>(bounds.back()) * 4);
      Allocation memory = comm.allocate(out.size());
      std::ranges::copy(mine, part(memory.bytes(), rank).begin());
      const Traffic before = comm.traffic();
      comm.all_gather(mine, out, {.unit = 1, .blocks = {bounds, 4}}).wait();
      const Traffic moved = added(comm, before);
      EXPECT_EQ(moved.sent_bytes, (comm.world() - 1) * sizes[rank] * 4);
      EXPECT_EQ(moved.received_bytes, (bounds.back() - sizes[rank]) * 4);
      comm.all_gather(part(memory.bytes(), rank), memory.bytes(), {.unit = 2, .blocks = {bounds, 4}}).wait();
      for (std::size_t r = 0; r < sizes.size(); ++r) {
        EXPECT_TRUE(holds_pattern(part(out, r), static_cast<std::uint32_t>(r)));
        EXPECT_TRUE(holds_pattern(part(memory.bytes(), r), static_cast<std::uint32_t>(r)));
      }
      comm.drain();
    }
  });
}

TEST_P(UnevenBlocks, AreExchangedBetweenAllRanks) {
  expect_world(world(), [](Communicator& comm) {
    const auto rank = static_cast<std::size_t>(comm.rank());
    for (const auto& sizes : sizes_of(comm.world())) {
      const auto bounds = bounds_of(sizes);
      std::vector<std::byte> in;
      for (int to = 0; to < comm.world(); ++to) {
        const auto block =
            pattern(static_cast<std::size_t>(sizes[static_cast<std::size_t>(to)]), comm.rank() * 100 + to);
        in.insert(in.end(), block.begin(), block.end());
      }
      const auto bytes = static_cast<std::size_t>(sizes[rank]);
      std::vector<std::byte> out(bytes * sizes.size());
      comm.all_to_all(in, out, {.blocks = {bounds, 1}}).wait();
      for (int from = 0; from < comm.world(); ++from)
        EXPECT_TRUE(holds_pattern(std::span(out).subspan(from * bytes, bytes), from * 100 + comm.rank()));
      comm.drain();
    }
  });
}

// The sum of this rank's block equals a plain loop in rank order to the bit, with the transport's implementation and
// the default.
TEST_P(UnevenBlocks, AreSummedInRankOrder) {
  expect_world(world(), [](Communicator& comm) {
    const auto rank = static_cast<std::size_t>(comm.rank());
    for (const DType dtype : {DType::kFloat32, DType::kBFloat16}) {
      for (const auto& sizes : sizes_of(comm.world())) {
        const auto bounds = bounds_of(sizes);
        const auto numel = static_cast<std::size_t>(sizes[rank]), begin = static_cast<std::size_t>(bounds[rank]);
        const auto in = pattern_values(static_cast<std::size_t>(bounds.back()), dtype, comm.rank());
        std::vector<float> expected(numel, 0.0F);
        for (int r = 0; r < comm.world(); ++r) {
          const auto theirs = pattern_values(static_cast<std::size_t>(bounds.back()), dtype, r);
          for (std::size_t i = 0; i < numel; ++i)
            expected[i] =
                r == 0 ? value_at(theirs, dtype, begin + i) : expected[i] + value_at(theirs, dtype, begin + i);
        }
        for (const bool tiled : {false, true}) {
          std::vector<float> out(numel, -1.0F);
          ReduceStats stats;
          const ReduceScatter request{
              .in = in, .dtype = dtype, .out = std::as_writable_bytes(std::span(out)), .stats = &stats};
          const CommTag tag{.unit = 3, .blocks = {bounds, size_of(dtype)}};
          const Traffic before = comm.traffic();
          (tiled ? comm.Communicator::reduce_scatter(request, tag) : comm.reduce_scatter(request, tag)).wait();
          const Traffic moved = added(comm, before);
          const auto width = static_cast<std::int64_t>(size_of(dtype));
          EXPECT_EQ(moved.sent_bytes, (bounds.back() - sizes[rank]) * width) << "tiled: " << tiled;
          EXPECT_EQ(moved.received_bytes, (comm.world() - 1) * sizes[rank] * width) << "tiled: " << tiled;
          EXPECT_EQ(out, expected) << name_of(dtype) << ", tiled: " << tiled;
          const ReduceStats wanted = stats_of(reinterpret_cast<const std::byte*>(expected.data()), DType::kFloat32,
                                              static_cast<std::int64_t>(numel));
          EXPECT_EQ(stats.sum_squares.value(), wanted.sum_squares.value());
          comm.drain();
        }
      }
    }
  });
}

TEST_P(UnevenBlocks, UnfitSpanIsABug) {
  expect_world(world(), [](Communicator& comm) {
    std::vector<std::int64_t> bounds(static_cast<std::size_t>(comm.world()) + 1, 0);
    std::iota(bounds.begin(), bounds.end(), 0);
    std::vector<std::byte> out(static_cast<std::size_t>(comm.world()) * 4), wrong(7);
    // The calls below send nothing. Without this gather, a rank might leave while other ranks still connect to it.
    all_gather_value(comm, 1);
    EXPECT_THROW(static_cast<void>(comm.all_gather(wrong, out, {.blocks = {bounds, 4}})), InternalError);
    EXPECT_THROW(static_cast<void>(comm.all_to_all(wrong, out, {.blocks = {bounds, 4}})), InternalError);
    EXPECT_THROW(static_cast<void>(comm.reduce_scatter({.in = wrong, .out = out}, {.blocks = {bounds, 4}})),
                 InternalError);
    EXPECT_THROW(static_cast<void>(comm.reduce_scatter({.in = out, .dtype = DType::kBFloat16, .out = wrong},
                                                       {.blocks = {bounds, 4}})),
                 InternalError);
  });
}

}  // namespace
}  // namespace zero
