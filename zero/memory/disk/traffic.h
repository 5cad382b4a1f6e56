// DiskTraffic, LinkTraffic: bytes and seconds of transfers to and from a disk, and over a link. Values only.
#pragma once

#include <cstdint>

namespace zero {

struct DiskTraffic {
  std::int64_t read_bytes = 0;
  std::int64_t written_bytes = 0;
  double waited_seconds = 0;  // time in Transfer::wait(), and waiting for room in the queue
  // While at least one request was under way: from its submission until its answer was taken, which may be later than
  // the disk's answer.
  double busy_seconds = 0;
};
DiskTraffic operator+(const DiskTraffic& a, const DiskTraffic& b);
DiskTraffic operator-(const DiskTraffic& a, const DiskTraffic& b);

struct LinkTraffic {
  std::int64_t up_bytes = 0;    // host to device
  std::int64_t down_bytes = 0;  // device to host
  double busy_seconds = 0;      // time of the transfers, both directions added
  double waited_seconds = 0;    // the exposed part: not hidden by computation
  // The same for transfers to the device only.
  double up_busy_seconds = 0;
  double up_waited_seconds = 0;
  double down_busy_seconds() const { return busy_seconds - up_busy_seconds; }
  double down_waited_seconds() const { return waited_seconds - up_waited_seconds; }
};
LinkTraffic operator+(const LinkTraffic& a, const LinkTraffic& b);
LinkTraffic operator-(const LinkTraffic& a, const LinkTraffic& b);

}  // namespace zero
