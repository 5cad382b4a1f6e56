// Micro-batches in the orders of pipelines: forward passes run ahead of earlier backward passes.
#include <algorithm>
#include <string>
#include <vector>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "tests/engine/scripted_run.h"

namespace zero {
namespace {

constexpr int kMicroBatches = 4;

// The forward pass of micro-batch m runs at most `ahead` micro-batches before its backward pass. 0 means one after the
// other, 1 is 1F1B with two pipeline stages, and kMicroBatches - 1 is GPipe.
std::vector<std::uint32_t> bits_after(const AttachOptions& options, DType dtype, int ahead) {
  std::vector<std::uint32_t> bits;
  on_ranks(2, [&](Communicator& comm) {
    ScriptedModel model(comm, small_specs(dtype), options);
    const std::vector<int> order = model.all_units();
    for (int step = 0; step < 3; ++step) {
      int begun = 0;
      for (int micro = 0; micro < kMicroBatches; ++micro) {
        while (begun <= std::min(micro + ahead, kMicroBatches - 1)) {
          if (ahead > 0) model.engine().begin_micro_batch(begun);
          model.forward(order);
          ++begun;
        }
        if (ahead > 0) model.engine().begin_micro_batch(micro);
        model.backward(order, step, micro);
      }
      model.engine().step(0.01);
    }
    const std::vector<std::uint32_t> own = model.weight_bits();
    if (comm.rank() == 0) bits = own;
  });
  return bits;
}

TEST(MicroBatchesOnAnyDevice, PipelineOrderKeepsBits) {
  for (const int stage : {0, 2, 3}) {
    for (const Reduce reduce : {Reduce::kEach, Reduce::kLast}) {
      for (const DType dtype : {DType::kFloat32, DType::kBFloat16}) {
        const AttachOptions options{.stage = stage, .reduce = reduce, .accumulate = kMicroBatches};
        const auto want = bits_after(options, dtype, 0);
        for (const int ahead : {1, kMicroBatches - 1})
          EXPECT_EQ(bits_after(options, dtype, ahead), want) << fmt::format(
              "stage {}, {} ahead, {}, reduce {}", stage, ahead, name_of(dtype), static_cast<int>(reduce));
      }
    }
  }
}

// The passes stay separate although both are under way at the same time.
TEST(MicroBatchesOnAnyDevice, ForwardIsSeparateFromBackward) {
  on_ranks(1, [](Communicator& comm) {
    ScriptedModel model(comm, small_specs(), {.stage = 3, .accumulate = 2});
    RankEngine& engine = model.engine();
    const std::vector<int> order = model.all_units(), later{order.begin() + 2, order.end()};
    for (int step = 0; step < 2; ++step) {
      engine.begin_micro_batch(0);
      model.forward(order);
      model.backward(later, step, 0);
      engine.begin_micro_batch(1);
      model.forward(order);
      engine.begin_micro_batch(0);
      model.backward({order[0], order[1]}, step, 0);
      engine.begin_micro_batch(1);
      model.backward(order, step, 1);
      engine.step(0.01);
    }
    int num_passes = 0;
    for (const ScheduleEntry& entry : engine.schedule().entries) {
      const Event& event = entry.event;
      num_passes += event.kind == EventKind::kEndBackward ? 1 : 0;
      if (event.kind == EventKind::kGradient) {
        EXPECT_EQ(event.micro_batch, num_passes);
      }
    }
    EXPECT_EQ(num_passes, 2);
    EXPECT_EQ(engine.report().trace_mismatches, 0);
  });
}

TEST(MicroBatchesOnAnyDevice, HaveNumbersBelowAccumulate) {
  on_ranks(1, [](Communicator& comm) {
    ScriptedModel model(comm, small_specs(), {.accumulate = 2});
    EXPECT_THROW(model.engine().begin_micro_batch(2), ConfigError);
    EXPECT_THROW(model.engine().begin_micro_batch(-1), ConfigError);
  });
}

}  // namespace
}  // namespace zero
