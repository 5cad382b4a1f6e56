#include "zero/base/process/machine.h"

#include <filesystem>
#include <fstream>
#include <thread>

#include <gtest/gtest.h>
#include <sched.h>
#include <unistd.h>

#include "zero/base/error/error.h"

#include "tests/support/temporary_folder.h"

namespace zero {
namespace {

constexpr std::int64_t kGiB = std::int64_t{1} << 30;

// A fake root folder with 8 GiB of available memory.
class FakeRoot : public ::testing::Test {
 protected:
  void SetUp() override {
    write("/proc/meminfo", "MemTotal: 16777216 kB\nMemFree: 1024 kB\nMemAvailable: 8388608 kB\n");
  }

  void write(const std::string& path, const std::string& text) const {
    const std::filesystem::path full = root_ + path;
    std::filesystem::create_directories(full.parent_path());
    std::ofstream(full) << text;
  }
  void write(const std::string& path, std::int64_t number) const { write(path, std::to_string(number) + "\n"); }

  const TemporaryFolder folder_;
  const std::string root_ = folder_.path().string();
};

TEST_F(FakeRoot, AvailableIsMemInfoWithoutGroups) {
  EXPECT_EQ(available_memory(root_), 8 * kGiB);
}

TEST_F(FakeRoot, Version2CountsUnreclaimableUse) {
  write("/proc/self/cgroup", "0::/job\n");
  write("/sys/fs/cgroup/job/memory.max", 4 * kGiB);
  write("/sys/fs/cgroup/job/memory.current", 3 * kGiB);
  EXPECT_EQ(available_memory(root_), kGiB);
  write("/sys/fs/cgroup/job/memory.stat", "anon 5\ninactive_file_x 9\ninactive_file 1073741824\n");
  EXPECT_EQ(available_memory(root_), 2 * kGiB);
}

// Above memory.high the kernel delays a group until it has freed memory.
TEST_F(FakeRoot, ThrottledGroupHasNoRoom) {
  write("/proc/self/cgroup", "0::/job\n");
  write("/sys/fs/cgroup/job/memory.max", "max\n");
  write("/sys/fs/cgroup/job/memory.current", kGiB);
  EXPECT_EQ(memory_limit(root_), std::numeric_limits<std::int64_t>::max());
  write("/sys/fs/cgroup/job/memory.high", 3 * kGiB);
  EXPECT_EQ(available_memory(root_), 2 * kGiB);
  EXPECT_EQ(memory_limit(root_), 3 * kGiB);
  write("/sys/fs/cgroup/job/memory.max", 2 * kGiB);
  EXPECT_EQ(available_memory(root_), kGiB);
}

TEST_F(FakeRoot, PressureIsTheWorseOfBoth) {
  EXPECT_EQ(memory_pressure(root_), 0) << "the kernel does not report it";
  write("/proc/self/cgroup", "0::/job\n");
  write("/proc/pressure/memory",
        "some avg10=1.25 avg60=9.00 avg300=9.00 total=7\nfull avg10=8.00 avg60=0 avg300=0 total=0\n");
  EXPECT_DOUBLE_EQ(memory_pressure(root_), 1.25);
  write("/sys/fs/cgroup/job/memory.pressure", "some avg10=33.10 avg60=0.00 avg300=0.00 total=7\n");
  EXPECT_DOUBLE_EQ(memory_pressure(root_), 33.1);
  write("/sys/fs/cgroup/job/memory.pressure", "nonsense\n");
  EXPECT_DOUBLE_EQ(memory_pressure(root_), 1.25);
}

TEST_F(FakeRoot, ParentLimitHolds) {
  write("/proc/self/cgroup", "0::/slice/job\n");
  write("/sys/fs/cgroup/slice/job/memory.max", "max\n");
  write("/sys/fs/cgroup/slice/job/memory.current", kGiB);
  write("/sys/fs/cgroup/slice/memory.max", 2 * kGiB);
  write("/sys/fs/cgroup/slice/memory.current", kGiB);
  EXPECT_EQ(available_memory(root_), kGiB);
}

TEST_F(FakeRoot, ContainersRootGroupIsLimited) {
  write("/proc/self/cgroup", "0::/docker/0123abcd\n");  // the host's name of the group, which does not exist here
  write("/sys/fs/cgroup/memory.max", 2 * kGiB);
  write("/sys/fs/cgroup/memory.current", 0);
  EXPECT_EQ(available_memory(root_), 2 * kGiB);
}

TEST_F(FakeRoot, Version1UsesTheMemoryController) {
  write("/proc/self/cgroup", "9:name=systemd:/\n4:cpu,memory:/job\n3:memory_x:/other\n0::/\n");
  write("/sys/fs/cgroup/memory/job/memory.limit_in_bytes", 4 * kGiB);
  write("/sys/fs/cgroup/memory/job/memory.usage_in_bytes", kGiB);
  write("/sys/fs/cgroup/memory/job/memory.stat", "inactive_file 7\ntotal_inactive_file 524288000\n");
  EXPECT_EQ(available_memory(root_), 3 * kGiB + 524288000);
}

TEST_F(FakeRoot, Version1WithoutLimitIsHuge) {
  write("/proc/self/cgroup", "4:memory:/\n");
  write("/sys/fs/cgroup/memory/memory.limit_in_bytes", std::int64_t{0x7ffffffffffff000});
  write("/sys/fs/cgroup/memory/memory.usage_in_bytes", kGiB);
  EXPECT_EQ(available_memory(root_), 8 * kGiB);
}

TEST_F(FakeRoot, GroupOverItsLimitHasNothing) {
  write("/proc/self/cgroup", "0::/\n");
  write("/sys/fs/cgroup/memory.max", kGiB);
  write("/sys/fs/cgroup/memory.current", 2 * kGiB);
  EXPECT_EQ(available_memory(root_), 0);
}

TEST_F(FakeRoot, MissingMemInfoThrowsIoError) {
  EXPECT_THROW(available_memory(root_ + "/nowhere"), IoError);
  write("/proc/meminfo", "MemTotal: 16777216 kB\n");
  EXPECT_THROW(available_memory(root_), IoError);
}

TEST(Machine, HasMemoryWithinTheInstalled) {
  const std::int64_t installed = std::int64_t{sysconf(_SC_PHYS_PAGES)} * sysconf(_SC_PAGESIZE);
  EXPECT_GT(available_memory(), 0);
  EXPECT_LT(available_memory(), installed);
}

TEST(Machine, UsableCoresFollowAffinity) {
  const int before = num_usable_cores();
  EXPECT_GE(before, 1);
  std::thread([before] {  // in its own thread, so this thread keeps its affinity
    const int here = sched_getcpu();
    cpu_set_t one;
    CPU_ZERO(&one);
    CPU_SET(here, &one);
    ASSERT_EQ(sched_setaffinity(0, sizeof one, &one), 0);
    EXPECT_EQ(num_usable_cores(), 1);
  })
      .join();
  EXPECT_EQ(num_usable_cores(), before);
}

}  // namespace
}  // namespace zero
