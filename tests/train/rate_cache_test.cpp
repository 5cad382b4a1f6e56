#include "zero/train/rate_cache.h"

#include <fstream>

#include <gtest/gtest.h>

#include "../temporary_folder.h"

namespace zero {
namespace {

class Rates : public testing::Test {
 protected:
  std::filesystem::path path() const { return folder_.path() / "zero.cpp" / "rates.json"; }
  TemporaryFolder folder_;
};

TEST_F(Rates, WhatWasKeptIsFoundForThatMachineAlone) {
  const RateCache cache(path());
  EXPECT_FALSE(cache.find("a")) << "there is no file yet";
  cache.keep("a", {.disk_read = 3, .disk_write = 2, .update_numel = 1});
  cache.keep("b", {.disk_read = 6, .update_numel = 4});
  ASSERT_TRUE(cache.find("a") && cache.find("b"));
  EXPECT_EQ(cache.find("a")->disk_read, 3);
  EXPECT_EQ(cache.find("a")->disk_write, 2);
  EXPECT_EQ(cache.find("b")->update_numel, 4);
  EXPECT_FALSE(cache.find("c"));
  EXPECT_TRUE(cache.find("a", /*with_disk=*/true));
  EXPECT_FALSE(cache.find("b", /*with_disk=*/true)) << "no rate of writing";
  cache.keep("a", {.update_numel = 9});
  EXPECT_EQ(cache.find("a")->update_numel, 9);
}

TEST_F(Rates, ADamagedFileHoldsNothingAndIsReplaced) {
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

TEST_F(Rates, AFolderThatCannotBeMadeIsNoError) {
  std::ofstream(folder_.path() / "zero.cpp") << "a file";
  const RateCache cache(path());
  cache.keep("a", {.update_numel = 2});
  EXPECT_FALSE(cache.find("a"));
}

TEST_F(Rates, AMachineIsItsRanksThreadsAndDisks) {
  const std::vector<std::string> here{folder_.path().string()}, other{"/proc"};
  EXPECT_EQ(machine_identity(here, 2, 1, "adamw"), machine_identity(here, 2, 1, "adamw"));
  EXPECT_NE(machine_identity(here, 2, 1, "adamw"), machine_identity(here, 1, 1, "adamw"));
  EXPECT_NE(machine_identity(here, 2, 1, "adamw"), machine_identity(here, 2, 2, "adamw"));
  EXPECT_NE(machine_identity(here, 2, 1, "adamw"), machine_identity(other, 2, 1, "adamw"));
  EXPECT_NE(machine_identity(here, 2, 1, "adamw"), machine_identity({}, 2, 1, "adamw"));
  EXPECT_NE(machine_identity(here, 2, 1, "adamw"), machine_identity(here, 2, 1, "sgd"));
}

}  // namespace
}  // namespace zero
