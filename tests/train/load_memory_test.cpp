// Memory for reading weights or a checkpoint, besides the engine's states: one unit, whatever the size of the model.
// The kernel counts it as the peak of resident memory.
#include <fstream>
#include <optional>

#include <gtest/gtest.h>
#include <malloc.h>

#include "zero/base/process/process_memory.h"
#include "zero/torch/deferred/deferred.h"

#include "app/models/mlp.h"
#include "app/train/weights/weights.h"
#include "tests/comm/transport/worlds.h"
#include "tests/support/temporary_folder.h"
#include "tests/support/this_build.h"

namespace zero {
namespace {

constexpr std::int64_t kMiB = 1 << 20;
constexpr std::int64_t kWidth = 2048, kLayers = 8;
constexpr std::int64_t kUnit = kWidth * (kWidth + 1) * 4, kModel = kLayers * kUnit;
// Stacks of threads, page tables, memory that malloc keeps, and memory that the kernel counts late.
constexpr std::int64_t kConstant = 4 * kMiB;
static_assert(kUnit > 8 * kMiB, "with smaller units, two blocks of a checkpoint would be held");
static_assert(kModel > kUnit + kConstant + 32 * kMiB, "the peak must show a model that is held whole");

// Returns false if the kernel does not let a process reset its peak.
bool restart_peak() {
  std::ofstream file("/proc/self/clear_refs");
  file << "5" << std::flush;
  return file.good();
}

struct Growth {
  std::int64_t peak = 0;  // while the body ran, beyond the memory before
  std::int64_t left = 0;  // after the body
};

template <typename Body>
Growth growth_of(Body body) {
  malloc_trim(0);  // free memory in the heap would hide growth
  const std::int64_t before = resident_bytes();
  EXPECT_TRUE(restart_peak());
  body();
  const std::int64_t peak = peak_resident_bytes() - before;
  malloc_trim(0);
  return {peak, resident_bytes() - before};
}

Mlp deferred_model() {
  return deferred([] { return Mlp(MlpOptions{.sizes = std::vector<std::int64_t>(kLayers + 1, kWidth)}); });
}

AttachOptions options() {
  return {.stage = 3, .optimizer = Sgd{.lr = 0.1}};
}

class LoadMemory : public testing::Test {
 protected:
  void SetUp() override {
    if (built::kSanitized) GTEST_SKIP() << "a sanitizer's shadow memory also grows";
    if (!restart_peak()) GTEST_SKIP() << "this kernel has no /proc/self/clear_refs";
    // Returns large blocks to the kernel when they are freed. By default, after the first large block was freed, malloc
    // keeps blocks of up to 32 MiB. The next engine would reuse them, and its growth would depend on earlier tests.
    mallopt(M_MMAP_THRESHOLD, kMiB);
  }
  TemporaryFolder folder_;
};

TEST_F(LoadMemory, ModelHeldWholeShows) {
  const Growth growth = growth_of([] {
    const std::vector<char> whole(static_cast<std::size_t>(kModel), '\1');
    EXPECT_EQ(whole.back(), '\1');
  });
  EXPECT_GT(growth.peak, kUnit + kConstant);
  EXPECT_LT(growth.left, kConstant);
}

TEST_F(LoadMemory, CheckpointTakesOneUnit) {
  run_ranks(1, [&](World& world) {
    Mlp model = deferred_model();
    Engine engine = attach(*model, world, options());
    engine.save(folder_ / "checkpoint");
    const Growth growth = growth_of([&] { engine.load(folder_ / "checkpoint"); });
    EXPECT_LE(growth.peak, kUnit + kConstant) << "plain SGD has no moments: all states existed before";
    engine.abandon();
  });
}

// An engine that awaits a load writes no initial values.
TEST_F(LoadMemory, AwaitingEngineBuildsNothing) {
  run_ranks(1, [&](World& world) {
    const auto attached = [&](bool awaits_load, const auto& then) {
      Mlp model = deferred_model();
      std::optional<Engine> engine;
      AttachOptions wanted = options();
      wanted.awaits_load = awaits_load;
      const Growth growth = growth_of([&] { engine.emplace(attach(*model, world, wanted)); });
      then(*engine);
      engine->abandon();
      return growth;
    };
    const Growth built = attached(false, [&](Engine& engine) { engine.save(folder_ / "checkpoint"); });
    const Growth empty = attached(true, [&](Engine& engine) {
      const Growth growth = growth_of([&] { engine.load(folder_ / "checkpoint"); });
      EXPECT_LE(growth.peak, kModel + kUnit + kConstant) << "the parameters, written for the first time";
    });
    EXPECT_LT(empty.peak, built.left - kModel / 2);
  });
}

TEST_F(LoadMemory, InitialWeightsTakeOneUnit) {
  const auto path = folder_ / "weights.safetensors";
  run_ranks(1, [&](World& world) {
    const auto attached = [&](bool from_file) {
      Mlp model = deferred_model();
      std::optional<Engine> engine;
      const Growth growth = growth_of([&] {
        std::optional<InitialWeights> weights;
        AttachOptions wanted = options();
        if (from_file) wanted.weights = weights.emplace(*model, path).source();
        engine.emplace(attach(*model, world, wanted));
      });
      if (!from_file) save_weights(*engine, *model, open_weights(*engine, *model, path));
      engine->abandon();
      return growth;
    };
    const Growth built = attached(false), read = attached(true);
    EXPECT_GT(built.left, kModel - kConstant) << "the states";
    EXPECT_LE(read.left, built.left + kConstant) << "the same states, and no other memory";
    EXPECT_LE(read.peak, read.left + kUnit + kConstant);
  });
}

// Runs last, because larger states that the process keeps would be reused by the other tests. With masters and moments
// on disk, a bf16 model takes only one unit.
TEST_F(LoadMemory, Bf16WithDiskStatesKeepsLimit) {
  for (const double on_disk : {0.0, 1.0}) {
    run_ranks(1, [&](World& world) {
      Mlp model = deferred_model();
      AttachOptions wanted{.stage = 3, .optimizer = AdamW{}, .dtype = DType::kBFloat16};
      wanted.offload = {.fractions = {.optimizer = {.disk = on_disk}}, .disk = {folder_.path().string()}};
      Engine engine = attach(*model, world, wanted);
      engine.save(folder_ / "checkpoint");
      engine.load(folder_ / "checkpoint");  // writes moments for the first time
      const Growth growth = growth_of([&] { engine.load(folder_ / "checkpoint"); });
      EXPECT_LE(growth.peak, kUnit + kConstant) << on_disk << " of the optimizer on disk";
      engine.abandon();
    });
  }
}

}  // namespace
}  // namespace zero
