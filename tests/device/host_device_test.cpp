#include "zero/device/host_device.h"

#include <algorithm>
#include <cstdint>
#include <vector>

#include <gtest/gtest.h>

namespace zero {
namespace {

TEST(HostDevice, FunctionsReturnFinishedWork) {
  HostDevice& device = HostDevice::instance();
  std::vector<std::byte> from(100, std::byte{7}), to(100);
  device.copy(Lane::kUp, to, from);
  EXPECT_EQ(to, from);
  device.fill(Lane::kCompute, to, std::byte{1});
  EXPECT_EQ(std::ranges::count(to, std::byte{1}), 100);
  const Mark mark = device.mark(Lane::kCompute);
  EXPECT_TRUE(mark.empty());
  EXPECT_TRUE(device.done(mark));
}

TEST(HostDevice, GivesZeroedMemory) {
  const Allocation memory = HostDevice::instance().allocate(5000);
  ASSERT_EQ(memory.size(), 5000U);
  EXPECT_EQ(reinterpret_cast<std::uintptr_t>(memory.data()) % 256, 0U);
  EXPECT_EQ(std::ranges::count(memory.bytes(), std::byte{0}), 5000);
  EXPECT_FALSE(HostDevice::instance().allocate(0));
}

}  // namespace
}  // namespace zero
