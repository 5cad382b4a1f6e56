#include "zero/comm/rendezvous/detect_ranks.h"

#include <map>

#include <gtest/gtest.h>

#include "zero/base/error/error.h"
#include "zero/base/process/machine.h"

#include "tests/support/expect_contains.h"

namespace zero {
namespace {

using Variables = std::map<std::string, std::string>;

RankEnvironment detect(const Variables& variables, const RankFlags& flags = {}) {
  return detect_ranks(flags, [&](const char* name) -> const char* {
    const auto found = variables.find(name);
    return found == variables.end() ? nullptr : found->second.c_str();
  });
}

std::string error_of(const Variables& variables, const RankFlags& flags = {}) {
  try {
    detect(variables, flags);
    return "no error";
  } catch (const ConfigError& error) {
    return error.what();
  }
}

const Variables kTorchrun{{"RANK", "3"},
                          {"WORLD_SIZE", "4"},
                          {"LOCAL_RANK", "1"},
                          {"LOCAL_WORLD_SIZE", "2"},
                          {"MASTER_ADDR", "10.0.0.7"},
                          {"MASTER_PORT", "29501"},
                          {"TORCHELASTIC_RUN_ID", "none"},
                          {"TORCHELASTIC_RESTART_COUNT", "0"}};

TEST(Rendezvous, NothingSetIsOneProcess) {
  const RankEnvironment ranks = detect({});
  EXPECT_EQ(ranks.rank, 0);
  EXPECT_EQ(ranks.world, 1);
  EXPECT_EQ(ranks.local_world, 1);
  EXPECT_FALSE(ranks.per_node);
  EXPECT_EQ(describe(ranks), "rank 0 of 1 (local 0 of 1), from one process");
}

TEST(Rendezvous, Torchrun) {
  const RankEnvironment ranks = detect(kTorchrun);
  EXPECT_EQ(describe(ranks), "rank 3 of 4 (local 1 of 2), from torchrun");
  EXPECT_EQ(ranks.master_addr, "10.0.0.7");
  EXPECT_EQ(ranks.master_port, 29501);
}

TEST(Rendezvous, PortOrRestartChangesId) {
  Variables other_port = kTorchrun, restarted = kTorchrun;
  other_port["MASTER_PORT"] = "29502";
  restarted["TORCHELASTIC_RESTART_COUNT"] = "1";
  EXPECT_NE(detect(other_port).run_id, detect(kTorchrun).run_id);
  EXPECT_NE(detect(restarted).run_id, detect(kTorchrun).run_id);
}

TEST(Rendezvous, RanksOfOneRunShareId) {
  Variables other = kTorchrun;
  other["RANK"] = "2";
  other["LOCAL_RANK"] = "0";
  EXPECT_EQ(detect(other).run_id, detect(kTorchrun).run_id);
}

TEST(Rendezvous, ZeroLaunchCountsTheGenerations) {
  Variables launched = kTorchrun;
  EXPECT_EQ(detect(launched).generation, 0);
  launched["ZERO_GENERATION"] = "3";
  EXPECT_EQ(detect(launched).generation, 3);
  launched["ZERO_GENERATION"] = "x";
  EXPECT_CONTAINS(error_of(launched), "ZERO_GENERATION = x: is not a whole number");
}

TEST(Rendezvous, ZeroLaunchCountsTheReplacements) {
  Variables launched = kTorchrun;
  EXPECT_EQ(detect(launched).replacement, 0);
  EXPECT_EQ(detect(launched).most_replacements, 0);
  launched["ZERO_REPLACEMENT"] = "2";
  launched["ZERO_MAX_REPLACEMENTS"] = "5";
  EXPECT_EQ(detect(launched).replacement, 2);
  EXPECT_EQ(detect(launched).most_replacements, 5);
}

TEST(Rendezvous, ZeroLaunchNamesItsRuns) {
  Variables launched = kTorchrun;
  launched["ZERO_RUN_ID"] = "5f3a";
  EXPECT_EQ(detect(launched).run_id, "5f3a");
  EXPECT_EQ(detect(launched).source, "zero launch");
}

// The environment has no local world.
TEST(Rendezvous, AllRanksAreLocalByDefault) {
  const RankEnvironment ranks = detect({{"RANK", "1"}, {"WORLD_SIZE", "3"}, {"LOCAL_RANK", "1"}});
  EXPECT_EQ(ranks.local_world, 3);
}

TEST(Rendezvous, OpenMpi) {
  const RankEnvironment ranks = detect({{"OMPI_COMM_WORLD_RANK", "1"},
                                        {"OMPI_COMM_WORLD_SIZE", "4"},
                                        {"OMPI_COMM_WORLD_LOCAL_RANK", "1"},
                                        {"OMPI_COMM_WORLD_LOCAL_SIZE", "4"},
                                        {"PMIX_NAMESPACE", "1234"},
                                        {"PMIX_RANK", "1"}});
  EXPECT_EQ(describe(ranks), "rank 1 of 4 (local 1 of 4), from Open MPI");
  EXPECT_EQ(ranks.run_id, "mpi-1234");
}

TEST(Rendezvous, Pmi) {
  const RankEnvironment ranks =
      detect({{"PMI_RANK", "2"}, {"PMI_SIZE", "4"}, {"MPI_LOCALRANKID", "0"}, {"MPI_LOCALNRANKS", "2"}});
  EXPECT_EQ(describe(ranks), "rank 2 of 4 (local 0 of 2), from PMI");
  EXPECT_FALSE(ranks.run_id.empty());
}

TEST(Rendezvous, Slurm) {
  const Variables step{{"SLURM_PROCID", "5"},
                       {"SLURM_NTASKS", "7"},
                       {"SLURM_LOCALID", "1"},
                       {"SLURM_NODEID", "2"},
                       {"SLURM_STEP_NUM_NODES", "4"},
                       {"SLURM_STEP_TASKS_PER_NODE", "2(x3),1"},
                       {"SLURM_STEP_NODELIST", "gpu[007-009,12]"},
                       {"SLURM_JOB_ID", "40123"},
                       {"SLURM_STEP_ID", "0"}};
  const RankEnvironment ranks = detect(step);
  EXPECT_EQ(describe(ranks), "rank 5 of 7 (local 1 of 2), from Slurm");
  EXPECT_EQ(ranks.master_addr, "gpu007");
  EXPECT_EQ(ranks.master_port, 20123);
  EXPECT_EQ(ranks.run_id, "slurm-40123-0");
}

TEST(Rendezvous, OneSlurmNodeNeedsNoLists) {
  const RankEnvironment ranks =
      detect({{"SLURM_PROCID", "1"}, {"SLURM_NTASKS", "2"}, {"SLURM_LOCALID", "1"}, {"SLURM_JOB_ID", "5"}});
  EXPECT_EQ(describe(ranks), "rank 1 of 2 (local 1 of 2), from Slurm");
  EXPECT_EQ(ranks.master_addr, "127.0.0.1");
}

TEST(Rendezvous, SlurmBatchVariablesAreNoRanks) {
  EXPECT_EQ(
      detect({{"SLURM_PROCID", "0"}, {"SLURM_NTASKS", "4"}, {"SLURM_LOCALID", "0"}, {"ENVIRONMENT", "BATCH"}}).world,
      1);
}

TEST(Rendezvous, KubeflowsVariablesDescribeANode) {
  const RankEnvironment ranks = detect({{"PET_NNODES", "3"},
                                        {"PET_NPROC_PER_NODE", "2"},
                                        {"PET_NODE_RANK", "1"},
                                        {"PET_MASTER_ADDR", "master-0"},
                                        {"PET_MASTER_PORT", "23456"}});
  EXPECT_TRUE(ranks.per_node);
  EXPECT_EQ(describe(ranks), "rank 2 of 6 (local 0 of 2), from PET_*");
  EXPECT_EQ(ranks.master_addr, "master-0");
  EXPECT_EQ(ranks.master_port, 23456);
}

TEST(Rendezvous, KubeflowsAutoIsTheCores) {
  const RankEnvironment ranks = detect({{"PET_NNODES", "1"}, {"PET_NPROC_PER_NODE", "auto"}});
  EXPECT_EQ(ranks.world, num_usable_cores());
}

TEST(Rendezvous, RankWithoutLocalRankIsNode) {
  const RankEnvironment ranks = detect({{"RANK", "1"}, {"WORLD_SIZE", "4"}, {"PET_NPROC_PER_NODE", "2"}});
  EXPECT_TRUE(ranks.per_node);
  EXPECT_EQ(ranks.rank, 2);
  EXPECT_EQ(ranks.world, 4);
  // With one process on each node, the rank is the number of the node.
  EXPECT_FALSE(detect({{"RANK", "1"}, {"WORLD_SIZE", "2"}}).per_node);
  EXPECT_EQ(detect({{"RANK", "1"}, {"WORLD_SIZE", "2"}}).rank, 1);
}

// After MPI come PMI and Slurm.
TEST(Rendezvous, PrefersFlagsThenTorchrunThenMpi) {
  Variables all = kTorchrun;
  const Variables others{
      {"OMPI_COMM_WORLD_RANK", "0"}, {"OMPI_COMM_WORLD_SIZE", "1"}, {"PMI_RANK", "0"},  {"PMI_SIZE", "1"},
      {"SLURM_PROCID", "0"},         {"SLURM_NTASKS", "1"},         {"PET_NNODES", "1"}};
  all.insert(others.begin(), others.end());
  EXPECT_EQ(detect(all, {.rank = 0, .world = 2}).source, "flags");
  EXPECT_EQ(detect(all).source, "torchrun");
  all.erase("LOCAL_RANK");
  EXPECT_EQ(detect(all).source, "Open MPI");
  all.erase("OMPI_COMM_WORLD_RANK");
  EXPECT_EQ(detect(all).source, "PMI");
  all.erase("PMI_RANK");
  EXPECT_EQ(detect(all).source, "Slurm");
  all.erase("SLURM_PROCID");
  all.erase("RANK");
  EXPECT_EQ(detect(all).source, "PET_*");
}

TEST(Rendezvous, FlagsWinOneByOne) {
  const RankEnvironment ranks = detect(kTorchrun, {.master_addr = "there", .master_port = 7, .run_id = "mine"});
  EXPECT_EQ(ranks.rank, 3);
  EXPECT_EQ(ranks.master_addr, "there");
  EXPECT_EQ(ranks.master_port, 7);
  EXPECT_EQ(ranks.run_id, "mine");
}

TEST(Rendezvous, UsesTorchrunsStoreIfTold) {
  Variables variables = kTorchrun;
  EXPECT_FALSE(detect(variables).agent_run);
  variables["TORCHELASTIC_USE_AGENT_STORE"] = "False";  // zero launch, or TORCH_DISABLE_SHARE_RDZV_TCP_STORE
  EXPECT_FALSE(detect(variables).agent_run);
  variables["TORCHELASTIC_USE_AGENT_STORE"] = "True";
  variables["TORCHELASTIC_RUN_ID"] = "none";
  EXPECT_EQ(detect(variables).agent_run, "none");
  // The agent of each machine counts its own restarts, so the run does not depend on that count.
  variables["TORCHELASTIC_RESTART_COUNT"] = "3";
  EXPECT_EQ(detect(variables).agent_run, "none");
  // A user who gives another address does not want torchrun's store.
  EXPECT_FALSE(detect(variables, {.master_port = 7}).agent_run);
  EXPECT_FALSE(detect(variables, {.master_addr = "there"}).agent_run);
  EXPECT_FALSE(detect(variables, {.rank = 0, .world = 2}).agent_run);
}

TEST(Rendezvous, NumbersAreReadStrictly) {
  for (const char* bad : {"1x", "one", "-1", "4", "99999999999", " 1", "1.0", "0x1"}) {
    Variables variables = kTorchrun;
    variables["RANK"] = bad;
    EXPECT_CONTAINS(error_of(variables), std::string("RANK = ") + bad + ": ");
  }
  Variables port = kTorchrun;
  port["MASTER_PORT"] = "65536";
  EXPECT_CONTAINS(error_of(port), "MASTER_PORT = 65536: must be between 1 and 65535");
}

TEST(Rendezvous, HalfALauncherIsAnError) {
  EXPECT_CONTAINS(error_of({{"RANK", "0"}, {"LOCAL_RANK", "0"}}), "WORLD_SIZE: is not set, but RANK is");
  EXPECT_CONTAINS(error_of({{"OMPI_COMM_WORLD_RANK", "0"}}), "OMPI_COMM_WORLD_SIZE: is not set");
  EXPECT_CONTAINS(error_of({{"PET_NNODES", "2"}}), "PET_NODE_RANK: is not set, but PET_NNODES is");
  EXPECT_CONTAINS(error_of({{"PMIX_RANK", "2"}}), "does not say how many ranks there are");
  EXPECT_CONTAINS(error_of({{"WORLD_SIZE", "2"}}), "RANK: is not set, but WORLD_SIZE is");
  EXPECT_CONTAINS(error_of({{"PMI_SIZE", "2"}}), "PMI_RANK: is not set, but PMI_SIZE is");
  EXPECT_EQ(detect({{"WORLD_SIZE", "1"}}).source, "one process");
  EXPECT_CONTAINS(error_of({}, {.rank = 1}), "world: is missing");
  EXPECT_CONTAINS(error_of({}, {.rank = 2, .world = 2}), "rank = 2: must be between 0 and 1");
}

TEST(Rendezvous, ElasticRunsAreRefused) {
  EXPECT_CONTAINS(error_of({{"PET_NNODES", "1:4"}}), "elastic");
  EXPECT_EQ(detect({{"PET_NNODES", "2:2"}, {"PET_NODE_RANK", "0"}}).world, 2);
}

TEST(Rendezvous, AnEmptyVariableIsNotSet) {
  EXPECT_EQ(detect({{"RANK", ""}, {"WORLD_SIZE", ""}, {"LOCAL_RANK", ""}}).source, "one process");
}

TEST(SlurmLists, TasksOfEachNode) {
  const int expected[] = {2, 2, 2, 1, 4};
  for (int node = 0; node < 5; ++node) EXPECT_EQ(slurm_tasks_on_node("2(x3),1,4", node), expected[node]);
  EXPECT_EQ(slurm_tasks_on_node("8", 0), 8);
}

TEST(SlurmLists, ABadTaskListIsRefused) {
  for (const char* bad : {"", "x", "2(x3", "2(3)", "0", "-1", "2(x0)", "2,,1", "2;1", "99999999999"}) {
    EXPECT_THROW(slurm_tasks_on_node(bad, 3), ConfigError) << bad;
  }
  EXPECT_THROW(slurm_tasks_on_node("2(x2)", 2), ConfigError);
}

TEST(SlurmLists, FirstHost) {
  EXPECT_EQ(slurm_first_host("node1"), "node1");
  EXPECT_EQ(slurm_first_host("a,b"), "a");
  EXPECT_EQ(slurm_first_host("n[001-004,7]"), "n001");
  EXPECT_EQ(slurm_first_host("gpu[07,9],login"), "gpu07");
  EXPECT_EQ(slurm_first_host("rack[1-2]-node,x"), "rack1-node");
}

TEST(SlurmLists, ABadHostListIsRefused) {
  for (const char* bad : {"", ",a", "n[", "n[]", "n[1-2]m[3-4]"})
    EXPECT_THROW(slurm_first_host(bad), ConfigError) << bad;
}

}  // namespace
}  // namespace zero
