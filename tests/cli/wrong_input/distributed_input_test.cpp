// Keys of distributed training that contradict each other or the number of ranks. Each is refused by name, with status
// 2 and a remedy, before anything starts or is written. served_test.cpp has more refusals of servers.
#include <filesystem>
#include <string>

#include "tests/cli/training_test.h"
#include "tests/support/expect_contains.h"

namespace zero {
namespace {

class DistributedInput : public TrainingTest {
 protected:
  DistributedInput() : TrainingTest(small_gpt("[train]\nsteps = 4\nbatch = 4\n[run]\nthreads = 1\n")) {}
  void expect_refused(const std::string& flags, const std::string& reason, const std::string& remedy) const {
    SCOPED_TRACE(flags);
    for (const char* const verb : {"train c.toml --run.dir run ", "plan c.toml --run.dir run "}) {
      const Ran ran = folder_.zero(verb + flags, "timeout 60");
      EXPECT_EQ(ran.status, 2) << verb << ran.output;
      EXPECT_CONTAINS(ran.errors, reason);
      EXPECT_CONTAINS(ran.errors, remedy);
      EXPECT_FALSE(std::filesystem::exists(folder_.path() / "run")) << verb;
    }
  }
};

// Such a group does not divide the ranks, or has no effect.
TEST_F(DistributedInput, RefusesBadSecondaryGroups) {
  const char* const divides = "use 2; or leave it out";
  expect_refused("-n 4 --zero.secondary_group 3", "zero.secondary_group = 3: 4 ranks hold one copy of the model",
                 divides);
  expect_refused("-n 4 --zero.secondary_group 4", "zero.secondary_group = 4: 4 ranks hold one copy of the model",
                 divides);
  expect_refused("-n 4 --zero.group 2 --zero.secondary_group 2", "2 ranks hold one copy of the model",
                 "leave it out: no number from 2 divides 2 into groups");
  expect_refused("-n 4 --zero.secondary_group -2", "zero.secondary_group", "");
  expect_refused("-n 4 --zero.secondary_group two", "zero.secondary_group", "");
  expect_refused("-n 4 --zero.secondary_group 1", "zero.secondary_group = 1", "use zero.stage 2, or 2 or more ranks");
  expect_refused("-n 4 --zero.stage 2 --zero.secondary_group 2", "zero.secondary_group = 2: at stage 2",
                 "use zero.stage 3, which gathers them; or leave it out");
  expect_refused("-n 4 --sync.servers 1 --zero.secondary_group 2", "workers read weights from servers",
                 "leave it out, or use no servers (sync.servers)");
}

// A group must divide the number of ranks.
TEST_F(DistributedInput, RefusesGroupThatLeavesARemainder) {
  expect_refused("-n 4 --zero.group 3", "zero.group = 3: 4 ranks cannot be divided into groups of this size",
                 "use 0 (all ranks hold one copy of the model), or one of 1, 2, 4");
}

TEST_F(DistributedInput, RefusesSharesThatMissMicroBatch) {
  expect_refused("-n 2 --train.share=[4,5]", "train.share = [4, 5]: they sum to 9",
                 "use \"auto\", or shares such as [4, 4]: they must sum to 8 = 4 (train.batch) x 2 (ranks)");
}

TEST_F(DistributedInput, RefusesTooManyServersOrQuorum) {
  expect_refused("-n 2 --sync.servers 3", "sync.servers = 3: no rank is left for a worker: the run has 2 ranks",
                 "use at most 1, or more ranks (-n)");
  expect_refused("-n 3 --sync.servers 1 --sync.quorum 3", "sync.quorum = 3: there are 2 workers",
                 "use 1 to 2, or 0 for all");
  expect_refused("-n 3 --sync.servers 1 --sync.staleness 1", "with sync.mode sync no gradient is stale",
                 "use sync.mode stale or async");
}

TEST_F(DistributedInput, RefusesStalenessWithLocalSteps) {
  expect_refused("-n 2 --sync.mode local --sync.staleness 1",
                 "sync.staleness = 1: with sync.mode local no gradient is stale",
                 "leave it out, or use sync.mode stale or async");
}

// Only weights, gradients and differences of copies have codecs. Control traffic has no such key.
TEST_F(DistributedInput, RefusesCodecOnControlTraffic) {
  expect_refused("-n 2 --comm.control_wire int8", "comm.control_wire", "outer_wire");
  folder_.write("d.toml", "[comm]\ncontrol_wire = \"int8\"\n");
  const Ran ran = folder_.zero("train d.toml --run.dir run -n 2");
  EXPECT_EQ(ran.status, 2) << ran.output;
  EXPECT_CONTAINS(ran.errors, "d.toml");
  EXPECT_CONTAINS(ran.errors, "control_wire");
}

TEST_F(DistributedInput, RefusesClusterWithoutALink) {
  folder_.write("cluster.toml", "[cluster]\nhosts = 2\nranks = 4\nflops = 1e12\n");
  const Ran ran = folder_.zero("plan c.toml --cluster cluster.toml");
  EXPECT_EQ(ran.status, 2) << ran.output;
  EXPECT_CONTAINS(ran.errors, "cluster.toml = no cluster.network: 2 machines need a link between them");
  EXPECT_CONTAINS(ran.errors, "network = \"1.25GB\"");
}

}  // namespace
}  // namespace zero
