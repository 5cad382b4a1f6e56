// Any bytes as a flight file and as a ring in memory. They give an IoError, or a record that is equal after it is
// written and read, and that can be compared.
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <string_view>

#include "zero/base/error/error.h"
#include "zero/base/process/allocation.h"
#include "zero/base/process/pages.h"
#include "zero/comm/flight/diagnosis.h"
#include "zero/comm/flight/file.h"
#include "zero/comm/flight/ring.h"

namespace {

void check(const zero::FlightRecord& record) {
  const std::string text = zero::flight_json(record);
  if (zero::flight_json(zero::parse_flight(text, "fuzz")) != text) std::abort();
  if (zero::diagnose({record}).summary.empty()) std::abort();
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace zero;
  try {
    check(parse_flight(std::string_view(reinterpret_cast<const char*>(data), size), "fuzz"));
  } catch (const IoError&) {
  }
  if (size == 0) return 0;
  const Allocation memory = map_private(size);
  std::memcpy(memory.data(), data, size);
  try {
    if (const auto record = read_ring(memory.bytes())) check(*record);
  } catch (const IoError&) {
  }
  return 0;
}
