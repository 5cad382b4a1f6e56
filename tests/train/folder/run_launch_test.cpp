#include "app/train/folder/run_launch.h"

#include <filesystem>
#include <fstream>
#include <map>
#include <string>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "tests/support/temporary_folder.h"

namespace zero {
namespace {

// A folder of processes: 100 is torchrun's agent, and 200 a script in which a rank runs.
class RunLaunchTest : public testing::Test {
 protected:
  RunLaunchTest() {
    write("sys/kernel/random/boot_id", "boot\n");
    process(1, 0, 1, "PATH=/bin");
    process(100, 1, 4711, "PATH=/bin");
    process(200, 100, 5000, std::string("PATH=/bin") + '\0' + "TORCHELASTIC_RESTART_COUNT=0");
  }
  void write(const std::string& name, const std::string& text) {
    std::filesystem::create_directories((proc_ / name).parent_path());
    std::ofstream(proc_ / name, std::ios::binary) << text;
  }
  // Names of processes may contain spaces and parentheses.
  void process(int number, int parent, int start, const std::string& environment) {
    std::string fields;
    for (int field = 5; field < 22; ++field) fields += " 0";
    write(fmt::format("{}/stat", number), fmt::format("{} (a) b) S {}{} {} 0\n", number, parent, fields, start));
    write(fmt::format("{}/environ", number), environment);
  }
  RunLaunch launch(int parent) {
    const auto environment = [this](const char* name) -> const char* {
      const auto found = variables_.find(name);
      return found == variables_.end() ? nullptr : found->second.c_str();
    };
    return detect_launch(environment, parent, proc_.path().string());
  }

  TemporaryFolder proc_;
  std::map<std::string, std::string> variables_{{"TORCHELASTIC_RUN_ID", "none"}, {"TORCHELASTIC_RESTART_COUNT", "0"}};
};

TEST_F(RunLaunchTest, AgentNamesTorchrunsLaunch) {
  const RunLaunch first = launch(100);
  EXPECT_EQ(first.name, "torchrun none boot 100 4711");
  EXPECT_TRUE(first.is_restart) << "a change of membership restarts ranks without counting";
  EXPECT_FALSE(first.keeps_runs);
  variables_["TORCHELASTIC_RESTART_COUNT"] = "2";
  const RunLaunch later = launch(200);
  EXPECT_EQ(later.name, first.name) << "by a script";
  EXPECT_TRUE(later.keeps_runs);
}

TEST_F(RunLaunchTest, LaterAgentIsAnotherLaunch) {
  const std::string name = launch(100).name;
  process(100, 1, 4712, "PATH=/bin");
  EXPECT_NE(launch(100).name, name) << "another process of the same number";
  write("sys/kernel/random/boot_id", "later\n");
  process(100, 1, 4711, "PATH=/bin");
  EXPECT_NE(launch(100).name, name) << "after a boot";
}

TEST_F(RunLaunchTest, UnknownAgentGivesNoName) {
  variables_["TORCHELASTIC_RESTART_COUNT"] = "1";
  for (const int parent : {0, 300}) {
    EXPECT_EQ(launch(parent).name, "") << parent;
    EXPECT_FALSE(launch(parent).is_restart) << parent;
    EXPECT_TRUE(launch(parent).keeps_runs) << parent;
  }
  std::filesystem::remove(proc_ / "100/environ");
  EXPECT_EQ(launch(200).name, "");
}

// Several machines have one ZERO_RUN_ID for all attempts, here one that ends as the number of an attempt does.
TEST_F(RunLaunchTest, ZeroLaunchNamesItself) {
  variables_ = {{"ZERO_RUN_ID", "exp-1"}, {"ZERO_LAUNCH_ID", "5f-1"}, {"TORCHELASTIC_RESTART_COUNT", "0"}};
  const RunLaunch first = launch(100);
  EXPECT_FALSE(first.is_restart);
  variables_["TORCHELASTIC_RESTART_COUNT"] = "1";
  const RunLaunch later = launch(100);
  EXPECT_EQ(later.name, first.name);
  EXPECT_TRUE(later.is_restart);
  EXPECT_FALSE(later.keeps_runs);
  variables_["ZERO_LAUNCH_ID"] = "60";
  EXPECT_NE(launch(100).name, first.name) << "another launch at the same address";
  variables_ = {{"ZERO_RUN_ID", "5f"}};
  EXPECT_EQ(launch(100).name, "") << "mpirun";
}

}  // namespace
}  // namespace zero
