// SGD without momentum at stages 0 and 1 has no states that may leave the device. With a disk, its engine was told that
// states may move. It made no disk tier for them, because they take no bytes, and ended with an internal error.
#include <chrono>

#include <gtest/gtest.h>

#include "tests/engine/scripted_run.h"
#include "tests/support/temporary_folder.h"

namespace zero {
namespace {

// At each stage.
TEST(RuleWithoutStates, TrainsBesideADisk) {
  const TemporaryFolder folder;
  const std::vector<ParamSpec> specs{{.name = "h.0.w", .shape = {100, 99}}, {.name = "h.1.w", .shape = {300}}};
  const ScriptedRun resident = scripted_run(2, specs, {.optimizer = Sgd{.lr = 1e-2}}, {});
  for (const int stage : {0, 1, 2, 3}) {
    AttachOptions options{.stage = stage, .optimizer = Sgd{.lr = 1e-2}};
    options.offload.disk = {folder.path().string()};
    options.offload.monitor = {.reserve_bytes = 1 << 20, .period = std::chrono::milliseconds(0)};
    const TierRates rates{.requests = {.disk = {.read = 1e9, .write = 1e9}}, .update_numel = 1e9};
    EXPECT_EQ(scripted_run(2, specs, options, {.host = {.local_world = 2, .rates = rates}}), resident)
        << "stage " << stage;
  }
}

}  // namespace
}  // namespace zero
