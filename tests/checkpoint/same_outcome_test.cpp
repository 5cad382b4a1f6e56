#include "zero/checkpoint/same_outcome.h"

#include <gtest/gtest.h>

#include "zero/base/error.h"

#include "../engine/thread_ranks.h"

namespace zero {
namespace {

TEST(SameOutcome, WhereAllGoWellNothingIsThrown) {
  on_ranks(3, [](Communicator& comm) { require_same_outcome(comm, "p", [] {}); });
}

TEST(SameOutcome, OneRanksErrorIsToldByAllInItsWords) {
  const auto ends = ends_of_ranks(3, [](Communicator& comm) {
    require_same_outcome(comm, "p", [&] {
      if (comm.rank() == 1) throw IoError("file", "read", EIO);
    });
  });
  EXPECT_EQ(ends[1], "file: read: Input/output error");
  EXPECT_EQ(ends[0], "p: checkpoint: rank 1: file: read: Input/output error");
  EXPECT_EQ(ends[2], ends[0]);
}

TEST(SameOutcome, WhatAllFindAlikeStaysWhatItIs) {
  for (const auto& end : ends_of_ranks(2, [](Communicator& comm) {
         EXPECT_THROW(require_same_outcome(comm, "p", [] { throw ConfigError("k", "v", "r", ""); }), ConfigError);
       }))
    EXPECT_EQ(end, "");
}

}  // namespace
}  // namespace zero
