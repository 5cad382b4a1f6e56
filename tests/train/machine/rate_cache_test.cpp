#include "app/train/machine/rate_cache.h"

#include <fstream>

#include <gtest/gtest.h>
#include <sched.h>

#include "tests/support/temporary_folder.h"

namespace zero {
namespace {

class Rates : public testing::Test {
 protected:
  std::filesystem::path path() const { return folder_.path() / "zero.cpp" / "rates.json"; }
  TemporaryFolder folder_;
};

TEST_F(Rates, OnlyTheSameMachineFindsThem) {
  const RateCache cache(path());
  EXPECT_FALSE(cache.find("a")) << "there is no file yet";
  cache.keep("a", {.requests = {.disk = {.read = 3, .write = 2, .share = 0.75}}, .update_numel = 1});
  cache.keep("b", {.requests = {.disk = {.read = 6}}, .update_numel = 4});
  ASSERT_TRUE(cache.find("a") && cache.find("b"));
  EXPECT_EQ(cache.find("a")->requests.disk.read, 3);
  EXPECT_EQ(cache.find("a")->requests.disk.write, 2);
  EXPECT_EQ(cache.find("a")->requests.disk.share, 0.75);
  EXPECT_EQ(cache.find("b")->update_numel, 4);
  EXPECT_FALSE(cache.find("c"));
  EXPECT_TRUE(cache.find("a", /*with_disk=*/true));
  EXPECT_FALSE(cache.find("b", /*with_disk=*/true)) << "no rate of writing";
  cache.keep("a", {.update_numel = 9});
  EXPECT_EQ(cache.find("a")->update_numel, 9);
}

TEST_F(Rates, MissingDiskShareIsProbedAgain) {
  std::filesystem::create_directories(path().parent_path());
  std::ofstream(path()) << R"({"a": {"disk_read": 3, "disk_write": 2, "update_numel": 1}})";
  const RateCache cache(path());
  EXPECT_FALSE(cache.find("a", /*with_disk=*/true));
  EXPECT_FALSE(cache.find("a"));
  cache.keep("a", {.requests = {.disk = {.read = 3, .write = 2}}, .update_numel = 1});
  ASSERT_TRUE(cache.find("a", /*with_disk=*/true));
  EXPECT_EQ(cache.find("a")->requests.disk.share, 1);
}

// A damaged file counts as empty.
TEST_F(Rates, ReplacesDamagedFile) {
  const RateCache cache(path());
  for (const char* text :
       {"", "[1, 2]", "{\"a\": 7}", "{\"a\": {\"update_numel\": \"many\"}}", "{\"a\": {", "\0\xff"}) {
    std::filesystem::create_directories(path().parent_path());
    std::ofstream(path()) << text;
    EXPECT_FALSE(cache.find("a")) << text;
    cache.keep("a", {.update_numel = 2});
    EXPECT_TRUE(cache.find("a")) << text;
  }
}

TEST_F(Rates, UnmakeableFolderIsNoError) {
  std::ofstream(folder_.path() / "zero.cpp") << "a file";
  const RateCache cache(path());
  cache.keep("a", {.update_numel = 2});
  EXPECT_FALSE(cache.find("a"));
}

TEST_F(Rates, MachineIsRanksThreadsAndDisks) {
  const std::vector<std::string> here{folder_.path().string()}, other{"/proc"};
  EXPECT_EQ(machine_identity(here, 2, 1, "adamw"), machine_identity(here, 2, 1, "adamw"));
  EXPECT_NE(machine_identity(here, 2, 1, "adamw"), machine_identity(here, 1, 1, "adamw"));
  EXPECT_NE(machine_identity(here, 2, 1, "adamw"), machine_identity(here, 2, 2, "adamw"));
  EXPECT_NE(machine_identity(here, 2, 1, "adamw"), machine_identity(other, 2, 1, "adamw"));
  EXPECT_NE(machine_identity(here, 2, 1, "adamw"), machine_identity({}, 2, 1, "adamw"));
  EXPECT_NE(machine_identity(here, 2, 1, "adamw"), machine_identity(here, 2, 1, "sgd"));
  const struct : FileCalls {
    int try_folder(const std::string&) const override { return -ETIMEDOUT; }
  } hanging;
  EXPECT_EQ(machine_identity(here, 2, 1, "adamw", hanging), machine_identity({}, 2, 1, "adamw"))
      << "the file is not read";
}

// `zero plan` once never found rates that ranks had probed. A rank is bound to its share of the cores, and the number
// of usable cores was part of the machine's name.
TEST(MachineIdentity, BoundRankHasWholeMachines) {
  cpu_set_t all, one;
  ASSERT_EQ(sched_getaffinity(0, sizeof(all), &all), 0);
  const std::string unbound = machine_identity({}, 2, 1, "adamw");
  CPU_ZERO(&one);
  for (int core = 0; core < CPU_SETSIZE && CPU_COUNT(&one) == 0; ++core) {
    if (CPU_ISSET(core, &all)) CPU_SET(core, &one);
  }
  ASSERT_EQ(sched_setaffinity(0, sizeof(one), &one), 0);
  EXPECT_EQ(machine_identity({}, 2, 1, "adamw"), unbound);
  sched_setaffinity(0, sizeof(all), &all);
}

}  // namespace
}  // namespace zero
