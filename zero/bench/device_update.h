// DeviceUpdate: an optimizer's update in the memory of a device, and a copy there that touches as many bytes, measured.
//
//   DeviceUpdate update(device, AdamWOptions{}, /*numel=*/1 << 28);
//   update.run();  update.copy();                       // each returns when the device is done
//   update.touched_bytes()                              // of either
//
// Local. Throws ConfigError for a rule that a device does not have, and where its memory is short.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "zero/device/device.h"
#include "zero/optim/rule_registry.h"

namespace zero::cli {

class DeviceUpdate {
 public:
  DeviceUpdate(Device& device, const OptimizerOptions& options, std::int64_t numel);

  void run();
  void copy();
  std::int64_t touched_bytes() const { return touched_bytes_; }

 private:
  Device& device_;
  std::unique_ptr<UpdateRule> rule_;
  std::vector<Allocation> memory_;
  UpdateSpan span_;
  std::int64_t touched_bytes_ = 0;
  Allocation from_, to_;  // of the copy
  int step_ = 1;
};

}  // namespace zero::cli
