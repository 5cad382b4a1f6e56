// Offloading on a device with its own memory: checkpointed activations are on the host until the backward pass.
#include <gtest/gtest.h>

#include "tests/train/small_device.h"
#include "tests/train/small_run.h"

namespace zero {
namespace {

constexpr std::int64_t kPlenty = std::int64_t{1} << 40;
constexpr std::int64_t kLayers = 16;

class OffloadOnADevice : public SmallRunTest {
 protected:
  TrainJob job(std::optional<Tier> tier) {
    TrainJob job = text_job(2);
    job.model.layers = kLayers;
    job.model.width = 64;
    job.model.checkpoint_activations = true;
    job.train.batch = 128;
    job.device = "small";
    if (tier) job.model.activation_offload = {.tier = *tier, .disk = {folder_.path()}, .from_device = true};
    job.run_dir = folder_ / ("run" + std::to_string(num_runs_++));
    return job;
  }
  struct Ran {
    TrainResult result;
    std::int64_t most_of_torch = 0;
  };
  Ran run_on_device(const TrainJob& job) {
    SmallMemory memory(kPlenty);
    Ran ran;
    run_ranks(1, [&](World& ranks) {
      std::ostringstream out;
      const TrainSeams seams{.open_device = [&](std::string_view) -> std::unique_ptr<Device> {
        return std::make_unique<SmallDevice>(memory);
      }};
      ran.result = train(job, ranks, {.out = out, .style = {}}, seams);
    });
    ran.most_of_torch = memory.most_of_torch();
    return ran;
  }

 private:
  int num_runs_ = 0;
};

// The losses equal those of a run that keeps its activations. The device holds only the input in use.
TEST_F(OffloadOnADevice, KeepsLossesAndHoldsOneInput) {
  constexpr std::int64_t kInput = std::int64_t{128} * 16 * 64 * 4;  // a block's input: samples, tokens, width
  const Ran stay = run_on_device(job({}));
  for (const Tier tier : {Tier::kHost, Tier::kDisk}) {
    const Ran leave = run_on_device(job(tier));
    EXPECT_EQ(leave.result.report.steps.losses, stay.result.report.steps.losses) << name_of(tier);
    EXPECT_LE(leave.most_of_torch, stay.most_of_torch - (kLayers - 4) * kInput) << name_of(tier);
    const RankReport& rank = leave.result.report.ranks.at(0);
    const ActivationOffloadNeed need = activation_offload_need(*job(tier).model.activation_offload, kLayers, kInput);
    EXPECT_EQ(rank.peak_memory.device[MemoryTag::kStaging] -
                  stay.result.report.ranks.at(0).peak_memory.device[MemoryTag::kStaging],
              need.device)
        << name_of(tier);
    EXPECT_EQ(rank.activations_peak_bytes, kLayers * kInput);
  }
}

}  // namespace
}  // namespace zero
