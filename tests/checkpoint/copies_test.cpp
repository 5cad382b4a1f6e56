// Checkpoints of copies of a model: one of the ranks that hold an element writes it, and any number of ranks can load
// it.
#include <algorithm>
#include <map>
#include <set>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "zero/checkpoint/in_memory_checkpoints.h"
#include "zero/plan/units/mesh.h"

#include "tests/checkpoint/launcher.h"
#include "tests/checkpoint/saved_model.h"
#include "tests/support/tier.h"

namespace zero {
namespace {

struct Ranks {
  int world = 4;
  int group = 0;
  int stage = 3;
};

std::string name_of(const Ranks& ranks) {
  return fmt::format("{} ranks in groups of {}, stage {}", ranks.world, ranks.group, ranks.stage);
}

// No clipping, because another mesh has other shards, over which the norm is summed.
AttachOptions engine_options(const Ranks& ranks) {
  return {.stage = ranks.stage, .group = ranks.group};
}

void save_after(const Ranks& ranks, int steps, const std::filesystem::path& path) {
  on_ranks(ranks.world, [&](Communicator& comm) {
    ScriptedModel model(comm, small_specs(DType::kBFloat16), engine_options(ranks));
    train_steps(model, 0, steps, 1);
    save_now(model.engine(), path);
  });
}

// Loads, trains steps [from, to), and saves again.
void go_on(const Ranks& ranks, const std::filesystem::path& path, int from, int to, const std::filesystem::path& end) {
  on_ranks(ranks.world, [&](Communicator& comm) {
    ScriptedModel model(comm, small_specs(DType::kBFloat16), engine_options(ranks));
    load_checkpoint(model.engine(), path);
    train_steps(model, from, to, 1);
    save_now(model.engine(), end);
  });
}

TEST(CopiesSavedSlowOnAnyDevice, AnyMeshLoadsAnyMesh) {
  const std::vector<Ranks> meshes{{1, 0, 2}, {2, 0, 3}, {4, 0, 1}, {4, 2, 3}, {4, 1, 0}, {6, 2, 1}, {6, 3, 3}};
  const TemporaryFolder folder;
  int n = 0;
  Sweep sweep(10);
  for (const Ranks& from : meshes) {
    const auto first = folder / std::to_string(n++);
    save_after(from, 2, first);
    for (const Ranks& to : meshes) {
      if (!sweep.takes_next()) continue;
      const auto second = folder / std::to_string(n++);
      go_on(to, first, 2, 2, second);
      EXPECT_EQ(elements(second), elements(first)) << name_of(from) << " to " << name_of(to);
    }
  }
}

TEST(CopiesSavedSlowOnAnyDevice, AnotherMeshContinuesWithSameBits) {
  const TemporaryFolder folder;
  save_after({}, 4, folder / "whole");
  int n = 0;
  Sweep sweep(5);
  for (const Ranks& from : {Ranks{4, 2, 3}, Ranks{4, 0, 1}, Ranks{4, 1, 2}}) {
    const auto half = folder / std::to_string(n++);
    save_after(from, 2, half);
    for (const Ranks& to : {Ranks{4, 0, 3}, Ranks{4, 2, 0}, Ranks{4, 2, 3}, Ranks{4, 1, 1}}) {
      if (!sweep.takes_next()) continue;
      const auto end = folder / std::to_string(n++);
      go_on(to, half, 2, 4, end);
      EXPECT_EQ(elements(end), elements(folder / "whole")) << name_of(from) << " to " << name_of(to);
    }
  }
}

TEST(CopiesSavedSlowOnAnyDevice, RanksWriteEqualParts) {
  const TemporaryFolder folder;
  const std::vector<ParamSpec> specs{{.name = "table", .shape = {64, 96}}};
  on_ranks(6, [&](Communicator& comm) {
    ScriptedModel model(comm, specs, {.stage = 1, .group = 2});
    model.train(0);
    save_now(model.engine(), folder / "c");
  });
  const Manifest manifest = read_manifest(folder / "c");
  ASSERT_EQ(manifest.files.size(), 6U);
  for (const SavedFile& file : manifest.files) {
    std::int64_t numel = 0;
    for (const SavedSlice& slice : file.slices) numel += slice.numel;
    EXPECT_EQ(numel, 3 * 64 * 96 / 6) << file.name;
  }
}

TEST(CopiesSavedSlowOnAnyDevice, LauncherMemoryServesAnyMesh) {
  Launcher launcher;
  const TemporaryFolder folder;
  on_ranks(4, [&](Communicator& comm) {
    ScriptedModel model(comm, small_specs(DType::kBFloat16), engine_options({4, 2, 3}));
    InMemoryCheckpoints kept(launcher.connect(), "run");
    train_steps(model, 0, 2, 1);
    EXPECT_TRUE(kept.save(model.engine(), 2, {}));
    save_now(model.engine(), folder / "saved");
  });
  for (const Ranks& to : {Ranks{4, 2, 1}, Ranks{2, 0, 3}}) {
    const auto end = folder / name_of(to);
    on_ranks(to.world, [&](Communicator& comm) {
      ScriptedModel model(comm, small_specs(DType::kBFloat16), engine_options(to));
      InMemoryCheckpoints kept(launcher.connect(), "run");
      load_checkpoint(model.engine(), kept.path_of(2), kept.files_of(2));
      save_now(model.engine(), end);
    });
    EXPECT_EQ(elements(end), elements(folder / "saved")) << name_of(to);
  }
}

}  // namespace
}  // namespace zero
