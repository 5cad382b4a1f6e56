#include "app/train/machine/activation_offload_meter.h"

#include <gtest/gtest.h>

#include <torch/torch.h>

#include "zero/memory/activation_offload.h"
#include "zero/memory/disk/disk_places.h"

#include "tests/support/temporary_folder.h"

namespace zero {
namespace {

constexpr std::int64_t kBytes = 1024 * sizeof(float);  // of one activation: a page

// Runs forward and backward with as many checkpoints as fill the blocks twice.
void run_step(ActivationStore& store) {
  torch::Tensor x = torch::ones({1024}).requires_grad_() * 1;
  for (std::size_t i = 0; i < 2 * ActivationOffload::kBlocks; ++i)
    x = checkpoint([](const std::vector<torch::Tensor>& in) { return in[0].sin(); }, {x}, store.checkpoint_options());
  x.sum().backward();
}

TEST(ActivationOffloadMeter, AddsNothingWhereNothingIsParked) {
  ActivationOffloadMeter meter(nullptr);
  meter.end_step();
  RankReport rank;
  meter.add_to(rank);
  EXPECT_EQ(meter.link().up_bytes, 0);
  EXPECT_EQ(rank.activations_peak_bytes, 0);
  EXPECT_EQ(rank.memory.host, MemoryCount{});
}

TEST(ActivationOffloadMeter, CountsTheLastStepsDiskTraffic) {
  const TemporaryFolder folder;
  ActivationStore store({.tier = Tier::kDisk, .disk = {folder.path()}});
  ActivationOffloadMeter meter(&store);
  for (int step = 0; step < 3; ++step) {
    run_step(store);
    meter.end_step();
  }
  RankReport rank;
  meter.add_to(rank);
  constexpr auto kBlocks = static_cast<std::int64_t>(ActivationOffload::kBlocks);
  EXPECT_EQ(rank.activations_peak_bytes, 2 * kBlocks * kBytes);
  EXPECT_EQ(meter.disk().written_bytes, rank.activations_disk_per_step.written_bytes);
  EXPECT_EQ(rank.activations_disk_per_step.written_bytes, 2 * kBlocks * kBytes);
  EXPECT_EQ(rank.activations_disk_per_step.read_bytes, kBlocks * kBytes) << "the newest were still in memory";
  EXPECT_EQ(rank.memory.disk[MemoryTag::kActivation], DiskPlaces::kSlabBytes);
  EXPECT_EQ(rank.peak_memory.host[MemoryTag::kStaging], kBlocks * kBytes);
}

TEST(ActivationOffloadMeter, AddsToWhatTheEngineHolds) {
  ActivationStore store({.tier = Tier::kHost, .link_bytes_per_second = 50e9});
  ActivationOffloadMeter meter(&store);
  run_step(store);
  meter.end_step();
  run_step(store);
  meter.end_step();
  RankReport rank;
  rank.memory.host[MemoryTag::kMoment] = 100;
  meter.add_to(rank);
  const std::int64_t offloaded = 2 * static_cast<std::int64_t>(ActivationOffload::kBlocks) * kBytes;
  EXPECT_EQ(rank.memory.host[MemoryTag::kMoment], 100);
  EXPECT_EQ(rank.memory.host[MemoryTag::kActivation], offloaded);
  EXPECT_EQ(rank.peak_memory.host[MemoryTag::kActivation], offloaded);
  EXPECT_EQ(meter.link().down_bytes, offloaded);
  EXPECT_EQ(meter.link().up_bytes, offloaded);
  EXPECT_GT(meter.link().busy_seconds, 0);
  EXPECT_EQ(rank.peak_memory_total.device, rank.peak_memory.device[MemoryTag::kStaging])
      << "the inputs that were read ahead";
  EXPECT_GT(rank.peak_memory_total.device, 0);
}

}  // namespace
}  // namespace zero
