// DeviceSums: exact sums that kernels of a device make for an update, on their way to the host and back: sums over
// parameters (LAMB, Adafactor), and over rows and columns (Adafactor).
//
//   DeviceSums sums(device, ledger, 300, 300);
//   sums.begin(count);                                        // zeros on the device, behind kUpdate
//   rule.queue_sums(device, Lane::kUpdate, span, scalars, sums.at(0, 2));
//   sums.take(exact);                                         // the host waits for kUpdate, and adds them
//   const auto there = sums.send(rounded);                    // behind kUp; once after each take()
//
// Sums come down in kDown, behind kUpdate. By then the host has seen all that kUpdate read before: the doubles of the send()
// before, and the states and gradients of which the sums are. Memory is staging in the ledger, on the device and in pinned
// memory of the host, as long as it lives. Local.
#pragma once

#include <span>

#include "zero/base/numbers/exact_sum.h"
#include "zero/device/device.h"
#include "zero/memory/account/buffer.h"

namespace zero {

class DeviceSums {
 public:
  // `most`: sums at a time; `most_sent`: doubles at a time.
  DeviceSums(Device& device, Ledger& ledger, std::size_t most, std::size_t most_sent);

  void begin(std::size_t count);
  // Addresses on the device.
  std::span<SumLimbs> at(std::size_t first, std::size_t count) const;
  // Those begun are added to these, one to one.
  void take(std::span<ExactSum> sums);
  // They lie on the device behind kUp, until the next take().
  std::span<const double> send(std::span<const double> values);

 private:
  Device& device_;
  Buffer sums_, sums_down_, sent_, sent_up_;
  std::size_t count_ = 0;
};

}  // namespace zero
