#include "app/launch/ranks/rank_environment.h"

#include <algorithm>
#include <map>

#include <gtest/gtest.h>

namespace zero {
namespace {

std::map<std::string, std::string> variables(const LaunchOptions& options, int local_rank, int cores = 8) {
  const auto list = rank_variables(options, {.run_id = "5f", .master_port = 1234, .generation = 2, .launch_id = "a0"},
                                   local_rank, cores);
  return {list.begin(), list.end()};
}

TEST(RankEnvironment, IsTorchruns) {
  LaunchOptions options;
  options.ranks = 2;
  options.nodes = 3;
  options.node_rank = 1;
  options.master_address = "host0";
  options.max_restarts = 4;
  options.role = "trainer";
  const auto set = variables(options, 1);
  const std::map<std::string, std::string> expected{{"RANK", "3"},
                                                    {"WORLD_SIZE", "6"},
                                                    {"LOCAL_RANK", "1"},
                                                    {"LOCAL_WORLD_SIZE", "2"},
                                                    {"GROUP_RANK", "1"},
                                                    {"GROUP_WORLD_SIZE", "3"},
                                                    {"ROLE_RANK", "3"},
                                                    {"ROLE_WORLD_SIZE", "6"},
                                                    {"ROLE_NAME", "trainer"},
                                                    {"MASTER_ADDR", "host0"},
                                                    {"MASTER_PORT", "1234"},
                                                    {"TORCHELASTIC_RUN_ID", "5f"},
                                                    {"TORCHELASTIC_RESTART_COUNT", "2"},
                                                    {"TORCHELASTIC_MAX_RESTARTS", "4"},
                                                    {"OMP_NUM_THREADS", "4"},
                                                    {"OMP_WAIT_POLICY", "passive"},
                                                    {"ZERO_RUN_ID", "5f"},
                                                    {"ZERO_LAUNCH_ID", "a0"},
                                                    {"ZERO_GENERATION", "2"},
                                                    {"ZERO_CORES_BOUND", "1"},
                                                    {"TORCHELASTIC_USE_AGENT_STORE", "False"}};
  EXPECT_EQ(set, expected);
}

TEST(RankEnvironment, SaysWhetherCoresAreBound) {
  EXPECT_EQ(variables({.ranks = 4}, 0, /*cores=*/4).at("ZERO_CORES_BOUND"), "1");
  EXPECT_EQ(variables({.ranks = 4, .bind_cores = false}, 0, /*cores=*/4).at("ZERO_CORES_BOUND"), "0");
  EXPECT_EQ(variables({.ranks = 4}, 0, /*cores=*/3).at("ZERO_CORES_BOUND"), "0") << "too few, so they are shared";
}

// One rank was left out.
TEST(RankEnvironment, SmallerWorldTellsRequestedSize) {
  const auto says = [](int asked) {
    const auto variables = rank_variables({.ranks = 2, .asked_ranks = asked}, {.run_id = "5f"}, 0, 4);
    return std::ranges::count(variables, std::pair<std::string, std::string>("ZERO_ASKED_WORLD", "3"));
  };
  EXPECT_EQ(says(3), 1);
  EXPECT_EQ(says(0), 0) << "none was left out";
}

GetEnvironment environment(const std::map<std::string, std::string>& set) {
  return [set](const char* name) {
    const auto found = set.find(name);
    return found == set.end() ? nullptr : found->second.c_str();
  };
}

// On one machine each start draws its own token, unless the user gave one.
TEST(RankEnvironment, EachStartDrawsToken) {
  LaunchOptions options;
  const std::string token = random_token(options, environment({}));
  EXPECT_EQ(token.size(), 64u);
  EXPECT_EQ(token.find_first_not_of("0123456789abcdef"), std::string::npos);
  EXPECT_NE(token, random_token(options, environment({{"ZERO_TOKEN", ""}})));
  EXPECT_EQ(random_token(options, environment({{"ZERO_TOKEN", "the user's own one"}})), "");
  EXPECT_EQ(random_token(options, environment({{"ZERO_TOKEN_FILE", "/home/me/token"}})), "");
  options.nodes = 2;
  EXPECT_EQ(random_token(options, environment({})), "") << "the other machine would draw a different token";
}

TEST(RankEnvironment, TokenIsZeroTokenOnly) {
  LaunchOptions options;
  const auto list = rank_variables(options, {.run_id = "5f", .master_port = 1234, .token = "0123456789abcdef"}, 0, 8);
  int times = 0;
  for (const auto& [key, value] : list) {
    if (value.find("0123456789abcdef") == std::string::npos) continue;
    EXPECT_EQ(key, "ZERO_TOKEN");
    ++times;
  }
  EXPECT_EQ(times, 1);
}

// At least one thread.
TEST(RankEnvironment, ThreadsAreCoresPerRank) {
  LaunchOptions options;
  options.ranks = 3;
  EXPECT_EQ(variables(options, 0, 8).at("OMP_NUM_THREADS"), "2");
  EXPECT_EQ(variables(options, 0, 2).at("OMP_NUM_THREADS"), "1");
}

TEST(RankEnvironment, ReplacesInheritedVariablesKeepsOthers) {
  const std::vector<std::string> inherited{"PATH=/bin", "RANK=7", "RANKING=x"};
  const auto merged = merge_environment(inherited, {{"RANK", "0"}, {"NEW", "1"}});
  EXPECT_EQ(merged, (std::vector<std::string>{"PATH=/bin", "RANKING=x", "RANK=0", "NEW=1"}));
}

TEST(RankEnvironment, TheUsersThreadsStay) {
  const std::vector<std::string> inherited{"OMP_NUM_THREADS=5"};
  EXPECT_EQ(merge_environment(inherited, {{"OMP_NUM_THREADS", "1"}}), inherited);
  const std::vector<std::string> active{"OMP_WAIT_POLICY=active"};
  EXPECT_EQ(merge_environment(active, {{"OMP_WAIT_POLICY", "passive"}}), active);
}

TEST(RankEnvironment, RunIdsDiffer) {
  EXPECT_EQ(random_id().size(), 16u);
  EXPECT_NE(random_id(), random_id());
}

TEST(RankEnvironment, APortIsFound) {
  const int port = free_port();
  EXPECT_GT(port, 0);
  EXPECT_LT(port, 65536);
}

}  // namespace
}  // namespace zero
