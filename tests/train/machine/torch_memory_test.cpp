#include "app/train/machine/torch_memory.h"

#include <gtest/gtest.h>

#include "zero/comm/transport/world.h"

#include "tests/support/temporary_folder.h"

namespace zero {
namespace {

class TorchMemoryTest : public testing::Test {
 protected:
  LearnedActivations learned() const { return {"a", folder_.path() / "activations.json"}; }
  TorchMemory memory(std::int64_t held, std::optional<LearnedActivations> learned) const {
    return {c10::Device(c10::DeviceType::CPU), [held] { return held; }, std::move(learned)};
  }
  TemporaryFolder folder_;
  World world_ = std::move(World::in_process(1).front());
};

TEST_F(TorchMemoryTest, NextRunExpectsHeldBytes) {
  memory(700, learned()).learn(world_.communicator());
  EXPECT_EQ(memory(0, learned()).expected(), 700);
}

TEST_F(TorchMemoryTest, FullDeviceLeavesMoreNextTime) {
  EXPECT_EQ(memory(600, learned()).learn_from_full({.torch = 600, .asked = 100, .held = 9000}), 900);
  EXPECT_EQ(memory(0, learned()).expected(), 900);
}

TEST_F(TorchMemoryTest, LearnsNothingWithoutBudget) {
  TorchMemory given = memory(600, std::nullopt);
  given.learn(world_.communicator());
  EXPECT_EQ(given.learn_from_full({.torch = 600, .asked = 100, .held = 9000}), 0);
  EXPECT_EQ(given.expected(), 0);
  EXPECT_EQ(memory(0, learned()).expected(), 0);
}

}  // namespace
}  // namespace zero
