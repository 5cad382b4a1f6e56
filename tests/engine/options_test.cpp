#include "zero/engine/options.h"

#include <gtest/gtest.h>

#include "zero/engine/engine_seams.h"

namespace zero {
namespace {

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
