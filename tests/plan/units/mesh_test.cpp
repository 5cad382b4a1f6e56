#include "zero/plan/units/mesh.h"

#include <algorithm>

#include <gtest/gtest.h>

#include "zero/base/error/error.h"
#include "zero/plan/units/estimate.h"
#include "zero/plan/units/partition.h"

#include "tests/support/message_of.h"

namespace zero {
namespace {

TEST(Mesh, CopiesAreNeighboursShardsAreAcross) {
  const Mesh mesh = mesh_of(6, 2);
  EXPECT_EQ(mesh, (Mesh{.shard = 2, .copies = 3}));
  EXPECT_EQ(mesh.ranks_of_copy(1), (std::vector{2, 3}));
  EXPECT_EQ(mesh.ranks_of_shard(1), (std::vector{1, 3, 5}));
}

TEST(Mesh, RankHasOneCopyAndShard) {
  for (const int world : {1, 2, 4, 6, 12}) {
    for (int group = 1; group <= world; ++group) {
      if (world % group != 0) continue;
      const Mesh mesh = mesh_of(world, group);
      EXPECT_EQ(mesh.world(), world);
      for (int rank = 0; rank < world; ++rank) {
        const auto copy = mesh.ranks_of_copy(mesh.copy_of(rank)), shard = mesh.ranks_of_shard(mesh.shard_of(rank));
        EXPECT_EQ(copy[mesh.shard_of(rank)], rank) << "its place in its copy is its shard";
        EXPECT_EQ(shard[mesh.copy_of(rank)], rank);
      }
    }
  }
}

TEST(Mesh, NoGroupIsTheWorld) {
  EXPECT_EQ(mesh_of(8, 0), (Mesh{.shard = 8, .copies = 1}));
  EXPECT_EQ(mesh_of(8, 8), mesh_of(8, 0));
}

TEST(Mesh, RefusedGroupSizeNamesValidOnes) {
  for (const int group : {-1, 4, 5, 7, 12}) {
    const std::string message = message_of<ConfigError>([&] { mesh_of(6, group); });
    EXPECT_TRUE(says(message, "zero.group")) << message;
    EXPECT_TRUE(says(message, "use 0 (all ranks hold one copy of the model), or one of 1, 2, 3, 6")) << message;
  }
}

// The mean over the copies is 2 (P/S)(R-1)/R.
TEST(Mesh, CopyBytesMatchMeanAllReduce) {
  const Unit unit{.slices = {{.param = 0, .offset = 0, .numel = 1 << 20}}, .numel = 1 << 20};
  for (const int copies : {1, 2, 3, 8}) {
    const Mesh mesh{.shard = 4, .copies = copies};
    std::int64_t sum = 0;
    for (int copy = 0; copy < copies; ++copy) sum += sent_between_copies(unit, mesh, copy);
    EXPECT_EQ(sum, 2 * (copies - 1) * 4 * shard_numel(unit, 4));
  }
  Unit frozen = unit;
  frozen.trainable = false;
  EXPECT_EQ(sent_between_copies(frozen, {.shard = 4, .copies = 2}, 0), 0);
}

TEST(Mesh, StepBytesMatchEachMeanReduction) {
  std::vector<Unit> units(2);
  for (Unit& unit : units) unit = {.slices = {{.param = 0, .offset = 0, .numel = 4096}}, .numel = 4096};
  units[1].dtype = DType::kBFloat16;  // also crosses in fp32
  for (const int accumulate : {1, 3}) {
    for (const Reduce reduce : {Reduce::kEach, Reduce::kLast}) {
      const Mesh mesh{.shard = 4, .copies = 3};
      const Placement placement = place(1, reduce, accumulate);
      const int reductions = reduce == Reduce::kEach ? accumulate : 1;
      EXPECT_EQ(sent_between_copies(units, mesh, placement), reductions * 2 * 2 * (4096 / 4 * 4 * 2) / 3);
      EXPECT_EQ(sent_between_copies(units, {.shard = 12}, placement), 0);
    }
  }
}

// Every copy sends 2 b (P/S)(R-1)/R, in two exchanges of blocks.
TEST(Mesh, CodedCopyBytesMatchTwoExchanges) {
  const Unit unit{.slices = {{.param = 0, .offset = 0, .numel = 6 * 4096}}, .numel = 6 * 4096};
  const Mesh mesh{.shard = 2, .copies = 3};
  const std::int64_t block = 4096, coded = block + block / 256 * 4;
  Placement placement = place(3, Reduce::kEach, 2);
  placement.copies = 3;
  placement.wire.outer = WireCodec::kInt8;
  for (int copy = 0; copy < 3; ++copy)
    EXPECT_EQ(sent_between_copies(unit, mesh, copy, WireCodec::kInt8), 2 * 2 * coded)
        << "the first and last copy send as much as the others";
  EXPECT_EQ(sent_between_copies({unit}, mesh, placement), 2 * 2 * 2 * coded) << "once for each micro-batch";
  EXPECT_DOUBLE_EQ(sent_between_copies_formula_bytes(unit.numel, 2, placement), 2 * 2 * 2 * coded);
}

TEST(Mesh, LocalStepsSendNoGradients) {
  std::vector<Unit> units(1, {.slices = {{.param = 0, .offset = 0, .numel = 4096}}, .numel = 4096});
  Placement apart = place(2, Reduce::kEach, 3);
  apart.merged_copies = 3;
  EXPECT_EQ(sent_between_copies(units, {.shard = 4, .copies = 3}, apart), 0);
}

// A shard sends 8 (P/S)(R-1)/R between copies. Within a copy, stage 0 sends sums, and stages 1 and 2 send parameters.
TEST(Mesh, OuterStepSendsFp32AllReduce) {
  std::vector<Unit> units(2, {.slices = {{.param = 0, .offset = 0, .numel = 6 * 4096}}, .numel = 6 * 4096});
  units[1].dtype = DType::kBFloat16;
  units.push_back(units[0]);
  units.back().trainable = false;
  for (const Mesh mesh : {Mesh{1, 2}, Mesh{2, 3}, Mesh{4, 2}}) {
    const std::int64_t numel = 2 * 6 * 4096, gathered = numel / mesh.shard * (mesh.shard - 1);
    const std::int64_t crossing = 8 * numel / mesh.shard * (mesh.copies - 1) / mesh.copies;
    EXPECT_EQ(outer_formula_bytes(numel, mesh), static_cast<double>(crossing));
    for (int stage = 0; stage <= 3; ++stage) {
      const std::int64_t within = stage == 0 ? 4 * gathered : stage < 3 ? 3 * gathered : 0;  // half of it is bf16
      EXPECT_EQ(outer_bytes(units, mesh, place(stage, Reduce::kAuto, 1)), (OuterBytes{crossing, within})) << stage;
    }
  }
}

// Codes are sent between copies, and fp32 values within a copy.
TEST(Mesh, CodedOuterStepSendsCodes) {
  const std::vector<Unit> units(1, {.slices = {{.param = 0, .offset = 0, .numel = 4096}}, .numel = 4096});
  const Mesh mesh{.shard = 2, .copies = 2};
  Placement placement = place(0, Reduce::kAuto, 1);
  placement.wire.outer = WireCodec::kInt8;
  EXPECT_EQ(outer_bytes(units, mesh, placement), (OuterBytes{2 * (1024 + 16), 4 * 2048}));
  EXPECT_EQ(outer_formula_bytes(4096, mesh, placement.wire), 2 * (1024 + 16));
}

// In an outer step each copy sends the same message to all other copies, and receives no sum.
TEST(Mesh, LargestElementsReachAllOtherCopies) {
  const std::vector<Unit> units(1, {.slices = {{.param = 0, .offset = 0, .numel = 4096}}, .numel = 4096});
  Placement placement = place(1, Reduce::kAuto, 1);
  placement.wire.outer_topk = 0.01;
  for (const int copies : {2, 5}) {
    const Mesh mesh{.shard = 2, .copies = copies};
    EXPECT_EQ(outer_bytes(units, mesh, placement), (OuterBytes{(copies - 1) * 2 * 60, 4 * 2048}));
    EXPECT_EQ(outer_formula_bytes(4096, mesh, placement.wire), (copies - 1) * 2 * 60);
  }
}

// If copies train apart, a copy has one rank by default.
TEST(Mesh, LocalStepsDefaultToSingleRanks) {
  EXPECT_EQ(mesh_of_local(4, 0), (Mesh{.shard = 1, .copies = 4}));
  EXPECT_EQ(mesh_of_local(4, 2), (Mesh{.shard = 2, .copies = 2}));
  for (const auto& [world, group] : {std::pair{1, 0}, {1, 1}, {4, 4}}) {
    const std::string message = message_of<ConfigError>([&] { mesh_of_local(world, group); });
    EXPECT_TRUE(says(message, "sync.mode = local: there is only one copy of the model")) << message;
  }
  EXPECT_TRUE(says(message_of<ConfigError>([] { mesh_of_local(4, 3); }), "zero.group = 3"));
}

TEST(Mesh, ElementIsSavedOnceByHolder) {
  for (const std::int64_t numel : {1, 16, 100, 4099}) {
    Unit unit{.slices = {{.param = 0, .offset = 0, .numel = numel}}, .numel = numel};
    for (const Mesh mesh : {Mesh{1, 1}, Mesh{3, 1}, Mesh{1, 3}, Mesh{2, 3}, Mesh{4, 2}}) {
      std::vector<int> saved(static_cast<std::size_t>(padded_numel(unit, mesh.shard)));
      for (int rank = 0; rank < mesh.world(); ++rank) {
        const Shard own = shard_of(unit, mesh.shard_of(rank), mesh.shard), part = saved_part(unit, mesh, rank);
        EXPECT_GE(part.offset, own.offset);
        EXPECT_LE(part.offset + part.numel, own.offset + own.numel);
        EXPECT_LE(part.numel, (own.numel + mesh.copies - 1) / mesh.copies);
        for (std::int64_t i = 0; i < part.numel; ++i) ++saved[static_cast<std::size_t>(part.offset + i)];
        EXPECT_TRUE(mesh.copies > 1 || part == own);
      }
      EXPECT_EQ(std::ranges::count(saved, 1), std::ssize(saved)) << numel;
    }
  }
}

}  // namespace
}  // namespace zero
