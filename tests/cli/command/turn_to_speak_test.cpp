#include "app/cli/command/turn_to_speak.h"

#include <gtest/gtest.h>

#include "zero/base/error/error.h"
#include "zero/checkpoint/image/same_outcome.h"

namespace zero::cli {
namespace {

// The wait of a rank before it prints, in a world of four ranks on one host.
long wait_of(int rank, const std::exception& error, const std::string& source = "Open MPI") {
  return wait_before_words(error, {.rank = rank, .world = 4, .local_rank = rank, .local_world = 4, .source = source})
      .count();
}

// The first rank of a host prints at once, the other ranks later.
TEST(TurnToSpeak, OneRankPrintsCommonErrors) {
  const ConfigError refused("zero.device_memory", "1 KiB", "too small", "");
  EXPECT_EQ(wait_of(0, refused), 0);
  EXPECT_GT(wait_of(1, refused), 1) << "mpirun takes a second to end the other ranks";
  const SharedIoError damaged("runs/x/checkpoints", "no checkpoint can be read", 0);
  EXPECT_EQ(wait_of(0, damaged), 0);
  EXPECT_GT(wait_of(1, damaged), 1);
  EXPECT_EQ(wait_before_words(refused, {.rank = 4, .world = 8, .local_rank = 0, .local_world = 4, .source = "Slurm"}),
            std::chrono::seconds(0))
      << "the first rank of another host";
}

// If several ranks miss a failed rank, only one of them prints at once.
TEST(TurnToSpeak, OwnErrorsAreReportedAtOnce) {
  const Error own("rank 2: index out of range");
  const IoError of_a_disk("/disk", "write", 5);
  const CommError left(2, "all_gather", "it left");
  EXPECT_EQ(wait_of(2, own), 0);
  EXPECT_EQ(wait_of(2, of_a_disk), 0) << "other ranks may not have this error";
  EXPECT_EQ(wait_of(0, left), 0) << "mpirun soon ends this rank if the other was killed";
  EXPECT_GT(wait_of(1, left), wait_of(0, left)) << "only one witness reports a killed rank";
}

TEST(TurnToSpeak, RankOneReportsForMissingZero) {
  const CommError left(0, "all_gather", "it left");
  EXPECT_LT(wait_of(1, left), wait_of(2, left));
}

// A single rank does not wait either.
TEST(TurnToSpeak, NobodyWaitsUnderOurLauncher) {
  const ConfigError refused("a", "", "b", "");
  EXPECT_EQ(wait_of(3, refused, "zero launch"), 0);
  EXPECT_EQ(wait_before_words(refused, {}), std::chrono::seconds(0));
}

}  // namespace
}  // namespace zero::cli
