// A run in leaves that changes its world at every checkpoint ends with the bits of a run that never does.
#include <vector>

#include <gtest/gtest.h>

#include "tests/checkpoint/saved_model.h"
#include "tests/engine/leaf_steps.h"

namespace zero {
namespace {

AttachOptions leaf_options(int stage) {
  return {.stage = stage, .clip = 0.5, .leaves = 8};
}

// Trains steps [from, to) in leaves, from `start` unless it is empty, and saves them.
std::vector<double> train_part(int world, int stage, DType dtype, int from, int to, const std::filesystem::path& start,
                               const std::filesystem::path& end) {
  std::vector<double> values;
  on_ranks(world, [&](Communicator& comm) {
    ScriptedModel model(comm, small_specs(dtype), leaf_options(stage));
    if (!start.empty()) load_checkpoint(model.engine(), start);
    for (const StepReport& report : train_in_leaves(model, comm, leaf_options(stage), from, to)) {
      if (comm.rank() != 0) continue;
      values.push_back(report.loss);
      values.push_back(report.grad_norm);
    }
    save_now(model.engine(), end);
  });
  return values;
}

TEST(LeavesOverCheckpoints, WorldsInTurnKeepBits) {
  for (const DType dtype : {DType::kFloat32, DType::kBFloat16}) {
    const TemporaryFolder folder;
    const std::vector<double> whole = train_part(2, 3, dtype, 0, 10, {}, folder / "whole");
    std::vector<double> parts;
    std::filesystem::path before;
    int from = 0, stage = 0;
    for (const int world : {4, 2, 3, 8, 1}) {
      const std::filesystem::path path = folder / ("part" + std::to_string(from));
      for (const double value : train_part(world, stage++ % 4, dtype, from, from + 2, before, path))
        parts.push_back(value);
      before = path;
      from += 2;
    }
    EXPECT_EQ(parts, whole);
    EXPECT_EQ(elements(before), elements(folder / "whole"));
  }
}

}  // namespace
}  // namespace zero
