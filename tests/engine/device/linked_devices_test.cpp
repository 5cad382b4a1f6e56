// Linked devices: engines whose devices exchange bytes without the host. They give the host's bits, without a race
// (RecordedDevice finds every race).
#include <cstdint>
#include <cstdlib>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "zero/base/error/error.h"
#include "zero/comm/transport/open_device_link.h"
#include "zero/device/open_device.h"

#include "tests/engine/scripted_run.h"
#include "tests/engine/thread_link.h"
#include "tests/support/device/recorded_device.h"
#include "tests/support/expect_contains.h"
#include "tests/support/tier.h"

namespace zero {
namespace {

ScriptedRun run_linked(int world, const std::vector<ParamSpec>& specs, const AttachOptions& options,
                       std::optional<std::uint64_t> late = {}) {
  std::vector<std::unique_ptr<RecordedDevice>> devices;
  for (int rank = 0; rank < world; ++rank)
    devices.push_back(std::make_unique<RecordedDevice>(RecordedDevice::Options{.late = late}));
  ThreadLink::Mail mail;
  ScriptedSteps steps{.steps = 3};
  steps.device = [&](int rank) { return devices[static_cast<std::size_t>(rank)].get(); };
  steps.host.open_link = [&](Communicator& units, Device&) -> std::unique_ptr<DeviceLink> {
    return std::make_unique<ThreadLink>(mail, units.rank(), units.world());
  };
  return scripted_run(world, specs, options, steps);
}

void expect_bits_and_bytes(int world, const std::vector<ParamSpec>& specs, const AttachOptions& options,
                           std::optional<std::uint64_t> late = {}) {
  AttachOptions ordered = options;
  ordered.sums = RankSums::kOrdered;
  const ScriptedRun linked = run_linked(world, specs, options, late), host = scripted_run(world, specs, ordered, {});
  EXPECT_EQ(linked, host) << options.stage;
  for (std::size_t rank = 0; rank < linked.reports.size(); ++rank) {
    EXPECT_EQ(linked.reports[rank].sent_bytes_per_step, host.reports[rank].sent_bytes_per_step) << options.stage;
  }
}

TEST(LinkedDevices, StagesMatchHostBitsAndBytes) {
  for (const int world : {1, 2, 3})
    for (const AttachOptions& options : at_all_stages({})) expect_bits_and_bytes(world, small_specs(), options);
}

TEST(LinkedDevices, LowPrecisionAndMicroBatchesMatch) {
  for (const DType dtype : {DType::kBFloat16, DType::kFloat16})
    for (const AttachOptions& options : at_all_stages({.accumulate = 2}))
      expect_bits_and_bytes(2, small_specs(dtype), options);
}

TEST(LinkedDevices, StatesOnTheHostHaveThem) {
  AttachOptions options{.stage = 3, .accumulate = 2};
  options.offload.fractions = {.parameter = {.host = 1}, .gradient = {.host = 1}, .optimizer = {.host = 0.5}};
  expect_bits_and_bytes(2, small_specs(DType::kBFloat16), options);
}

TEST(LinkedDevices, ShardsOfUnequalSizesHaveThem) {
  expect_bits_and_bytes(2, small_specs(), {.stage = 3, .shards = Cut::kWeighted, .shard_weights = {3, 1}});
  expect_bits_and_bytes(2, small_specs(), {.stage = 3, .shards = Cut::kHash});
}

TEST(LinkedDevices, DirectionsOfMuonsMatricesHaveThem) {
  for (const int world : {1, 2, 3})
    for (const AttachOptions& options : at_all_stages({.optimizer = MuonOptions{}, .accumulate = 2}))
      expect_bits_and_bytes(world, small_specs(DType::kBFloat16), options,
                            /*late=*/static_cast<std::uint64_t>(world));
  expect_bits_and_bytes(2, small_specs(), {.stage = 3, .shards = Cut::kWhole, .optimizer = MuonOptions{}});
  expect_bits_and_bytes(2, small_specs(),
                        {.stage = 3, .shards = Cut::kWeighted, .shard_weights = {3, 1}, .optimizer = MuonOptions{}});
}

// The devices run their work as late as possible.
TEST(LinkedDevices, LatestWorkMatches) {
  for (const AttachOptions& options : at_all_stages({.accumulate = 2}))
    for (std::uint64_t seed = 1; seed <= (in_full_tier() ? 4U : 2U); ++seed)
      expect_bits_and_bytes(2, small_specs(DType::kBFloat16), options, seed);
}

// This link also adds in rank order and rounds once.
TEST(LinkedDevices, LinkedSumsWorkLikeOrderedSums) {
  for (const int world : {1, 2, 3})
    for (const AttachOptions& options : at_all_stages({.accumulate = 2, .sums = RankSums::kLinked}))
      expect_bits_and_bytes(world, small_specs(), options);
  for (const DType dtype : {DType::kBFloat16, DType::kFloat16})
    for (const AttachOptions& options : at_all_stages({.sums = RankSums::kLinked}))
      expect_bits_and_bytes(2, small_specs(dtype), options, /*late=*/1);
  AttachOptions away{.stage = 3, .sums = RankSums::kLinked};
  away.offload.fractions = {.parameter = {.host = 1}, .gradient = {.host = 1}, .optimizer = {.host = 0.5}};
  expect_bits_and_bytes(2, small_specs(), away);
}

// One GPU holds one rank of NCCL. More ranks need more GPUs.
TEST(LinkedDevices, NcclOnOneGpuMatches) {
  const char* const name = std::getenv("ZERO_TEST_DEVICE");
  if (name == nullptr) GTEST_SKIP() << "ZERO_TEST_DEVICE=cuda tries NCCL on a GPU";
  const std::unique_ptr<Device> gpu = open_device(name);
  ScriptedSteps steps{.steps = 3};
  steps.device = [&gpu](int) { return gpu.get(); };
  steps.host.open_link = &open_device_link;
  for (const AttachOptions& options : at_all_stages({.accumulate = 2}))
    EXPECT_EQ(scripted_run(1, small_specs(DType::kBFloat16), options, steps),
              scripted_run(1, small_specs(DType::kBFloat16), options, {}))
        << options.stage;
}

TEST(LinkedDevices, RefusesMainMemoryAndCodedUnits) {
  ScriptedSteps steps;
  steps.host.open_link = [](Communicator&, Device&) -> std::unique_ptr<DeviceLink> {
    throw Error("the link was opened");
  };
  const auto refused = [](const auto& action) {
    try {
      action();
    } catch (const Error& error) {
      return std::string(error.what());
    }
    return std::string("nothing");
  };
  EXPECT_CONTAINS(refused([&] { scripted_run(2, small_specs(), {.stage = 3}, steps); }),
                  "comm.transport = nccl: it moves bytes between GPUs, and units here are in main memory");
  AttachOptions coded{.stage = 3};
  coded.wire.gather = WireCodec::kInt8;
  EXPECT_CONTAINS(refused([&] { run_linked(2, small_specs(), coded); }), "comm.gather_wire");
  const AttachOptions summed{.stage = 3, .sums = RankSums::kLinked};
  EXPECT_CONTAINS(refused([&] { scripted_run(2, small_specs(), summed, {}); }),
                  "zero.reduce = nccl: NCCL can sum only units that it moves between GPUs");
  AttachOptions hashed = summed;
  hashed.shards = Cut::kHash;
  EXPECT_CONTAINS(refused([&] { run_linked(2, small_specs(), hashed); }), "NCCL sums only equal blocks");
  const AttachOptions parts{.stage = 3, .secondary_group = 2};
  EXPECT_CONTAINS(refused([&] { run_linked(4, small_specs(), parts); }), "zero.secondary_group");
}

}  // namespace
}  // namespace zero
