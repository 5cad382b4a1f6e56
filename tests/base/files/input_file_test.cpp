#include "zero/base/files/input_file.h"

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include "zero/base/error/error.h"

#include "tests/support/message_of.h"
#include "tests/support/temporary_folder.h"

namespace zero {
namespace {

std::string read(const InputFile& file, std::int64_t offset, std::size_t bytes) {
  std::string text(bytes, '?');
  file.read_at(offset, std::as_writable_bytes(std::span(text)));
  return text;
}

std::atomic<int> num_calls = 0;

// Reads at most three bytes a call, and a signal interrupts every second call.
ssize_t haltingly(int file, void* out, std::size_t bytes, off_t offset) {
  if (num_calls++ % 2 == 0) {
    errno = EINTR;
    return -1;
  }
  return ::pread(file, out, std::min<std::size_t>(bytes, 3), offset);
}

ssize_t failing(int, void*, std::size_t, off_t) {
  errno = EIO;
  return -1;
}

TEST(InputFile, ReadsAnyPart) {
  const TemporaryFolder folder;
  const InputFile file(folder.write("file", "twelve bytes"));
  EXPECT_EQ(file.size_bytes(), 12);
  EXPECT_EQ(read(file, 7, 5), "bytes");
  EXPECT_EQ(read(file, 0, 6), "twelve");
  EXPECT_EQ(read(file, 12, 0), "");
  EXPECT_EQ(file.read_all(), "twelve bytes");
}

TEST(InputFile, AnEmptyFileHasNoBytes) {
  const TemporaryFolder folder;
  const InputFile file(folder.write("file", ""));
  EXPECT_EQ(file.size_bytes(), 0);
  EXPECT_EQ(file.read_all(), "");
}

TEST(InputFile, FinishesShortAndInterruptedReads) {
  const TemporaryFolder folder;
  const InputFile file(folder.write("file", "twelve bytes"), haltingly);
  num_calls = 0;
  EXPECT_EQ(read(file, 1, 10), "welve byte");
  EXPECT_EQ(num_calls, 8);
}

TEST(InputFile, FailedReadNamesPathAndBytes) {
  const TemporaryFolder folder;
  const auto path = folder.write("file", "twelve bytes");
  const InputFile file(path, failing);
  try {
    read(file, 7, 5);
    FAIL() << "bytes that were never read";
  } catch (const IoError& error) {
    EXPECT_EQ(error.error_number(), EIO);
    EXPECT_EQ(error.what(), path.string() + ": read of 5 bytes at 7: Input/output error");
  }
}

TEST(InputFile, ShrunkenFileIsNamedWithSizes) {
  const TemporaryFolder folder;
  const auto path = folder.write("file", "twelve bytes");
  const InputFile file(path);
  ASSERT_EQ(::truncate(path.c_str(), 8), 0);
  EXPECT_EQ(read(file, 0, 8), "twelve b");
  EXPECT_EQ(
      message_of<IoError>([&] { read(file, 7, 5); }),
      path.string() +
          ": read of 4 bytes at 8: the file became shorter: it ended after 8 bytes, and it had 12 when it was opened");
  ASSERT_EQ(::truncate(path.c_str(), 2), 0);
  EXPECT_TRUE(says(message_of<IoError>([&] { read(file, 7, 5); }), "it ended after 2 bytes, and it had 12"));
  EXPECT_TRUE(says(message_of<IoError>([&] { (void)file.read_all(); }), "read of 10 bytes at 2"));
}

TEST(InputFile, LaterAdditionsAreNotSeen) {
  const TemporaryFolder folder;
  const auto path = folder.write("file", "twelve bytes");
  const InputFile file(path);
  ASSERT_EQ(::truncate(path.c_str(), 20), 0);
  EXPECT_EQ(file.read_all(), "twelve bytes");
  EXPECT_THROW(read(file, 12, 1), InternalError);
  EXPECT_THROW(read(file, 13, 0), InternalError);
  EXPECT_THROW(read(file, -1, 1), InternalError);
}

TEST(InputFile, OutlivesItsNameAndMoves) {
  const TemporaryFolder folder;
  const auto path = folder.write("file", "hello");
  InputFile first(path);
  std::filesystem::remove(path);
  const InputFile second = std::move(first);
  EXPECT_EQ(second.read_all(), "hello");
  EXPECT_EQ(second.path(), path.string());
}

TEST(InputFile, SeveralThreadsReadAtOnce) {
  const TemporaryFolder folder;
  std::string contents;
  for (int i = 0; i < 4096; ++i) contents += static_cast<char>(i % 251);
  const InputFile file(folder.write("file", contents), haltingly);
  std::atomic<int> num_wrong = 0;
  std::vector<std::thread> readers;
  for (std::size_t reader = 0; reader < 4; ++reader)
    readers.emplace_back([&, reader] {
      for (std::size_t at = reader; at + 50 <= contents.size(); at += 50)
        num_wrong += read(file, static_cast<std::int64_t>(at), 50) != contents.substr(at, 50) ? 1 : 0;
    });
  for (auto& reader : readers) reader.join();
  EXPECT_EQ(num_wrong, 0);
}

TEST(InputFile, RefusesWhatIsNoRegularFile) {
  const TemporaryFolder folder;
  ASSERT_EQ(::mkfifo((folder / "pipe").c_str(), 0600), 0);
  EXPECT_TRUE(says(message_of<IoError>([] { InputFile("/no/such/file"); }), "/no/such/file: open: No such file"));
  EXPECT_TRUE(says(message_of<IoError>([] { InputFile("/tmp"); }), "/tmp: open: is not a regular file"));
  EXPECT_TRUE(says(message_of<IoError>([] { InputFile("/dev/zero"); }), "is not a regular file"));
  EXPECT_TRUE(says(message_of<IoError>([&] { InputFile(folder / "pipe"); }), "is not a regular file"));
}

}  // namespace
}  // namespace zero
