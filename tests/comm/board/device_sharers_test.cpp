#include "zero/comm/board/device_sharers.h"

#include <array>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include <gtest/gtest.h>

#include "zero/comm/board/in_process.h"
#include "zero/device/host_device.h"

#include "tests/support/forwarded_device.h"

namespace zero {
namespace {

class NamedDevice final : public ForwardedDevice {
 public:
  explicit NamedDevice(std::string identity)
      : ForwardedDevice(HostDevice::instance()), identity_(std::move(identity)) {}
  std::string_view identity() const override { return identity_; }

 private:
  std::string identity_;
};

TEST(DeviceSharers, HaveTheSameDeviceIdentity) {
  constexpr std::array kDevices{
      "GPU a of machine m", "GPU b of machine m", "GPU a of machine m", "GPU a of machine n", "", ""};
  auto comms = make_in_process(static_cast<int>(kDevices.size()), std::chrono::seconds(20));
  std::vector<int> found(kDevices.size());
  std::vector<std::jthread> ranks;
  for (std::size_t rank = 0; rank < kDevices.size(); ++rank)
    ranks.emplace_back([&, rank] { found[rank] = num_sharers(NamedDevice(kDevices[rank]), *comms[rank], 6); });
  ranks.clear();
  EXPECT_EQ(found, (std::vector{2, 1, 2, 1, 6, 6})) << "only devices without a name have the given number";
}

}  // namespace
}  // namespace zero
