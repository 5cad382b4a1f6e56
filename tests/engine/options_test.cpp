#include "zero/engine/options.h"

#include <gtest/gtest.h>

#include "zero/base/error.h"
#include "zero/engine/engine_seams.h"

namespace zero {
namespace {

TEST(Options, DeviceMemoryIsAWordOrASize) {
  EXPECT_EQ(TierMemory::parse("auto").kind, TierMemory::Kind::kAuto);
  EXPECT_EQ(TierMemory::parse("min").kind, TierMemory::Kind::kMin);
  const TierMemory sized = TierMemory::parse("64MiB");
  EXPECT_EQ(sized.kind, TierMemory::Kind::kBytes);
  EXPECT_EQ(sized.bytes, 64 << 20);
}

TEST(Options, AnythingElseIsRefusedUnderItsKey) {
  for (const char* text : {"", "max", "AUTO", "64 elephants", "-1MiB"}) {
    try {
      TierMemory::parse(text);
      ADD_FAILURE() << "accepted " << text;
    } catch (const ConfigError& error) {
      EXPECT_EQ(error.key(), "zero.device_memory") << text;
    }
  }
}

TEST(EngineSeams, OfACopyOfOptionsAreItsOwn) {
  OffloadOptions options;
  EXPECT_EQ(seams_of(options).rates.disk_read, 0) << "none were given";
  change_seams(options).rates.disk_read = 1;
  OffloadOptions copy = options;
  change_seams(copy).rates.disk_read = 2;
  change_seams(copy).probes = true;
  EXPECT_EQ(seams_of(options).rates.disk_read, 1);
  EXPECT_EQ(seams_of(copy).rates.disk_read, 2) << "and a second change keeps the first";
}

}  // namespace
}  // namespace zero
