#include "zero/comm/signature.h"

#include <gtest/gtest.h>

#include "tests/support/expect_contains.h"

namespace zero {
namespace {

TEST(Signature, IsDescribedWithWhatItHas) {
  EXPECT_EQ(describe(Signature{}), "nothing");
  EXPECT_EQ(describe(Signature{.sequence = 17, .operation = Operation::kAllGather, .unit = 3, .bytes = 4096}),
            "all_gather #17 (unit 3, 4096 bytes)");
  EXPECT_EQ(describe(Signature{.sequence = 2, .operation = Operation::kBarrier}), "barrier #2");
  EXPECT_EQ(describe(Signature{.sequence = 2, .operation = Operation::kBroadcast, .bytes = 8, .root = 1}),
            "broadcast #2 (from rank 1, 8 bytes)");
}

TEST(Signature, BothSidesPrintTheSameLine) {
  const Signature a{.sequence = 1, .operation = Operation::kAllToAll, .bytes = 8};
  const Signature b{.sequence = 1, .operation = Operation::kReduceScatter, .bytes = 8};
  EXPECT_EQ(describe_mismatch(0, a, 3, b), describe_mismatch(3, b, 0, a));
  EXPECT_CONTAINS(describe_mismatch(3, b, 0, a),
                  "ranks disagree: rank 0 does all_to_all #1 (8 bytes), rank 3 does reduce_scatter #1 (8 bytes)\n"
                  "  every rank must take as many steps, saves and exports");
}

TEST(Signature, IsNumberedByKind) {
  EXPECT_EQ(describe_number({.sequence = 3, .operation = Operation::kBarrier}), "collective #3");
  EXPECT_EQ(describe_number({.sequence = 4, .operation = Operation::kSend}), "message #4");
}

TEST(Signature, EveryFieldCounts) {
  const Signature base{.sequence = 1, .operation = Operation::kBroadcast, .unit = 2, .bytes = 3, .root = 0};
  for (int field = 0; field < 5; ++field) {
    Signature other = base;
    if (field == 0) other.sequence = 2;
    if (field == 1) other.operation = Operation::kBarrier;
    if (field == 2) other.unit = 3;
    if (field == 3) other.bytes = 4;
    if (field == 4) other.root = 1;
    EXPECT_FALSE(other == base) << field;
  }
}

}  // namespace
}  // namespace zero
