#include "zero/memory/disk/traffic.h"

#include <functional>

namespace zero {
namespace {

template <typename Combine>
DiskTraffic combined(const DiskTraffic& a, const DiskTraffic& b, Combine combine) {
  return {.read_bytes = combine(a.read_bytes, b.read_bytes),
          .written_bytes = combine(a.written_bytes, b.written_bytes),
          .waited_seconds = combine(a.waited_seconds, b.waited_seconds),
          .busy_seconds = combine(a.busy_seconds, b.busy_seconds)};
}

template <typename Combine>
LinkTraffic combined(const LinkTraffic& a, const LinkTraffic& b, Combine combine) {
  return {.up_bytes = combine(a.up_bytes, b.up_bytes),
          .down_bytes = combine(a.down_bytes, b.down_bytes),
          .busy_seconds = combine(a.busy_seconds, b.busy_seconds),
          .waited_seconds = combine(a.waited_seconds, b.waited_seconds),
          .up_busy_seconds = combine(a.up_busy_seconds, b.up_busy_seconds),
          .up_waited_seconds = combine(a.up_waited_seconds, b.up_waited_seconds)};
}

}  // namespace

DiskTraffic operator+(const DiskTraffic& a, const DiskTraffic& b) {
  return combined(a, b, std::plus());
}
DiskTraffic operator-(const DiskTraffic& a, const DiskTraffic& b) {
  return combined(a, b, std::minus());
}

LinkTraffic operator+(const LinkTraffic& a, const LinkTraffic& b) {
  return combined(a, b, std::plus());
}
LinkTraffic operator-(const LinkTraffic& a, const LinkTraffic& b) {
  return combined(a, b, std::minus());
}

}  // namespace zero
