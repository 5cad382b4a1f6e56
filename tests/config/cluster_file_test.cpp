#include "app/config/cluster_file.h"

#include <gtest/gtest.h>

#include "zero/base/error/error.h"

#include "tests/support/message_of.h"

namespace zero {
namespace {

std::string refusal(std::string_view text) {
  return message_of<ConfigError>([&] { parse_cluster(text, "c.toml"); });
}

TEST(ClusterFile, IsReadWithItsUnits) {
  const Cluster cluster = parse_cluster(
      "[cluster]\nhosts = 4\nranks = 2\nnetwork = \"1.25GB\"\nwithin = \"20GB\"\nlatency_us = 20\nmemory = \"80GiB\"\n"
      "flops = 1e14\nspeeds = [1, 0.5]\njitter = 0.1\n",
      "c.toml");
  EXPECT_EQ(cluster.world(), 8);
  EXPECT_EQ(cluster.network, 1.25e9);
  EXPECT_EQ(cluster.within, 20e9);
  EXPECT_DOUBLE_EQ(cluster.latency, 20e-6);
  EXPECT_EQ(cluster.memory, std::int64_t{80} << 30);
  EXPECT_EQ(cluster.flops, 1e14);
  EXPECT_EQ(cluster.speeds, (std::vector{1, 0.5}));
  EXPECT_EQ(cluster.jitter, 0.1);
}

TEST(ClusterFile, OneHostNeedsNoLink) {
  EXPECT_EQ(parse_cluster("[cluster]\nranks = 8\n", "c.toml").world(), 8);
}

TEST(ClusterFile, SeveralHostsNeedOne) {
  EXPECT_TRUE(says(refusal("[cluster]\nhosts = 2\n"), "set its bytes a second"));
}

TEST(ClusterFile, MisspeltKeyGetsLineAndSuggestion) {
  const std::string message = refusal("[cluster]\nhosts = 2\nnetwrok = \"1GB\"\n");
  EXPECT_TRUE(says(message, "c.toml:3: cluster.netwrok"));
  EXPECT_TRUE(says(message, "did you mean 'network'?"));
  EXPECT_TRUE(says(refusal("hosts = 2\n"), "not in [cluster]"));
  EXPECT_TRUE(says(refusal(""), "describes no cluster"));
}

TEST(ClusterFile, InvalidValueIsRefusedWithExample) {
  EXPECT_TRUE(says(refusal("[cluster]\nhosts = 0\n"), "write 1 or more"));
  EXPECT_TRUE(says(refusal("[cluster]\nhosts = 2\nnetwork = 10\n"), "\"1.25GB\""));
  EXPECT_TRUE(says(refusal("[cluster]\nhosts = 2\nnetwork = \"0B\"\n"), "no bytes at all"));
  EXPECT_TRUE(says(refusal("[cluster]\nhosts = 2\nnetwork = \"fast\"\n"), "not a number with a unit"));
  EXPECT_TRUE(says(refusal("[cluster]\nlatency_us = -1\n"), "cluster.latency_us"));
  EXPECT_TRUE(says(refusal("[cluster]\nflops = 0\n"), "cluster.flops"));
  EXPECT_TRUE(says(refusal("[cluster]\nranks = 2\nspeeds = [1, 0]\n"), "not the speeds"));
  EXPECT_TRUE(says(refusal("[cluster]\nranks = 2\nspeeds = [1]\n"), "a machine has 2 ranks"));
  EXPECT_TRUE(says(refusal("[cluster]\nhosts = 100000\nranks = 100000\n"), "more than can be planned"));
}

}  // namespace
}  // namespace zero
