// If states may move to a disk, sums of gradients in fp32 (reduce_dtype) were counted as bf16. The disk's file was too
// small for them, and an engine with enough room was refused.
#include <chrono>

#include <gtest/gtest.h>

#include "tests/engine/scripted_run.h"
#include "tests/support/temporary_folder.h"

namespace zero {
namespace {

TEST(Fp32SumsOnDisk, HaveRoomIfStatesMove) {
  const TemporaryFolder folder;
  std::vector<ParamSpec> specs;
  for (const char* name : {"h.0.w", "h.1.w", "h.2.w"})
    specs.push_back({.name = name, .shape = {100, 99}, .dtype = DType::kBFloat16});
  AttachOptions options{.stage = 3, .reduce_dtype = DType::kFloat32};
  const ScriptedRun resident = scripted_run(2, specs, options, {.steps = 4});
  options.offload.disk = {folder.path().string()};
  options.offload.monitor = {.reserve_bytes = 1 << 20, .period = std::chrono::milliseconds(0)};
  const auto nothing_free = [] { return MemoryReading{.free_bytes = 0}; };  // all movable states leave the device
  const TierRates rates{.requests = {.disk = {.read = 1e9, .write = 1e9}}, .update_numel = 1e9};
  const ScriptedRun moved =
      scripted_run(2, specs, options,
                   {.steps = 4, .host = {.local_world = 2, .rates = rates, .seams = {.read_memory = nothing_free}}});
  EXPECT_EQ(moved, resident);
  const std::int64_t numel = 3 * 100 * 99 / 2;
  EXPECT_GE(moved.reports[0].memory.disk[MemoryTag::kGradient], 4 * numel);
}

}  // namespace
}  // namespace zero
