#include "zero/comm/rendezvous/slurm_lists.h"

#include <gtest/gtest.h>

#include "zero/base/error/error.h"

namespace zero {
namespace {

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
