// DeviceSums: exact sums that a device's kernels compute for an update, and their transfer to the host and back.
//
//   DeviceSums sums(device, ledger, 300, 300);
//   sums.begin(count);                                        // zeros on the device, after kUpdate
//   rule.queue_sums(device, Lane::kUpdate, span, scalars, sums.at(0, 2));
//   sums.take(exact);                                         // the host waits for kUpdate, and adds them
//   const auto there = sums.send(rounded);                    // ready after kUp; once after each take()
//
// They are sums over parameters (LAMB, Adafactor), and over rows and columns (Adafactor). They are copied down in
// kDown, after kUpdate. When take() returns, kUpdate has finished all work before it. So the doubles of the previous
// send(), and the states and gradients that were summed, may change. Memory on the device and pinned memory of the host
// are staging in the ledger while the object lives. Local.
#pragma once

#include <span>
#include <vector>

#include "zero/base/numbers/exact_sum.h"
#include "zero/comm/communicator.h"
#include "zero/device/device.h"
#include "zero/memory/account/buffer.h"

namespace zero {

class DeviceSums {
 public:
  // `most`: most sums at a time; `most_sent`: most doubles at a time.
  DeviceSums(Device& device, Ledger& ledger, std::size_t most, std::size_t most_sent);

  void begin(std::size_t count);
  // Returns addresses on the device.
  std::span<SumLimbs> at(std::size_t first, std::size_t count) const;
  // Adds the begun sums to `sums`, one to one.
  void take(std::span<ExactSum> sums);
  // Copies `values` to the device. They are ready after kUp, and valid until the next take().
  std::span<const double> send(std::span<const double> values);

 private:
  Device& device_;
  Buffer sums_, sums_down_, sent_, sent_up_;
  std::size_t count_ = 0;
};

// sums_over_ranks(): sums values over whole parameters, of which each rank holds a part.
//
//   std::vector<double> sums = sums_over_ranks(comm, mine);      // element by element; the same on every rank
//
// Some rules need these sums before they update. Sums are exact until they are rounded, so neither the number of ranks
// nor the bounds of their shards change a bit. Collective.
std::vector<double> sums_over_ranks(Communicator& comm, std::span<const ExactSum> mine);

}  // namespace zero
