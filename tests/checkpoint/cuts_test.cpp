// A checkpoint does not depend on the cut: any number of ranks with any cut can load it.
#include <algorithm>
#include <atomic>
#include <set>

#include <gtest/gtest.h>

#include "zero/checkpoint/image/rank_layout.h"
#include "zero/checkpoint/read/kept_blocks.h"

#include "tests/checkpoint/saved_model.h"
#include "tests/engine/block_specs.h"
#include "tests/support/tier.h"

namespace zero {
namespace {

struct CutCell {
  int world;
  Cut shards;
};

AttachOptions options_of(const CutCell& cell, const OptimizerOptions& optimizer) {
  AttachOptions options{.shards = cell.shards, .optimizer = optimizer};
  for (int rank = 0; cell.shards == Cut::kWeighted && rank < cell.world; ++rank)
    options.shard_weights.push_back(1 + 3 * (rank % 2));
  return options;
}

// Trains two steps and saves.
void save_trained(const CutCell& cell, const std::vector<ParamSpec>& specs, const OptimizerOptions& optimizer,
                  const std::filesystem::path& path) {
  on_ranks(cell.world, [&](Communicator& comm) {
    ScriptedModel model(comm, specs, options_of(cell, optimizer));
    train_steps(model, 0, 2, 1);
    save_now(model.engine(), path);
  });
}

void load_and_save(const CutCell& cell, const std::vector<ParamSpec>& specs, const OptimizerOptions& optimizer,
                   const std::filesystem::path& from, const std::filesystem::path& to) {
  on_ranks(cell.world, [&](Communicator& comm) {
    ScriptedModel model(comm, specs, options_of(cell, optimizer));
    load_checkpoint(model.engine(), from);
    save_now(model.engine(), to);
  });
}

constexpr CutCell kCells[] = {{1, Cut::kRange}, {2, Cut::kRange},    {2, Cut::kWhole},
                              {3, Cut::kWhole}, {2, Cut::kHash},     {3, Cut::kHash},
                              {4, Cut::kHash},  {2, Cut::kWeighted}, {3, Cut::kWeighted}};

TEST(CutCheckpointsSlowOnAnyDevice, AnyCutLoadsAnyOther) {
  const TemporaryFolder folder;
  int n = 0;
  Sweep sweep(5);
  for (const DType dtype : {DType::kFloat32, DType::kBFloat16}) {
    for (const CutCell& from : kCells) {
      const auto saved = folder / std::to_string(n++);
      const std::vector<ParamSpec> specs = block_specs(dtype);
      Elements expected;
      for (const CutCell& to : kCells) {
        if (!sweep.takes_next()) continue;
        if (expected.empty()) {
          save_trained(from, specs, AdamWOptions{}, saved);
          expected = elements(saved);
        }
        const auto again = folder / std::to_string(n++);
        load_and_save(to, specs, AdamWOptions{}, saved, again);
        EXPECT_EQ(elements(again), expected)
            << name_of(from.shards) << " of " << from.world << " as " << name_of(to.shards) << " of " << to.world;
      }
    }
  }
}

TEST(CutCheckpointsSlowOnAnyDevice, HashAndRangeRoundTrip) {
  const TemporaryFolder folder;
  for (const OptimizerOptions& optimizer : {OptimizerOptions(AdamWOptions{}), OptimizerOptions(AdamW8bitOptions{})}) {
    const std::string name(name_of(optimizer));
    const auto specs = block_specs(DType::kBFloat16);
    save_trained({3, Cut::kHash}, specs, optimizer, folder / (name + "-hash"));
    load_and_save({2, Cut::kRange}, specs, optimizer, folder / (name + "-hash"), folder / (name + "-range"));
    load_and_save({3, Cut::kHash}, specs, optimizer, folder / (name + "-range"), folder / (name + "-back"));
    EXPECT_EQ(elements(folder / (name + "-range")), elements(folder / (name + "-hash"))) << name;
    EXPECT_EQ(elements(folder / (name + "-back")), elements(folder / (name + "-hash"))) << name;
  }
}

TEST(CutCheckpointsSlowOnAnyDevice, AnotherCutContinuesWithSameBits) {
  const TemporaryFolder folder;
  const auto specs = block_specs(DType::kBFloat16);
  const auto weights = [&](const CutCell& first, const CutCell& then) {
    std::vector<float> all;
    save_trained(first, specs, AdamWOptions{}, folder / "c");
    on_ranks(then.world, [&](Communicator& comm) {
      ScriptedModel model(comm, specs, options_of(then, AdamWOptions{}));
      load_checkpoint(model.engine(), folder / "c");
      train_steps(model, 2, 4, 1);
      for (const ParamSpec& spec : specs) {
        const std::vector<float> values = model.weights_of(spec.name);
        if (comm.rank() == 0) all.insert(all.end(), values.begin(), values.end());
      }
    });
    std::filesystem::remove_all(folder / "c");
    return all;
  };
  const auto expected = weights({3, Cut::kRange}, {3, Cut::kRange});
  EXPECT_EQ(weights({3, Cut::kHash}, {3, Cut::kRange}), expected);
  EXPECT_EQ(weights({3, Cut::kRange}, {3, Cut::kHash}), expected);
  EXPECT_EQ(weights({3, Cut::kWhole}, {3, Cut::kHash}), expected);
  EXPECT_EQ(weights({3, Cut::kWeighted}, {3, Cut::kHash}), expected);
  EXPECT_EQ(weights({3, Cut::kRange}, {3, Cut::kWeighted}), expected);
}

TEST(CutCheckpointsSlowOnAnyDevice, TensorsOfOneFileHaveNames) {
  const AttachOptions options{.shards = Cut::kHash};
  const auto specs = block_specs(DType::kFloat32);
  const RankLayout layout =
      lay_out_rank(specs, units_of(specs, 3, options), SavedStates({"parameter"}, {}), {.shard = 3}, 0, {});
  std::set<std::int64_t> begins;
  for (const SavedSlice& slice : layout.slices) {
    if (slice.tensor != 0) continue;
    begins.insert(slice.begin);
    EXPECT_NE(layout.header.find("\"parameter/wte@" + std::to_string(slice.begin) + "\""), std::string::npos);
  }
  EXPECT_GT(begins.size(), 1U);
}

class BytesRead final : public FileCalls {
 public:
  mutable std::atomic<std::int64_t> bytes{0};
  ssize_t read(int fd, std::span<std::byte> into, std::int64_t offset) const override {
    const ssize_t count = FileCalls::read(fd, into, offset);
    bytes += std::max<ssize_t>(count, 0);
    return count;
  }
};

// Each state has eight blocks of 4 MiB, spread over two files.
TEST(CutCheckpointsSlowOnAnyDevice, ScatteredBlocksAreReadOnce) {
  const TemporaryFolder folder;
  const std::vector<ParamSpec> specs{{.name = "h.0.weight", .shape = {2048, 2048}}, {.name = "h.0.bias", .shape = {9}}};
  save_trained({2, Cut::kHash}, specs, SgdOptions{}, folder / "c");
  std::int64_t size = 0;
  for (const auto& file : std::filesystem::directory_iterator(folder / "c"))
    size += static_cast<std::int64_t>(file.file_size());
  const BytesRead calls;
  CheckpointReader reader(folder / "c", calls);
  std::vector<float> values(2048 * 2048);
  reader.read(reader.find("h.0.weight"), 0, 0, values);
  EXPECT_LE(calls.bytes, size + 4 * kSumBlockBytes);
}

TEST(KeptBlocks, DropsTheLeastRecentlyUsed) {
  KeptBlocks kept(2);
  const auto bytes = [](int value) { return std::vector<std::byte>(8, static_cast<std::byte>(value)); };
  kept.keep(0, 1, bytes(1));
  kept.keep(1, 1, bytes(2));
  ASSERT_NE(kept.find(0, 1), nullptr);
  kept.keep(1, 2, bytes(3));
  EXPECT_EQ(kept.find(1, 1), nullptr);
  EXPECT_EQ(*kept.find(0, 1), bytes(1));
  EXPECT_EQ(*kept.find(1, 2), bytes(3));
}

}  // namespace
}  // namespace zero
