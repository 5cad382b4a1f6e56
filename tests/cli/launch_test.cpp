#include <algorithm>

#include <gtest/gtest.h>

#include "tests/cli/command.h"
#include "tests/cli/training_test.h"
#include "tests/support/this_build.h"

namespace zero {
namespace {

class LaunchCommand : public testing::Test {
 protected:
  Ran launch(const std::string& arguments, const std::string& before = "") const {
    return folder_.zero("launch " + arguments, before);
  }
  Folder folder_;
};

TEST_F(LaunchCommand, TakesTorchrunsFlagsInBothSpellings) {
  const std::string program =
      " sh -c 'echo $RANK of $WORLD_SIZE at $MASTER_ADDR:$MASTER_PORT, $GROUP_RANK, $TORCHELASTIC_RUN_ID, $ROLE_NAME'";
  for (const char* flags : {"--standalone --nnodes=1 --nproc-per-node=2 --max-restarts=0 --rdzv-id=abc "
                            "--rdzv-backend=c10d --role=r --master-port=4321 --tee 3",
                            "--nnodes 1 --nproc_per_node 2 --max_restarts 0 --rdzv_id abc --rdzv_backend c10d "
                            "--rdzv_endpoint 127.0.0.1:4321 --role r",
                            "--world-size 2 --port 4321 --rdzv-id abc --role r --"}) {
    const Ran ran = launch(flags + program);
    EXPECT_EQ(ran.status, 0) << ran.errors;
    EXPECT_NE(ran.output.find("[rank 1] 1 of 2 at 127.0.0.1:4321, 0, abc, r\n"), std::string::npos)
        << flags << ran.output;
  }
}

TEST_F(LaunchCommand, WorksFromPetVariablesAlone) {
  const Ran ran = launch("sh -c 'echo $RANK of $WORLD_SIZE at $MASTER_ADDR:$MASTER_PORT'",
                         "PET_NNODES=2 PET_NPROC_PER_NODE=2 PET_NODE_RANK=1 PET_MASTER_ADDR=host0 PET_MASTER_PORT=777");
  EXPECT_EQ(ran.status, 0) << ran.errors;
  EXPECT_NE(ran.output.find("[rank 2] 2 of 4 at host0:777\n"), std::string::npos) << ran.output;
  EXPECT_NE(ran.output.find("[rank 3] 3 of 4 at host0:777\n"), std::string::npos) << ran.output;
}

TEST_F(LaunchCommand, FlagsBeatPetVariables) {
  EXPECT_EQ(launch("--nproc-per-node 1 sh -c 'echo $WORLD_SIZE'", "PET_NPROC_PER_NODE=5").output, "1\n");
}

TEST_F(LaunchCommand, KeepsArgumentsAfterTheProgram) {
  EXPECT_EQ(launch("echo --nproc-per-node 7 -- --help -x").output, "--nproc-per-node 7 -- --help -x\n");
  EXPECT_EQ(launch("-- echo a -- b").output, "a -- b\n");
}

TEST_F(LaunchCommand, PythonScriptsAreGivenToPython) {
  folder_.write("show.py", "");
  const Ran ran = launch("show.py --lr 1", "PYTHON_EXEC=/bin/echo");
  EXPECT_EQ(ran.output, "-u show.py --lr 1\n") << ran.errors;
  EXPECT_EQ(launch("-m package.train", "PYTHON_EXEC=/bin/echo").output, "-u -m package.train\n");
}

TEST_F(LaunchCommand, AutoIsOneRankACore) {
  const Ran ran = launch("--nproc-per-node auto sh -c 'echo rank'");
  const auto count = std::count(ran.output.begin(), ran.output.end(), '\n');
  EXPECT_EQ(count, sysconf(_SC_NPROCESSORS_ONLN)) << ran.output;
}

TEST_F(LaunchCommand, BackendIsTheRanksTransport) {
  EXPECT_EQ(launch("--backend gloo -- sh -c 'echo $ZERO_COMM_TRANSPORT'").output, "gloo\n");
}

// The status is 3 for a failed rank. A rank's status 2 or 4 is passed on.
TEST_F(LaunchCommand, PassesOnExitStatuses) {
  EXPECT_EQ(launch("--nproc-per-node 2 -- sh -c 'exit 1'").status, 3);
  EXPECT_EQ(launch("--nproc-per-node 2 -- sh -c 'exit 2'").status, 2);
  EXPECT_EQ(launch("--nproc-per-node 2 -- sh -c 'exit 4'").status, 4);
  EXPECT_EQ(launch("--nproc-per-node 2 -- sh -c 'kill -9 $$'").status, 3);
}

TEST_F(LaunchCommand, LostReaderEndsTheRanks) {
  const Ran ran =
      folder_.zero("launch -- sh -c 'while echo line; do :; done'; echo $? >.status; } | head -n 1", "{ timeout 200");
  EXPECT_EQ(ran.output, "line\n");
  EXPECT_EQ(folder_.read(".status"), "141\n") << "128 + SIGPIPE";
}

TEST_F(LaunchCommand, ContinuesWithoutAFailingRank) {
  const Ran ran = launch(
      "-n 3 --max-restarts 2 --min-ranks 2 -- sh -c '[ $RANK != 2 ] || exit 1; "
      "[ $WORLD_SIZE = 2 ] || sleep 100; echo $RANK of $WORLD_SIZE'");
  EXPECT_EQ(ran.status, 0) << ran.errors;
  EXPECT_NE(ran.output.find("[rank 1] 1 of 2\n"), std::string::npos) << ran.output;
  EXPECT_NE(ran.errors.find("continuing with 2 of 3 ranks (2 of 2): rank 2 failed twice in a row\n"), std::string::npos)
      << ran.errors;
}

class LaunchedTraining : public TrainingTest {
 protected:
  LaunchedTraining()
      : TrainingTest(
            small_gpt("[train]\nsteps = 3\nbatch = 1\naccumulate = 2\n[schedule]\nwarmup = 0\n", "validation = 0\n")) {}
};

TEST_F(LaunchedTraining, KeepsGlobalBatchWithoutARank) {
  const Ran ran =
      folder_.zero(std::string("launch -n 3 --max-restarts 2 --min-ranks 1 -- sh -c '[ $RANK != 2 ] || exit 1; exec ") +
                   built::kCommand + " train c.toml --run.dir run'");
  EXPECT_EQ(ran.status, 0) << ran.errors;
  EXPECT_NE(ran.errors.find("continuing with 2 of 3 ranks"), std::string::npos) << ran.errors;
  const std::string config = folder_.read("run/config.toml");
  EXPECT_NE(config.find("accumulate = 3"), std::string::npos) << config;
  EXPECT_NE(config.find("global_batch = 6"), std::string::npos) << config;
}

TEST_F(LaunchCommand, RankZeroGetsPipedInput) {
  EXPECT_EQ(launch("--nproc-per-node 2 -- cat", "echo piped |").output, "piped\n") << "the other ranks read nothing";
}

struct BadLaunch {
  const char* arguments;
  const char* says;
};

class BadLaunchCommand : public testing::TestWithParam<BadLaunch> {};

TEST_P(BadLaunchCommand, IsRefusedInClearWords) {
  const Folder folder;
  const Ran ran = folder.zero(std::string("launch ") + GetParam().arguments);
  EXPECT_EQ(ran.status, 2);
  EXPECT_NE(ran.errors.find(GetParam().says), std::string::npos) << ran.errors;
  EXPECT_EQ(ran.output, "");
}

INSTANTIATE_TEST_SUITE_P(
    Flags, BadLaunchCommand,
    testing::Values(
        BadLaunch{"", "PROGRAM: none is given"}, BadLaunch{"--nodes 2 echo", "did you mean '--nnodes'?"},
        BadLaunch{"--nnodes 1:4 echo", "changes its size"}, BadLaunch{"--nnodes 2 echo", "give --master-addr"},
        BadLaunch{"--nnodes 2 --master-addr h echo", "give --node-rank 0 to 1"},
        BadLaunch{"--nnodes 2 --master-addr h --node-rank 2 echo", "--node-rank = 2"},
        BadLaunch{"--nproc-per-node 0 echo", "allowed: 1 to"},
        BadLaunch{"--nproc-per-node gpu echo", "does not count GPUs\n  give their number"},
        BadLaunch{"--nproc-per-node many echo", "no number"}, BadLaunch{"--world-size 0 echo", "allowed: 1 to"},
        BadLaunch{"--world-size 3 --nproc-per-node 2 echo", "contradicts"},
        BadLaunch{"--rdzv-backend etcd echo", "not supported"},
        BadLaunch{"--rdzv-conf timeout=3 echo", "not supported"},
        BadLaunch{"--master-port 99999 echo", "allowed: 1 to 65535"},
        BadLaunch{"--max-restarts -1 echo", "out of range"},
        BadLaunch{"--min-ranks 3 --max-restarts 1 -n 2 echo", "allowed: 0 to 2"},
        BadLaunch{"--min-ranks 1 echo", "give --max-restarts N"},
        BadLaunch{"--min-ranks 1 --max-restarts 1 --nnodes 2 --node-rank 0 "
                  "--master-addr h echo",
                  "several machines does not change its size"},
        BadLaunch{"--spared-from 0 -n 2 echo", "allowed: 1 to 1"},
        BadLaunch{"--spared-from -1 -n 2 echo", "allowed: 1 to 1"},
        BadLaunch{"--spared-from 1 echo", "there is only one rank"},
        BadLaunch{"--spared-from 1 --max-restarts 1 --min-ranks 1 -n 2 echo", "--min-ranks leaves a failed rank out"},
        BadLaunch{"--spared-from 4 -n 2 --nnodes 2 --node-rank 0 --master-addr h echo", "allowed: 1 to 3"},
        BadLaunch{"--spared-from 1 -n 1 --nnodes 2 --node-rank 0 --master-addr h echo", "ZERO_TOKEN: is not set"},
        BadLaunch{"--spared-from 1 -n 1 --nnodes 2 --node-rank 1 --master-addr h --master-port 65535 echo",
                  "meet at the next port, and there is no next port"},
        BadLaunch{"--local-ranks-filter 1 echo", "allowed: 0 to 0"}, BadLaunch{"/no/such/program", "No such file"}));

}  // namespace
}  // namespace zero
