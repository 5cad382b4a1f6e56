#include "zero/checkpoint/image/same_outcome.h"

#include <new>

#include <gtest/gtest.h>

#include "zero/base/error/error.h"

#include "tests/engine/thread_ranks.h"

namespace zero {
namespace {

TEST(SameOutcome, AllWellThrowsNothing) {
  on_ranks(3, [](Communicator& comm) { require_same_outcome(comm, "p", [] {}); });
}

TEST(SameOutcome, OneErrorIsReportedByAll) {
  const auto ends = ends_of_ranks(3, [](Communicator& comm) {
    require_same_outcome(comm, "p", [&] {
      if (comm.rank() == 1) throw IoError("file", "read", EIO);
    });
  });
  EXPECT_EQ(ends[1], "file: read: Input/output error");
  EXPECT_EQ(ends[0], "p: checkpoint: rank 1: file: read: Input/output error");
  EXPECT_EQ(ends[2], ends[0]);
}

TEST(SameOutcome, CommonErrorStaysAsItIs) {
  for (const auto& end : ends_of_ranks(2, [](Communicator& comm) {
         EXPECT_THROW(require_same_outcome(comm, "p", [] { throw ConfigError("k", "v", "r", ""); }), ConfigError);
       }))
    EXPECT_EQ(end, "");
}

TEST(SameFailure, IoErrorOnEveryRank) {
  on_ranks(3, [](Communicator& comm) {
    require_same_failure(comm, "p", [] {});
    const auto refused = [&](const auto& error) {
      EXPECT_THROW(require_same_failure(comm, "p",
                                        [&] {
                                          if (comm.rank() == 1) throw error;
                                        }),
                   IoError);
    };
    refused(IoError("file", "read", EIO));
    refused(ConfigError("k", "v", "r", ""));
    refused(std::bad_alloc());
  });
}

TEST(SameFailure, BugStaysWithItsRank) {
  const auto ends = ends_of_ranks(2, [](Communicator& comm) {
    const auto body = [&] {
      if (comm.rank() == 1) throw InternalError("a bug");
    };
    if (comm.rank() == 1) {
      EXPECT_THROW(require_same_failure(comm, "p", body), InternalError);
    } else {
      require_same_failure(comm, "p", body);
    }
  });
  EXPECT_EQ(ends[0], "p: checkpoint: rank 1: a bug");
  EXPECT_EQ(ends[1], "");
}

}  // namespace
}  // namespace zero
