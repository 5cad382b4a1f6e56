#include "zero/memory/io/scratch_file.h"

#include <array>

#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include "zero/base/error/error.h"

#include "tests/memory/failing_calls.h"
#include "tests/memory/filled_pages.h"
#include "tests/support/message_of.h"
#include "tests/support/temporary_folder.h"

namespace zero {
namespace {

constexpr std::int64_t kMiB = 1 << 20;

struct stat status_of(const ScratchFile& file) {
  struct stat info {};
  EXPECT_EQ(fstat(file.get(), &info), 0);
  return info;
}

void expect_room(const TemporaryFolder& folder, std::int64_t bytes, const FileCalls& calls = FileCalls::kernel()) {
  require_room(std::array{ScratchSize{folder.path(), bytes}}, calls);
}

TEST(ScratchFile, HasAllBytesAndNoName) {
  const TemporaryFolder folder;
  const ScratchFile file(folder.path(), 3 * kMiB);
  EXPECT_EQ(folder.num_files(), 0U);
  EXPECT_EQ(status_of(file).st_nlink, 0U);
  EXPECT_EQ(status_of(file).st_size, 3 * kMiB);
  EXPECT_GE(status_of(file).st_blocks * 512, 3 * kMiB);
  EXPECT_EQ(file.folder(), folder.path());
}

TEST(ScratchFile, TakesPagesAndGivesThemBack) {
  const TemporaryFolder folder;
  const ScratchFile file(folder.path(), kMiB);
  const Allocation block = filled_pages(8192, 1);
  const Allocation back = allocate_host(8192);
  ASSERT_EQ(pwrite(file.get(), block.data(), 8192, 4096), 8192);
  ASSERT_EQ(pread(file.get(), back.data(), 8192, 4096), 8192);
  EXPECT_TRUE(same_bytes(block.bytes(), back.bytes()));
  EXPECT_EQ(file.direct(), (fcntl(file.get(), F_GETFL) & O_DIRECT) != 0);
}

TEST(ScratchFile, DisklessFileSystemUsesPageCache) {
  if (!std::filesystem::is_directory("/dev/shm") || FileCalls::kernel().try_folder("/dev/shm") != 0)
    GTEST_SKIP() << "there is no /dev/shm to write to";
  const ScratchFile file("/dev/shm", kMiB);
  EXPECT_FALSE(file.direct());
  const Allocation block = filled_pages(4096, 1);
  EXPECT_EQ(pwrite(file.get(), block.data(), 4096, 0), 4096);
}

// The file system has no unnamed files.
TEST(ScratchFile, FallbackUnlinksNameAtOnce) {
  const TemporaryFolder folder;
  FailingCalls calls;
  for (const int refusal : {-EOPNOTSUPP, -EISDIR}) {
    calls.on_unnamed = refusal;
    calls.names_taken = 2;  // names that other programs took
    const ScratchFile file(folder.path(), kMiB, calls);
    EXPECT_EQ(calls.names_taken, 0);
    EXPECT_EQ(folder.num_files(), 0U);
    EXPECT_EQ(status_of(file).st_nlink, 0U);
    EXPECT_EQ(status_of(file).st_size, kMiB);
  }
}

TEST(ScratchFile, PageCacheReplacesMissingODirect) {
  const TemporaryFolder folder;
  FailingCalls calls;
  calls.on_direct = -EINVAL;
  EXPECT_FALSE(ScratchFile(folder.path(), kMiB, calls).direct());
}

// The file system accepts O_DIRECT at open() but refuses requests.
TEST(ScratchFile, PageCacheReplacesRefusingODirect) {
  const TemporaryFolder folder;
  FailingCalls calls;
  if (!ScratchFile(folder.path(), kMiB).direct()) GTEST_SKIP() << "the temporary folder has no O_DIRECT to refuse";
  calls.on_read = -EINVAL;
  const ScratchFile file(folder.path(), kMiB, calls);
  EXPECT_FALSE(file.direct());
  EXPECT_EQ(fcntl(file.get(), F_GETFL) & O_DIRECT, 0);
  calls.on_buffered = -EPERM;
  EXPECT_TRUE(says(message_of<IoError>([&] { ScratchFile(folder.path(), kMiB, calls); }), "leave O_DIRECT"));
}

TEST(ScratchFile, WithoutPreallocationIsOnlyAsLong) {
  const TemporaryFolder folder;
  FailingCalls calls;
  calls.on_preallocate = -EOPNOTSUPP;
  const ScratchFile file(folder.path(), kMiB, calls);
  EXPECT_EQ(status_of(file).st_size, kMiB);
  EXPECT_LT(status_of(file).st_blocks * 512, kMiB);
}

// The error names the folder and the reason.
TEST(ScratchFile, RefusalsAreIoErrorsWithReason) {
  const TemporaryFolder folder;
  const auto message = [&](int FailingCalls::*call, int result, bool named = false) {
    FailingCalls calls;
    if (named) calls.on_unnamed = -EOPNOTSUPP;
    calls.*call = result;
    const std::string text = message_of<IoError>([&] { ScratchFile(folder.path(), kMiB, calls); });
    EXPECT_TRUE(says(text, folder.path().native()));
    EXPECT_TRUE(says(text, std::strerror(-result)));
    return text;
  };
  EXPECT_TRUE(says(message(&FailingCalls::on_unnamed, -EMFILE), "make a scratch file"));
  EXPECT_TRUE(says(message(&FailingCalls::on_create, -EROFS, true), "make a scratch file"));
  EXPECT_TRUE(says(message(&FailingCalls::on_preallocate, -ENOSPC), "preallocation of 1,048,576 bytes"));
  EXPECT_TRUE(says(message(&FailingCalls::on_preallocate, -EDQUOT), "preallocation of 1,048,576 bytes"));
  EXPECT_TRUE(says(message(&FailingCalls::on_is_in_memory, -EIO), "read the file system"));
  EXPECT_EQ(folder.num_files(), 0U);
  EXPECT_TRUE(says(message(&FailingCalls::on_unlink, -EPERM, true), "remove"));
  EXPECT_EQ(folder.num_files(), 1U) << "the message names the file that could not be removed";
}

// The file can be neither preallocated nor resized.
TEST(ScratchFile, RefusesUnresizableFile) {
  const TemporaryFolder folder;
  FailingCalls calls;
  calls.on_preallocate = -EOPNOTSUPP;
  calls.on_resize = -EFBIG;
  EXPECT_TRUE(says(message_of<IoError>([&] { ScratchFile(folder.path(), kMiB, calls); }), std::strerror(EFBIG)));
}

TEST(ScratchFile, RefusesUnreadableDisk) {
  const TemporaryFolder folder;
  if (!ScratchFile(folder.path(), kMiB).direct()) GTEST_SKIP() << "without O_DIRECT nothing is read";
  FailingCalls calls;
  calls.on_read = -EIO;
  EXPECT_TRUE(says(message_of<IoError>([&] { ScratchFile(folder.path(), kMiB, calls); }), "first read"));
}

TEST(RequireRoom, AcceptsFolderWithRoom) {
  const TemporaryFolder folder;
  expect_room(folder, kMiB);
  EXPECT_EQ(folder.num_files(), 0U);
}

TEST(RequireRoom, UnwritableFoldersAreUserErrors) {
  const TemporaryFolder folder;
  const auto message = [&](const std::string& name, int refusal) {
    FailingCalls calls;
    calls.on_try_folder = refusal;
    const auto text = message_of<ConfigError>([&] { require_room(std::array{ScratchSize{name, kMiB}}, calls); });
    EXPECT_TRUE(says(text, "zero.disk = " + name));
    return text;
  };
  EXPECT_TRUE(says(message(folder / "absent", 0), "no such folder"));
  EXPECT_TRUE(says(message(folder.write("file", "x"), 0), "is not a folder"));
  EXPECT_TRUE(says(message(folder.path(), -EACCES), "this user may not write"));
  EXPECT_TRUE(says(message(folder.path(), -EROFS), "Read-only"));
}

TEST(RequireRoom, NamesFreeAndRequestedBytes) {
  const TemporaryFolder folder;
  FailingCalls calls;
  calls.free_bytes = 3 * kMiB;
  const auto text = message_of<ConfigError>([&] { expect_room(folder, 5 * kMiB, calls); });
  EXPECT_TRUE(says(
      text, "zero.disk = " + folder.path().native() + ": only 3.00 MiB are free, and 5.00 MiB are needed for files"));
  expect_room(folder, 3 * kMiB, calls);
}

TEST(RequireRoom, AddsUpOneFileSystem) {
  const TemporaryFolder one;
  const TemporaryFolder two;
  FailingCalls calls;
  calls.free_bytes = 5 * kMiB;
  const std::array sizes{ScratchSize{one.path(), 3 * kMiB}, ScratchSize{two.path(), 3 * kMiB}};
  const auto text = message_of<ConfigError>([&] { require_room(sizes, calls); });
  EXPECT_TRUE(says(text, "6.00 MiB"));
  EXPECT_TRUE(says(text, one.path().native() + ", " + two.path().native()));
}

TEST(RequireRoom, CountsFilesOfMachinesRanks) {
  const TemporaryFolder folder;
  FailingCalls calls;
  calls.free_bytes = 5 * kMiB;
  const std::array sizes{ScratchSize{folder.path(), 2 * kMiB}};
  require_room(sizes, calls, 2);
  const auto text = message_of<ConfigError>([&] { require_room(sizes, calls, 3); });
  EXPECT_TRUE(says(text, "only 5.00 MiB are free, and 6.00 MiB are needed for files of 3 ranks"));
}

TEST(RequireRoom, SilentFileSystemIsIoError) {
  const TemporaryFolder folder;
  FailingCalls calls;
  calls.on_find_room = -EIO;
  EXPECT_TRUE(says(message_of<IoError>([&] { expect_room(folder, kMiB, calls); }), folder.path().native()));
}

}  // namespace
}  // namespace zero
