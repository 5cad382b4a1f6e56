// DeviceUpdate: an optimizer's update in a device's memory, and a copy there that touches as many bytes.
//
//   DeviceUpdate update(device, AdamWOptions{}, UpdatePass::kUpdate, /*numel=*/1 << 28);
//   update.run();  update.copy();                       // each returns when the device is done
//   update.touched_bytes()                              // of run(), and also of copy()
//
// Local. Throws ConfigError for a rule that devices do not implement, and if the device's memory is short.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "zero/device/device.h"
#include "zero/optim/rule_registry.h"

namespace zero::cli {

// The measured pass of a rule: its whole update, or one of the two passes of a matrix rule over elements.
enum class UpdatePass : std::uint8_t { kUpdate, kDirection, kStep };

class DeviceUpdate {
 public:
  DeviceUpdate(Device& device, const OptimizerOptions& options, UpdatePass pass, std::int64_t numel);

  void run();
  void copy();
  std::int64_t touched_bytes() const { return touched_bytes_; }

 private:
  Device& device_;
  std::unique_ptr<UpdateRule> rule_;
  UpdatePass pass_;
  std::vector<Allocation> memory_;
  UpdateSpan span_;
  std::int64_t touched_bytes_ = 0;
  Allocation from_, to_;  // source and target of copy()
  int step_ = 1;
};

}  // namespace zero::cli
