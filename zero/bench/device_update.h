// DeviceUpdate: an optimizer's update in the memory of a device, and a copy there that touches as many bytes, measured.
//
//   DeviceUpdate update(device, AdamWOptions{}, UpdatePass::kUpdate, /*numel=*/1 << 28);
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

// What is measured of a rule: its update; or, of a rule of matrices, one of its two passes over elements.
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
  Allocation from_, to_;  // of the copy
  int step_ = 1;
};

}  // namespace zero::cli
