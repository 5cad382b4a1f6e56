#include "zero/engine/options.h"

#include <gtest/gtest.h>

#include "zero/base/error.h"

namespace zero {
namespace {

TEST(Options, DeviceMemoryIsAWordOrASize) {
  EXPECT_EQ(DeviceMemory::parse("auto").kind, DeviceMemory::Kind::kAuto);
  EXPECT_EQ(DeviceMemory::parse("min").kind, DeviceMemory::Kind::kMin);
  const DeviceMemory sized = DeviceMemory::parse("64MiB");
  EXPECT_EQ(sized.kind, DeviceMemory::Kind::kBytes);
  EXPECT_EQ(sized.bytes, 64 << 20);
}

TEST(Options, AnythingElseIsRefusedUnderItsKey) {
  for (const char* text : {"", "max", "AUTO", "64 elephants", "-1MiB"}) {
    try {
      DeviceMemory::parse(text);
      ADD_FAILURE() << "accepted " << text;
    } catch (const ConfigError& error) {
      EXPECT_EQ(error.key(), "zero.device_memory") << text;
    }
  }
}

}  // namespace
}  // namespace zero
