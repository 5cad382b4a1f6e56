#include <algorithm>

#include <gtest/gtest.h>

#include "app/cli/doctor/finding.h"
#include "tests/support/message_of.h"
#include "tests/support/temporary_folder.h"

namespace zero::cli {
namespace {

// A machine that is simulated by files.
class Machine : public testing::Test {
 protected:
  Machine() {
    put("proc/cpuinfo", "processor\t: 0\nmodel name\t: A Processor\n");
    put("proc/meminfo", "MemTotal:       16777216 kB\nMemFree: 1 kB\nMemAvailable:    8388608 kB\n");
    put("proc/self/cgroup", "0::/\n");
    put("proc/pressure/memory", "some avg10=0.00\n");
    put("sys/fs/cgroup/cgroup.controllers", "cpu memory\n");
    put("sys/kernel/mm/transparent_hugepage/enabled", "always [madvise] never\n");
    put("sys/kernel/mm/transparent_hugepage/shmem_enabled", "always within_size [advise] never deny force\n");
    put("sys/devices/system/clocksource/clocksource0/current_clocksource", "tsc\n");
  }
  void put(const std::string& name, const std::string& text) {
    std::filesystem::create_directories((root_ / name).parent_path());
    root_.write(name, text);
  }
  Finding check(const std::string& subject) const {
    const auto findings = check_machine(root_.path());
    const auto found =
        std::find_if(findings.begin(), findings.end(), [&](const auto& each) { return each.subject == subject; });
    EXPECT_NE(found, findings.end()) << subject;
    return found == findings.end() ? Finding{} : *found;
  }
  TemporaryFolder root_;
};

TEST_F(Machine, ThatIsWellSaysSo) {
  EXPECT_TRUE(says(check("processor").found, "A Processor"));
  EXPECT_TRUE(says(check("memory").found, "16.0 GiB"));
  for (const char* subject :
       {"memory", "control group", "huge pages", "huge pages, shared", "pressure (PSI)", "clock"}) {
    EXPECT_EQ(check(subject).health, Health::kOk) << subject;
    EXPECT_EQ(check(subject).remedy, "") << subject;
  }
}

TEST_F(Machine, ExplainsHowToGetHugePages) {
  put("sys/kernel/mm/transparent_hugepage/enabled", "always madvise [never]\n");
  EXPECT_EQ(check("huge pages").health, Health::kWarn);
  EXPECT_EQ(check("huge pages").remedy, "as root: echo madvise > /sys/kernel/mm/transparent_hugepage/enabled");
}

TEST_F(Machine, WarnsOfLittleMemory) {
  put("proc/meminfo", "MemTotal:       16777216 kB\nMemAvailable:    100000 kB\n");
  EXPECT_EQ(check("memory").health, Health::kWarn);
}

TEST_F(Machine, ReportsTheControlGroupsLimit) {
  put("sys/fs/cgroup/memory.max", "4294967296\n");
  EXPECT_TRUE(says(check("control group").found, "version 2, memory limited to 4.00 GiB"));
  put("sys/fs/cgroup/memory.max", "max\n");
  EXPECT_TRUE(says(check("control group").found, "not limited"));
  put("proc/self/cgroup", "0::/slice/job\n");
  put("sys/fs/cgroup/slice/memory.max", "2147483648\n");
  EXPECT_TRUE(says(check("control group").found, "memory limited to 2.00 GiB"))
      << "the limit of a parent of the process's group";
}

TEST_F(Machine, WarnsOfASlowClock) {
  put("sys/devices/system/clocksource/clocksource0/current_clocksource", "hpet\n");
  EXPECT_EQ(check("clock").health, Health::kWarn);
}

TEST(MachineWithoutFiles, IsNoReasonToStop) {
  const TemporaryFolder empty;
  for (const auto& finding : check_machine(empty.path())) {
    EXPECT_NE(finding.health, Health::kFail) << finding.subject;
    EXPECT_EQ(finding.health == Health::kWarn, !finding.remedy.empty()) << finding.subject;
  }
}

}  // namespace
}  // namespace zero::cli
