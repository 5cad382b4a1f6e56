// A module on a device that the host cannot read: the ways of an engine with a GPU, over main memory.
#include <string_view>

#include <gtest/gtest.h>

#include "zero/base/error.h"
#include "zero/device/host_device.h"

#include "../expect_contains.h"
#include "../forwarded_device.h"
#include "../message_of.h"
#include "subjects.h"

namespace zero {
namespace {

using tests::all_stages;
using tests::RunResult;
using tests::same_bits;
using tests::tied_net;
using tests::train;

// Operators read it, since it is main memory. The engine is told that the host cannot, and stages what it reads.
class FarMemory final : public ForwardedDevice {
 public:
  explicit FarMemory(std::string_view name = "far") : ForwardedDevice(HostDevice::instance()), name_(name) {}
  std::string_view name() const override { return name_; }
  bool host_readable() const override { return false; }

 private:
  std::string_view name_;
};

TEST(ModuleOnADevice, TrainsWithTheBitsOfTheHost) {
  FarMemory far;
  for (const DType dtype : {DType::kFloat32, DType::kBFloat16}) {
    const AttachOptions options{.optimizer = AdamW{.lr = 1e-2}, .clip = 0.5, .accumulate = 2, .dtype = dtype};
    for (const AttachOptions& stage : all_stages(options)) {
      const RunResult here = train(2, 3, stage, tied_net), there = train(2, 3, stage, tied_net, 1e-2, {.device = &far});
      EXPECT_EQ(here.loss_bits, there.loss_bits) << tests::placement_of(stage);
      EXPECT_EQ(here.grad_norms, there.grad_norms) << tests::placement_of(stage);
      EXPECT_TRUE(same_bits(here.parameters, there.parameters)) << tests::placement_of(stage);
      EXPECT_TRUE(same_bits(here.given_back, there.given_back)) << tests::placement_of(stage);
    }
  }
}

TEST(ModuleOnADevice, AModuleThatLiesElsewhereIsRefusedByName) {
  FarMemory gpu("cuda:0");
  EXPECT_CONTAINS(message_of<ConfigError>([&] { train(1, 1, {}, tied_net, 1e-2, {.device = &gpu}); }),
                  "it lies on cpu, and is to be trained on cuda:0");
}

}  // namespace
}  // namespace zero
