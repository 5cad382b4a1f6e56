#include "zero/memory/io/timed_calls.h"

#include <condition_variable>
#include <cstring>
#include <memory>
#include <mutex>
#include <vector>

#include <fcntl.h>
#include <gtest/gtest.h>

#include "zero/base/error/error.h"
#include "zero/base/files/file.h"
#include "zero/memory/disk/disk_seam.h"
#include "zero/memory/disk/disk_tier.h"

#include "tests/support/message_of.h"
#include "tests/support/temporary_folder.h"

namespace zero {
namespace {

constexpr std::chrono::milliseconds kShort{200};
constexpr std::chrono::milliseconds kPatient{1000};
constexpr std::chrono::seconds kLong{60};

// One kind of call hangs until the test releases it. All other calls reach the kernel. The objects live until the
// program ends, because abandoned threads may still use them.
class HangingCalls : public FileCalls {
 public:
  enum class Kind { kTryFolder, kFindRoom, kOpen, kUnlink, kIsInMemory, kPreallocate, kResize, kDirect, kRead };
  static HangingCalls& of(Kind kind) {
    static auto* const all = new std::vector<std::unique_ptr<HangingCalls>>;
    return *all->emplace_back(new HangingCalls(kind));
  }

  int try_folder(const std::string& folder) const override {
    return hang(Kind::kTryFolder), FileCalls::try_folder(folder);
  }
  int find_room(const std::string& folder, Room& room) const override {
    return hang(Kind::kFindRoom), FileCalls::find_room(folder, room);
  }
  int open(const std::string& path, int flags) const override {
    hang(Kind::kOpen);
    const int fd = FileCalls::open(path, flags);
    opened_ = fd;
    return fd;
  }
  int unlink(const std::string& path) const override { return hang(Kind::kUnlink), FileCalls::unlink(path); }
  int is_in_memory(int fd) const override { return hang(Kind::kIsInMemory), FileCalls::is_in_memory(fd); }
  int preallocate(int fd, std::int64_t bytes) const override {
    return hang(Kind::kPreallocate), FileCalls::preallocate(fd, bytes);
  }
  int resize(int fd, std::int64_t bytes) const override { return hang(Kind::kResize), FileCalls::resize(fd, bytes); }
  int set_direct(int fd, bool direct) const override { return hang(Kind::kDirect), FileCalls::set_direct(fd, direct); }
  ssize_t read(int fd, std::span<std::byte> into, std::int64_t offset) const override {
    return hang(Kind::kRead), FileCalls::read(fd, into, offset);
  }

  void release() {
    const std::lock_guard lock(mutex_);
    released_ = true;
    changed_.notify_all();
  }
  int opened() const { return opened_; }

 private:
  explicit HangingCalls(Kind kind) : kind_(kind) {}
  void hang(Kind kind) const {
    if (kind != kind_) return;
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return released_; });
  }

  Kind kind_;
  mutable std::mutex mutex_;
  mutable std::condition_variable changed_;
  bool released_ = false;
  mutable std::atomic<int> opened_ = -1;
};

TEST(TimedCalls, PassCallResultsOn) {
  const TemporaryFolder folder;
  const TimedCalls calls(FileCalls::kernel(), kLong);
  EXPECT_EQ(calls.try_folder(folder.path()), 0);
  EXPECT_EQ(calls.try_folder((folder / "absent").string()), -ENOENT);
  FileCalls::Room room, expected;
  ASSERT_EQ(FileCalls::kernel().find_room(folder.path(), expected), 0);
  EXPECT_EQ(calls.find_room(folder.path(), room), 0);
  EXPECT_EQ(room.device, expected.device);
  const std::string path = folder.write("file", "what is read");
  const FileDescriptor file(calls.open(path, O_RDWR));
  ASSERT_GE(file.get(), 0);
  std::array<std::byte, 64> text{};
  ASSERT_EQ(calls.read(file.get(), text, 5), 7);
  EXPECT_EQ(std::memcmp(text.data(), "is read", 8), 0) << "and no more";
  EXPECT_EQ(calls.resize(file.get(), 4096), 0);
  EXPECT_EQ(calls.is_in_memory(file.get()), FileCalls::kernel().is_in_memory(file.get()));
  EXPECT_EQ(calls.unlink(path), 0);
  EXPECT_EQ(calls.open(path, O_RDWR), -ENOENT);
}

TEST(TimedCalls, MissingDescriptorEndsCall) {
  class NoMoreFiles : public FileCalls {
    int duplicate(int) const override { return -EMFILE; }
    int resize(int, std::int64_t) const override { return ADD_FAILURE() << "of a descriptor it has not", 0; }
  };
  const NoMoreFiles none;
  EXPECT_EQ(TimedCalls(none, kLong).resize(0, 4096), -EMFILE);
}

TEST(TimedCalls, GivesUpEachHangingCall) {
  using Kind = HangingCalls::Kind;
  const TemporaryFolder folder;
  const FileDescriptor file(FileCalls::kernel().open(folder.write("file", "text"), O_RDWR));
  std::array<std::byte, 4> text{};
  const auto result = [&](Kind kind, const auto& call) -> ssize_t {
    HangingCalls& hanging = HangingCalls::of(kind);
    const ssize_t seen = call(TimedCalls(hanging, kShort));
    hanging.release();
    return seen;
  };
  const std::string absent = (folder / "absent").string();
  EXPECT_EQ(result(Kind::kUnlink, [&](const FileCalls& calls) { return calls.unlink(absent); }), -ETIMEDOUT);
  EXPECT_EQ(result(Kind::kResize, [&](const FileCalls& calls) { return calls.resize(file.get(), 4); }), -ETIMEDOUT);
  EXPECT_EQ(result(Kind::kDirect, [&](const FileCalls& calls) { return calls.set_direct(file.get(), false); }),
            -ETIMEDOUT);
  EXPECT_EQ(result(Kind::kRead, [&](const FileCalls& calls) { return calls.read(file.get(), text, 0); }), -ETIMEDOUT);
  EXPECT_EQ(text, (std::array<std::byte, 4>{})) << "a late answer does not change the caller's memory";
}

TEST(TimedCalls, ClosesLateDescriptor) {
  const TemporaryFolder folder;
  HangingCalls& hanging = HangingCalls::of(HangingCalls::Kind::kOpen);
  const std::string path = folder.write("file", "");
  EXPECT_EQ(TimedCalls(hanging, kShort).open(path, O_RDONLY), -ETIMEDOUT);
  hanging.release();
  while (hanging.opened() < 0 || ::fcntl(hanging.opened(), F_GETFD) >= 0) std::this_thread::yield();
}

// Tries every call that creates a tier's files. The error names the path and the operation. The time limit is long
// enough for the other calls on a busy machine.
TEST(TimedCalls, HangingFolderEndsItsTier) {
  using Kind = HangingCalls::Kind;
  struct Case {
    Kind kind;
    const char* said;
  };
  for (const auto& [kind, said] : {Case{Kind::kTryFolder, "does not answer"},
                                   {Kind::kFindRoom, "read the free space"},
                                   {Kind::kOpen, "make a scratch file"},
                                   {Kind::kPreallocate, "preallocation of"},
                                   {Kind::kIsInMemory, "read the file system"}}) {
    SCOPED_TRACE(said);
    const TemporaryFolder folder;
    HangingCalls& hanging = HangingCalls::of(kind);
    const std::string text = message_of<Error>(
        [&] { DiskTier({.paths = {folder.path()}, .bytes = 4096, .timeout = kPatient}, {.files = &hanging}); });
    EXPECT_TRUE(says(text, folder.path().string())) << text;
    EXPECT_TRUE(says(text, said)) << text;
    EXPECT_EQ(folder.num_files(), 0U);
    hanging.release();
  }
}

}  // namespace
}  // namespace zero
