#include "zero/memory/disk/disk_room.h"

#include <gtest/gtest.h>

#include "zero/base/error/error.h"

#include "tests/memory/failing_calls.h"
#include "tests/support/message_of.h"
#include "tests/support/temporary_folder.h"

namespace zero {
namespace {

constexpr std::int64_t kMiB = std::int64_t{1} << 20;

TEST(DiskRoom, IsFileSystemsFreeSpace) {
  const TemporaryFolder folder;
  FileCalls::Room room;
  ASSERT_EQ(FileCalls::kernel().find_room(folder.path(), room), 0);
  // Other programs write there meanwhile.
  EXPECT_GT(room_on(std::array{folder.path().string()}), room.free_bytes / 2);
  EXPECT_LT(room_on(std::array{folder.path().string()}), room.free_bytes * 2);
  EXPECT_EQ(folder.num_files(), 0U);
}

TEST(DiskRoom, FoldersOfOneFileSystemShare) {
  const TemporaryFolder one, other;
  FailingCalls calls;
  calls.free_bytes = 100 * kMiB;
  EXPECT_EQ(room_on(std::array{one.path().string()}, calls), 100 * kMiB);
  EXPECT_EQ(room_on(std::array{one.path().string(), other.path().string()}, calls), 100 * kMiB);
}

// With several file systems, the room is the smallest one's room times the number of file systems.
TEST(DiskRoom, LeastFileSystemLimitsAll) {
  class TwoDisks : public FileCalls {
   public:
    int find_room(const std::string& folder, Room& room) const override {
      room = folder == "/a" ? Room{1, 100 * kMiB} : Room{2, 30 * kMiB};
      return 0;
    }
  } calls;
  EXPECT_EQ(room_on(std::array<std::string, 2>{"/a", "/b"}, calls), 60 * kMiB);
  EXPECT_EQ(room_on(std::array<std::string, 3>{"/a", "/a", "/b"}, calls), 90 * kMiB);
  EXPECT_EQ(room_on(std::array<std::string, 3>{"/a", "/b", "/b"}, calls), 45 * kMiB);
}

TEST(DiskRoom, MissingFolderIsUserError) {
  const TemporaryFolder folder;
  FailingCalls calls;
  for (const auto& [error, reason] : {std::pair{ENOENT, "no such folder"},
                                      {ENOTDIR, "is not a folder"},
                                      {EACCES, "this user may not"},
                                      {ETIMEDOUT, "does not answer"}}) {
    calls.on_find_room = -error;
    const std::string text = message_of<ConfigError>([&] { room_on(std::array{folder.path().string()}, calls); });
    EXPECT_TRUE(says(text, "zero.disk = " + folder.path().string() + ": " + reason));
  }
  EXPECT_TRUE(
      says(message_of<ConfigError>([&] { room_on(std::array{(folder / "absent").string()}); }), "no such folder"));
}

// The refusal is a user error.
TEST(DiskRoom, RefusesRelativePathInGoneFolder) {
  const TemporaryFolder folder;
  const auto before = std::filesystem::current_path();
  std::filesystem::create_directory(folder / "gone");
  std::filesystem::current_path(folder / "gone");
  std::filesystem::remove(folder / "gone");
  const std::string text = message_of<ConfigError>([] { room_on(std::array{std::string("disk")}); });
  std::filesystem::current_path(before);
  EXPECT_TRUE(says(text, "zero.disk = disk: no such folder"));
  EXPECT_TRUE(says(text, "does not exist any more"));
}

TEST(DiskRoom, UnknownRoomIsIoError) {
  const TemporaryFolder folder;
  FailingCalls calls;
  for (const int error : {EIO, ELOOP, ENOMEM, EOVERFLOW, ENOSYS, ESTALE}) {
    calls.on_find_room = -error;
    const std::string text = message_of<IoError>([&] { room_on(std::array{folder.path().string()}, calls); });
    EXPECT_EQ(text, folder.path().string() + ": read the free space: " + std::strerror(error));
  }
}

TEST(DiskRoom, BrokenFolderStillExists) {
  const TemporaryFolder folder;
  EXPECT_TRUE(is_folder_here(folder.path()));
  EXPECT_FALSE(is_folder_here(folder / "absent"));
  EXPECT_FALSE(is_folder_here(folder.write("file", "x")));
  FailingCalls calls;
  for (const int error : {EACCES, EROFS, EIO, ELOOP}) {
    calls.on_try_folder = -error;
    EXPECT_TRUE(is_folder_here(folder.path(), calls)) << std::strerror(error);
  }
}

}  // namespace
}  // namespace zero
