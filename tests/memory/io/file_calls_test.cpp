#include "zero/memory/io/file_calls.h"

#include <filesystem>

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "zero/base/files/file.h"

#include "tests/memory/filled_pages.h"
#include "tests/support/temporary_folder.h"

namespace zero {
namespace {

const FileCalls& kernel = FileCalls::kernel();

TEST(FileCalls, TryingFolderLeavesNoTrace) {
  const TemporaryFolder folder;
  EXPECT_EQ(kernel.try_folder(folder.path()), 0);
  EXPECT_EQ(kernel.try_folder(folder / "absent"), -ENOENT);
  EXPECT_EQ(kernel.try_folder(folder.write("file", "")), -ENOTDIR);
  EXPECT_EQ(folder.num_files(), 1U);
}

TEST(FileCalls, OneFileSystemsFoldersShareRoom) {
  const TemporaryFolder one;
  const TemporaryFolder two;
  FileCalls::Room first;
  FileCalls::Room second;
  ASSERT_EQ(kernel.find_room(one.path(), first), 0);
  ASSERT_EQ(kernel.find_room(two.path(), second), 0);
  EXPECT_EQ(first.device, second.device);
  EXPECT_GT(first.free_bytes, 0);
  EXPECT_EQ(kernel.find_room(one / "absent", first), -ENOENT);
}

TEST(FileCalls, WhatIsWrittenIsRead) {
  const TemporaryFolder folder;
  const FileDescriptor file(kernel.open(folder / "file", O_RDWR | O_CREAT));
  ASSERT_GE(file.get(), 0);
  EXPECT_NE(fcntl(file.get(), F_GETFD) & FD_CLOEXEC, 0);
  const Allocation block = filled_pages(4096, 1);
  const Allocation back = allocate_host(4096);
  EXPECT_EQ(kernel.write(file.get(), block.bytes(), 100), 4096);
  EXPECT_EQ(kernel.read(file.get(), back.bytes(), 100), 4096);
  EXPECT_TRUE(same_bytes(block.bytes(), back.bytes()));
  EXPECT_EQ(kernel.read(file.get(), back.bytes(), 96), 4096);
  EXPECT_EQ(kernel.read(file.get(), back.bytes(), 5000), 0) << "behind the end";
}

TEST(FileCalls, NameStaysInItsFolder) {
  const TemporaryFolder folder;
  std::filesystem::create_directories(folder / "in/deeper");
  folder.write("outside", "x");
  folder.write("in/file", "x");
  std::filesystem::create_symlink("file", folder / "in/link");
  const FileDescriptor in(kernel.open(folder / "in", O_RDONLY | O_DIRECTORY));
  const FileDescriptor file(kernel.open_in(in.get(), "file", O_RDONLY));
  ASSERT_GE(file.get(), 0);
  EXPECT_NE(fcntl(file.get(), F_GETFD) & FD_CLOEXEC, 0);
  EXPECT_EQ(kernel.open_in(in.get(), "nothing", O_RDONLY), -ENOENT);
  EXPECT_EQ(kernel.open_in(in.get(), "link", O_RDONLY), -ELOOP);
  EXPECT_EQ(kernel.open_in(in.get(), "../outside", O_RDONLY), -EXDEV);
  EXPECT_EQ(kernel.open_in(in.get(), folder / "outside", O_RDONLY), -EXDEV);
  EXPECT_EQ(kernel.open_in(in.get(), "deeper/../../outside", O_RDONLY), -EXDEV);
  EXPECT_EQ(kernel.open_in(in.get(), "..", O_RDONLY), -EXDEV);
}

TEST(FileCalls, PreallocatedBytesLeaveTheDisk) {
  const TemporaryFolder folder;
  const FileDescriptor file(kernel.open(folder / "file", O_RDWR | O_CREAT));
  ASSERT_EQ(kernel.resize(file.get(), 1 << 20), 0);
  struct stat info {};
  ASSERT_EQ(fstat(file.get(), &info), 0);
  EXPECT_EQ(info.st_size, 1 << 20);
  EXPECT_LT(info.st_blocks * 512, 1 << 20);
  if (const int result = kernel.preallocate(file.get(), 1 << 20); result == -EOPNOTSUPP)
    GTEST_SKIP() << "the file system of the temporary folder does not preallocate";
  ASSERT_EQ(fstat(file.get(), &info), 0);
  EXPECT_GE(info.st_blocks * 512, 1 << 20);
}

TEST(FileCalls, ADuplicateIsTheSameFile) {
  const TemporaryFolder folder;
  FileDescriptor file(kernel.open(folder / "file", O_RDWR | O_CREAT));
  const FileDescriptor again(kernel.duplicate(file.get()));
  ASSERT_GE(again.get(), 0);
  EXPECT_NE(fcntl(again.get(), F_GETFD) & FD_CLOEXEC, 0);
  const Allocation block = filled_pages(4096, 1);
  EXPECT_EQ(kernel.write(file.get(), block.bytes(), 0), 4096);
  file = FileDescriptor();
  EXPECT_EQ(kernel.read(again.get(), block.bytes(), 0), 4096);
}

TEST(FileCalls, MemoryFileSystemsAreKnown) {
  const TemporaryFolder folder;
  const FileDescriptor on_disk(kernel.open(folder / "file", O_RDWR | O_CREAT));
  EXPECT_GE(kernel.is_in_memory(on_disk.get()), 0);
  const FileDescriptor in_memory(memfd_create("zero-test", MFD_CLOEXEC));
  EXPECT_EQ(kernel.is_in_memory(in_memory.get()), 1);
}

TEST(FileCalls, DirectIsSwitchedOnAndOff) {
  const TemporaryFolder folder;
  const FileDescriptor file(kernel.open(folder / "file", O_RDWR | O_CREAT));
  if (kernel.set_direct(file.get(), true) < 0) GTEST_SKIP() << "the temporary folder's file system has no O_DIRECT";
  EXPECT_NE(fcntl(file.get(), F_GETFL) & O_DIRECT, 0);
  EXPECT_EQ(kernel.set_direct(file.get(), false), 0);
  EXPECT_EQ(fcntl(file.get(), F_GETFL) & O_DIRECT, 0);
}

TEST(FileCalls, ErrorsAreNegativeErrnoValues) {
  const TemporaryFolder folder;
  const Allocation page = allocate_host(4096);
  EXPECT_EQ(kernel.open(folder / "absent", O_RDONLY), -ENOENT);
  EXPECT_EQ(kernel.unlink(folder / "absent"), -ENOENT);
  EXPECT_EQ(kernel.is_in_memory(-1), -EBADF);
  EXPECT_EQ(kernel.preallocate(-1, 4096), -EBADF);
  EXPECT_EQ(kernel.resize(-1, 4096), -EBADF);
  EXPECT_EQ(kernel.set_direct(-1, true), -EBADF);
  EXPECT_EQ(kernel.duplicate(-1), -EBADF);
  EXPECT_EQ(kernel.read(-1, page.bytes(), 0), -EBADF);
  EXPECT_EQ(kernel.write(-1, page.bytes(), 0), -EBADF);
}

}  // namespace
}  // namespace zero
