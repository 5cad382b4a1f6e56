#include "zero/base/numbers/memory_budget.h"

#include <gtest/gtest.h>

#include "zero/base/error/error.h"

namespace zero {
namespace {

TEST(MemoryBudget, IsAWordOrASize) {
  EXPECT_EQ(MemoryBudget::parse("auto"), MemoryBudget{});
  EXPECT_EQ(MemoryBudget::parse("min"), (MemoryBudget{.kind = MemoryBudget::Kind::kMin}));
  EXPECT_EQ(MemoryBudget::parse("64MiB"), (MemoryBudget{.kind = MemoryBudget::Kind::kBytes, .bytes = 64 << 20}));
}

TEST(MemoryBudget, RefusesOtherTextsByKey) {
  for (const char* text : {"", "max", "AUTO", "64 elephants", "-1MiB"}) {
    try {
      MemoryBudget::parse(text, "zero.host_memory");
      ADD_FAILURE() << "accepted " << text;
    } catch (const ConfigError& error) {
      EXPECT_EQ(error.key(), "zero.host_memory") << text;
    }
  }
}

}  // namespace
}  // namespace zero
