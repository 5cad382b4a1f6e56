#include "zero/engine/options.h"

#include <gtest/gtest.h>

#include "zero/base/error.h"

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

}  // namespace
}  // namespace zero
