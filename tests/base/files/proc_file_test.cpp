#include "zero/base/files/proc_file.h"

#include <cerrno>

#include <gtest/gtest.h>

#include "zero/base/error/error.h"

namespace zero {
namespace {

TEST(ProcFile, FindsFieldByWholeName) {
  constexpr std::string_view kText =
      "VmPeak:\t   10 kB\nVmRSSx:\t 7 kB\nxVmRSS: 8 kB\nVmRSS:\t    5184 kB\nThreads:\t1\n";
  EXPECT_EQ(field_kib(kText, "VmRSS"), 5184 * 1024);
  EXPECT_EQ(field_kib(kText, "VmPeak"), 10 * 1024);
  EXPECT_EQ(field_kib(kText, "VmHWM"), std::nullopt);
}

TEST(ProcFile, TheLastLineNeedsNoEnd) {
  EXPECT_EQ(field_kib("a: 1 kB\nPss: 3 kB", "Pss"), 3072);
}

TEST(ProcFile, LineWithoutNumberIsNoField) {
  EXPECT_EQ(field_kib("VmRSS: none\n", "VmRSS"), std::nullopt);
  EXPECT_EQ(field_kib("VmRSS:", "VmRSS"), std::nullopt);
  EXPECT_EQ(field_kib("", "VmRSS"), std::nullopt);
}

TEST(ProcFile, ReadsFilesWithoutSize) {
  const std::string maps = read_proc_file("/proc/self/smaps");  // many blocks of 4 KiB
  EXPECT_GT(maps.size(), 8192U);
  EXPECT_NE(maps.find("[vdso]"), std::string::npos) << "near its end";
}

TEST(ProcFile, MissingFileIsErrorOrNothing) {
  EXPECT_EQ(try_read_proc_file("/proc/self/no_such_file"), std::nullopt);
  try {
    read_proc_file("/proc/self/no_such_file");
    FAIL();
  } catch (const IoError& error) {
    EXPECT_EQ(error.error_number(), ENOENT);
  }
  EXPECT_THROW(read_proc_file("/proc/self"), IoError) << "a folder opens but does not read";
}

}  // namespace
}  // namespace zero
