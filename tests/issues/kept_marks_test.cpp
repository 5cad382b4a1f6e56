// Timed marks of a device (on CUDA: events) are kept only until their times are read, also if the program never asks
// for seconds.
#include <algorithm>
#include <cstddef>
#include <memory>
#include <vector>

#include <gtest/gtest.h>

#include "zero/memory/account/ledger.h"
#include "zero/memory/activation_offload.h"

#include "tests/engine/scripted_run.h"
#include "tests/support/device/recorded_device.h"

namespace zero {
namespace {

// Counts the timed marks that somebody keeps.
class CountedMarks final : public RecordedDevice {
 public:
  Mark timed_mark(Lane lane) override {
    const auto mark = std::make_shared<const Mark>(RecordedDevice::mark(lane));
    made_.push_back(mark);
    return Mark(std::shared_ptr<const void>(mark, &mark->as<std::byte>()));
  }
  std::ptrdiff_t num_made() const { return std::ssize(made_); }
  std::ptrdiff_t num_kept() const {
    return std::ranges::count_if(made_, [](const auto& mark) { return !mark.expired(); });
  }

 private:
  std::vector<std::weak_ptr<const Mark>> made_;
};

TEST(KeptMarks, DoNotGrowWithSteps) {
  for (const OptimizerOptions& optimizer : std::vector<OptimizerOptions>{AdamWOptions{}, LambOptions{}}) {
    CountedMarks device;
    std::vector<std::ptrdiff_t> kept;
    scripted_run(1, small_specs(), {.stage = 3, .optimizer = optimizer},
                 {.steps = 16,
                  .before = [&](ScriptedModel&, int) { kept.push_back(device.num_kept()); },
                  .device = [&](int) { return &device; }});
    EXPECT_GT(device.num_made(), 16);
    EXPECT_LE(kept[15], kept[7]) << name_of(optimizer);
  }
}

TEST(KeptMarks, DoNotGrowWithActivations) {
  CountedMarks device;
  Ledger ledger;
  ActivationOffload offload({.tier = Tier::kHost, .from_device = true}, ledger);
  offload.come_from(device);
  {
    const Allocation activation = device.allocate(4096);
    std::vector<std::ptrdiff_t> kept;
    for (int step = 0; step < 8; ++step) {
      const ActivationOffload::Handle handle = offload.offload(activation.bytes());
      offload.bring(handle, activation.bytes());
      offload.forget(handle);
      join_all(device);
      kept.push_back(device.num_kept());
    }
    EXPECT_GT(device.num_made(), 8);
    EXPECT_LE(kept[7], kept[3]);
  }
}

}  // namespace
}  // namespace zero
