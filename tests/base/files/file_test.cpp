#include "zero/base/files/file.h"

#include <cerrno>
#include <sstream>
#include <string>
#include <thread>
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

std::span<const std::byte> bytes_of(std::string_view text) {
  return std::as_bytes(std::span(text));
}

TEST(FileDescriptor, IsClosedByItsOwnerOnly) {
  int number = -1;
  {
    FileDescriptor first = FileDescriptor::open("/dev/null", O_RDONLY);
    number = first.get();
    const FileDescriptor second = std::move(first);
    EXPECT_EQ(second.get(), number);
    EXPECT_EQ(first.get(), -1);
    EXPECT_NE(::fcntl(number, F_GETFD), -1);
  }
  EXPECT_EQ(::fcntl(number, F_GETFD), -1);
}

TEST(FileDescriptor, IsNotInheritedByPrograms) {
  const FileDescriptor file = FileDescriptor::open("/dev/null", O_RDONLY);
  EXPECT_NE(::fcntl(file.get(), F_GETFD) & FD_CLOEXEC, 0);
}

TEST(FileDescriptor, FailedOpenNamesThePath) {
  EXPECT_TRUE(says(message_of<IoError>([] { FileDescriptor::open("/no/such/file", O_RDONLY); }),
                   "/no/such/file: open: No such file"));
}

TEST(ReadFile, GivesEveryByteBack) {
  const TemporaryFolder folder;
  std::string contents;
  for (int i = 0; i < 200'000; ++i) contents.push_back(static_cast<char>(i * 31));
  EXPECT_EQ(read_file(folder.write("bytes", contents)), contents);
  EXPECT_EQ(read_file(folder.write("empty", "")), "");
}

TEST(ReadFile, ReadsFilesThatReportNoSize) {
  EXPECT_TRUE(says(read_file("/proc/self/status"), "VmRSS"));
}

TEST(ReadFile, AFolderIsAnError) {
  EXPECT_TRUE(says(message_of<IoError>([] { read_file("/tmp"); }), "/tmp: read: Is a directory"));
}

TEST(WriteFile, ReplacesContents) {
  const TemporaryFolder folder;
  const auto path = folder.write("config.toml", "an old and longer text");
  write_file(path, "new");
  EXPECT_EQ(read_file(path), "new");
  EXPECT_EQ(folder.num_files(), 1u);
}

TEST(WriteFile, HasPermissionsOfANewFile) {
  const TemporaryFolder folder;
  const mode_t mask = ::umask(0);
  ::umask(mask);
  write_file(folder / "file", "x");
  struct stat info {};
  ASSERT_EQ(::stat((folder / "file").c_str(), &info), 0);
  EXPECT_EQ(info.st_mode & 0777, 0666 & ~mask);
}

TEST(WriteFile, MissingFolderNamesTheFile) {
  EXPECT_TRUE(says(message_of<IoError>([] { write_file("/no/such/folder/file", "x"); }), "/no/such/folder/file"));
}

TEST(WriteFile, WorksInTheCurrentFolder) {
  const TemporaryFolder folder;
  const auto before = std::filesystem::current_path();
  std::filesystem::current_path(folder.path());
  write_file("plain", "x");
  std::filesystem::current_path(before);
  EXPECT_EQ(read_file(folder / "plain"), "x");
}

TEST(AtomicFile, TheOldFileStaysUntilCommit) {
  const TemporaryFolder folder;
  const auto path = folder.write("model", "old");
  AtomicFile file(path);
  file.write_at(0, bytes_of("new"));
  EXPECT_EQ(read_file(path), "old");
  file.commit();
  EXPECT_EQ(read_file(path), "new");
}

TEST(AtomicFile, WithoutCommitNothingIsLeft) {
  const TemporaryFolder folder;
  {
    AtomicFile file(folder / "model");
    file.write_at(0, bytes_of("half"));
    EXPECT_EQ(folder.num_files(), 1u);
  }
  EXPECT_EQ(folder.num_files(), 0u);
}

TEST(AtomicFile, HasTheRequestedPermissions) {
  const TemporaryFolder folder;
  write_file(folder / "file", "x", {.durable = false, .mode = 0600});
  struct stat info {};
  ASSERT_EQ(::stat((folder / "file").c_str(), &info), 0);
  EXPECT_EQ(info.st_mode & 0777, 0600u);
  EXPECT_EQ(folder.num_files(), 1u);
  EXPECT_EQ(read_file(folder / "file"), "x");
}

TEST(ReadAtMost, ReadsFirstBytesOrAll) {
  const TemporaryFolder folder;
  const FileDescriptor file = FileDescriptor::open(folder.write("file", "twelve bytes"), O_RDONLY);
  EXPECT_EQ(read_at_most(file.get(), 6, "file"), "twelve");
  EXPECT_EQ(read_at_most(file.get(), 100, "file"), "twelve bytes") << "from the beginning again";
  EXPECT_EQ(read_at_most(file.get(), 0, "file"), "");
  EXPECT_TRUE(says(message_of<IoError>([] { read_at_most(-1, 1, "the name"); }), "the name"));
}

TEST(MakePrivateFolder, PrivateAndKeepsAnExistingOne) {
  const TemporaryFolder folder;
  const auto mode = [](const std::filesystem::path& path) {
    struct stat info {};
    EXPECT_EQ(::stat(path.c_str(), &info), 0);
    return info.st_mode & 0777;
  };
  EXPECT_FALSE(make_private_folder(folder / "new"));
  EXPECT_EQ(mode(folder / "new"), 0700u);
  ASSERT_EQ(::chmod((folder / "new").c_str(), 0755), 0);
  EXPECT_FALSE(make_private_folder(folder / "new"));
  EXPECT_EQ(mode(folder / "new"), 0755u);
  EXPECT_EQ(make_private_folder(folder / "no/such/folder"), std::errc::no_such_file_or_directory);
}

TEST(AtomicFile, PiecesMayComeInAnyOrder) {
  const TemporaryFolder folder;
  AtomicFile file(folder / "model");
  file.write_at(4, bytes_of("last"));
  file.write_at(0, bytes_of("fir"));
  file.commit();
  EXPECT_EQ(read_file(folder / "model"), std::string("fir\0last", 8));
}

TEST(AtomicFile, TwoWritersDoNotMix) {
  const TemporaryFolder folder;
  AtomicFile first(folder / "model"), second(folder / "model");
  first.write_at(0, bytes_of("1111"));
  second.write_at(0, bytes_of("22"));
  second.commit();
  EXPECT_EQ(read_file(folder / "model"), "22");
  first.commit();
  EXPECT_EQ(read_file(folder / "model"), "1111");
  EXPECT_EQ(folder.num_files(), 1u);
}

TEST(AtomicFile, IgnoresAKilledWritersFile) {
  const TemporaryFolder folder;
  folder.write("model.tmp-" + std::to_string(::getpid()) + "-0", "left");
  AtomicFile file(folder / "model");
  file.write_at(0, bytes_of("x"));
  file.commit();
  EXPECT_EQ(read_file(folder / "model"), "x");
  EXPECT_EQ(folder.num_files(), 2u);
}

TEST(AtomicFile, FolderNameFailsAtCommit) {
  const TemporaryFolder folder;
  std::filesystem::create_directory(folder / "model");
  {
    AtomicFile file(folder / "model");
    EXPECT_TRUE(says(message_of<IoError>([&] { file.commit(); }), "model: rename"));
  }
  EXPECT_EQ(folder.num_files(), 1u);
}

TEST(AtomicFile, CommitIsFinal) {
  const TemporaryFolder folder;
  AtomicFile file(folder / "model");
  file.commit();
  EXPECT_THROW(file.commit(), InternalError);
  EXPECT_THROW(file.write_at(0, bytes_of("x")), InternalError);
}

TEST(AppendFile, AddsToWhatIsThere) {
  const TemporaryFolder folder;
  const auto path = folder.write("metrics.jsonl", "one\n");
  AppendFile file(path);
  file.append("two\n");
  file.append("three\n");
  file.sync();
  EXPECT_EQ(read_file(path), "one\ntwo\nthree\n");
}

TEST(AppendFile, LinesOfSeveralWritersStayWhole) {
  const TemporaryFolder folder;
  const auto path = folder / "metrics.jsonl";
  std::vector<std::thread> writers;
  for (const char letter : {'a', 'b', 'c'})
    writers.emplace_back([&, letter] {
      AppendFile file(path);
      for (int i = 0; i < 100; ++i) file.append(std::string(50, letter) + "\n");
    });
  for (auto& writer : writers) writer.join();
  std::istringstream lines(read_file(path));
  int count = 0;
  for (std::string line; std::getline(lines, line); ++count) ASSERT_EQ(line, std::string(50, line[0]));
  EXPECT_EQ(count, 300);
}

TEST(AppendFile, FullDiskNamesTheSize) {
  AppendFile file("/dev/full");
  try {
    file.append("some text");
    FAIL() << "the write was lost silently";
  } catch (const IoError& error) {
    EXPECT_EQ(error.error_number(), ENOSPC);
    EXPECT_TRUE(says(error.what(), "/dev/full: write of 9 bytes: No space left"));
  }
}

TEST(RequireInputFile, AcceptsFilesAndLinks) {
  const TemporaryFolder folder;
  const auto path = folder.write("input.txt", "");
  std::filesystem::create_symlink(path, folder / "link");
  EXPECT_NO_THROW(require_input_file("data.path", path));
  EXPECT_NO_THROW(require_input_file("data.path", folder / "link"));
}

TEST(RequireInputFile, NamesTheKeyAndReason) {
  const TemporaryFolder folder;
  const auto reason = [](const std::filesystem::path& path) {
    return message_of<ConfigError>([&] { require_input_file("data.path", path); });
  };
  EXPECT_TRUE(says(reason(""), "data.path: no file was given"));
  EXPECT_TRUE(says(reason("input.txt"), "data.path = input.txt: no such file\n  Check the spelling; paths are"));
  EXPECT_TRUE(says(reason(folder.path()), "is a folder"));
  EXPECT_TRUE(says(reason("/dev/null"), "is not a regular file"));
  EXPECT_TRUE(says(reason(folder.write("plain", "") / "below"), "no such file"));
}

TEST(RequireOutputFile, AcceptsNewAndReplacedFiles) {
  const TemporaryFolder folder;
  EXPECT_NO_THROW(require_output_file("-o", folder / "new"));
  EXPECT_NO_THROW(require_output_file("-o", folder.write("old", "x")));
  EXPECT_NO_THROW(require_output_file("-o", "in-this-folder"));
}

// A new file replaces the path, which would destroy /dev/null.
TEST(RequireOutputFile, RefusesDevicesPipesAndFolders) {
  const TemporaryFolder folder;
  const auto reason = [](const std::filesystem::path& path) {
    return message_of<ConfigError>([&] { require_output_file("-o", path); });
  };
  EXPECT_TRUE(says(reason("/dev/null"), "-o = /dev/null: is not a regular file"));
  std::filesystem::create_symlink("/dev/null", folder / "link");
  EXPECT_TRUE(says(reason(folder / "link"), "is not a regular file"));
  EXPECT_TRUE(says(reason(folder.path()), "is a folder"));
  EXPECT_TRUE(says(reason(folder / "absent" / "new"), "there is no folder " + (folder / "absent").native()));
  EXPECT_TRUE(says(reason(""), "no file was given"));
}

TEST(RequireInputFile, RefusesUnreadableFiles) {
  if (::geteuid() == 0) GTEST_SKIP() << "root may read everything";
  const TemporaryFolder folder;
  const auto path = folder.write("secret", "x");
  std::filesystem::permissions(path, std::filesystem::perms::none);
  EXPECT_TRUE(
      says(message_of<ConfigError>([&] { require_input_file("model.init", path); }), "this user may not read it"));
}

}  // namespace
}  // namespace zero
