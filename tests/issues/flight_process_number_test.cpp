// A process number above 2^62 in a damaged flight ring was accepted, and made a file that its own reader refuses. One
// wrong word thus lost the record of the failed rank.
#include <array>
#include <cstring>
#include <limits>
#include <string>

#include <gtest/gtest.h>

#include "zero/base/error/error.h"
#include "zero/base/process/pages.h"
#include "zero/comm/flight/file.h"
#include "zero/comm/flight/ring.h"

namespace zero {
namespace {

constexpr std::array<std::uint64_t, 5> kExtremes{(std::uint64_t{1} << 62) + 1, (std::uint64_t{1} << 63) - 1,
                                                 std::uint64_t{1} << 63, std::numeric_limits<std::uint64_t>::max(), 0};

// Expects that the ring is refused, or that its record can be read back from its own file.
void expect_refused_or_whole(const Allocation& memory, const std::string& about) {
  try {
    if (const auto record = read_ring(memory.bytes())) parse_flight(flight_json(*record), "its file");
  } catch (const IoError& error) {
    EXPECT_TRUE(std::string(error.what()).starts_with("flight ring")) << about << ": " << error.what();
  }
}

TEST(FlightProcessNumber, ExtremeWordsKeepFilesReadable) {
  const std::size_t kBytes = FlightRing::bytes(2);
  const Allocation memory = map_private(kBytes);
  FlightRing ring(memory.bytes(), {.rank = 1, .world = 4, .run = "run", .host = "host", .process = 7});
  for (int unit = 0; unit < 2; ++unit) ring.end(ring.begin({.operation = FlightOperation::kAllGather, .unit = unit}));
  for (std::size_t at = 0; at < kBytes; at += sizeof(std::uint64_t)) {
    std::uint64_t before = 0;
    std::memcpy(&before, memory.data() + at, sizeof(before));
    for (const std::uint64_t word : kExtremes) {
      std::memcpy(memory.data() + at, &word, sizeof(word));
      expect_refused_or_whole(memory, std::to_string(word) + " at byte " + std::to_string(at));
    }
    std::memcpy(memory.data() + at, &before, sizeof(before));
  }
}

}  // namespace
}  // namespace zero
