// Limits that a user without root meets: little lockable memory, forbidden io_uring, a file system in memory.
// Everything works, and each process warns once. Each test starts a new process for that.
#include <cstdlib>
#include <filesystem>

#include <gtest/gtest.h>
#include <linux/capability.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "zero/memory/disk/disk_places.h"
#include "zero/memory/io/uring_queue.h"

#include "tests/memory/filled_pages.h"
#include "tests/support/occurrences.h"
#include "tests/support/temporary_folder.h"

namespace zero {
namespace {

constexpr std::size_t kPage = DiskTier::kPageBytes;
constexpr std::int64_t kMiB = 1 << 20;

// Root may lock any amount of memory, so the process gives up that capability.
bool give_up_locking() {
  __user_cap_header_struct header{_LINUX_CAPABILITY_VERSION_3, 0};
  __user_cap_data_struct data[2]{};
  if (::syscall(SYS_capget, &header, data) != 0) return false;
  data[0].effective &= ~(1U << CAP_IPC_LOCK);
  return ::syscall(SYS_capset, &header, data) == 0;
}

// The kernel counts the locked memory of all processes of a user. Root therefore becomes a user without other processes
// for a while.
class Alone {
 public:
  explicit Alone(const std::string& folder) {
    const auto user = static_cast<uid_t>(20000 + ::getpid() % 20000);
    if (is_root_) is_alone_ = ::chown(folder.c_str(), user, user) == 0 && ::setresuid(user, user, 0) == 0;
  }
  ~Alone() {
    if (is_root_ && ::seteuid(0) != 0) std::abort();
  }
  Alone(const Alone&) = delete;
  Alone& operator=(const Alone&) = delete;
  explicit operator bool() const { return is_alone_; }

 private:
  const bool is_root_ = ::geteuid() == 0;
  bool is_alone_ = true;
};

bool moves(DiskTier& disk, std::span<std::byte> block) {
  const Allocation back = allocate_host(block.size());
  const std::int64_t at = disk.reserve(static_cast<std::int64_t>(block.size()));
  disk.write(at, block).wait();
  disk.read(at, back.bytes()).wait();
  return std::memcmp(back.data(), block.data(), block.size()) == 0;
}

class SaidOnce : public testing::Test {
 protected:
  void SetUp() override {
    GTEST_FLAG_SET(death_test_style, "threadsafe");  // start a new process
    if (const char* level = std::getenv("ZERO_LOG_LEVEL")) level_ = level;
    ::setenv("ZERO_LOG_LEVEL", "warn", 1);
  }
  void TearDown() override { level_ ? ::setenv("ZERO_LOG_LEVEL", level_->c_str(), 1) : ::unsetenv("ZERO_LOG_LEVEL"); }
  static int uring_refusal() {
    const std::array<int, 1> files{STDIN_FILENO};
    return open_uring_queue(files, 1).error;
  }
  static auto once() { return testing::ExitedWithCode(1); }
  std::string folder() const { return folder_.path().string(); }

  // Exits with the number of times that `said` was printed, so 1 is once. The folder belongs to this process.
  template <typename Body>
  [[noreturn]] void exit_with_count(std::string_view said, Body body) const {
    testing::internal::CaptureStderr();
    bool worked = false;
    std::string error;
    try {
      worked = body();
    } catch (const std::exception& thrown) {
      error = thrown.what();
    }
    const std::string text = testing::internal::GetCapturedStderr();
    std::fputs((text + error).c_str(), stderr);
    std::error_code ignored;
    std::filesystem::remove_all(folder_.path(), ignored);
    std::_Exit(worked ? occurrences(said, text) : 100);
  }

  // Makes tiers one after the other with sixteen blocks each. Between `least` and `most` of them must be locked.
  [[noreturn]] void lock_many(rlim_t limit, int num_tiers, int least, int most) const {
    exit_with_count(": io_uring ", [&] {
      const rlimit memlock{limit, limit};
      const Alone alone(folder());
      if (!alone || !give_up_locking() || ::setrlimit(RLIMIT_MEMLOCK, &memlock) != 0) return false;
      bool good = true;
      for (int tier = 0; tier < num_tiers; ++tier) {
        DiskTier disk({.paths = {folder()}, .bytes = 16 * kMiB});
        std::vector<Allocation> blocks;
        int num_locked = 0;
        for (int i = 0; i < 16; ++i) {
          blocks.push_back(filled_pages(static_cast<std::size_t>(kMiB), static_cast<std::uint64_t>(i)));
          num_locked += disk.register_memory(blocks.back().bytes()) ? 1 : 0;
          good = good && moves(disk, blocks.back().bytes());
        }
        good = good && num_locked >= least && num_locked <= most;
        good = good && (disk.describe().find("registered buffers") != std::string::npos) == (num_locked > 0);
      }
      return good;
    });
  }

  TemporaryFolder folder_;
  std::optional<std::string> level_;
};

// 8 MiB of lockable memory are used, and the other blocks work unlocked.
TEST_F(SaidOnce, SmallLockLimitIsUsed) {
  if (uring_refusal() != 0) GTEST_SKIP() << "io_uring is refused here";
  EXPECT_EXIT(lock_many(8 * kMiB, 2, 4, 8), once(), "io_uring does not lock 1.00 MiB of memory.*ulimit -l");
}

TEST_F(SaidOnce, TinyLockLimitServesAlike) {
  if (uring_refusal() != 0) GTEST_SKIP() << "io_uring is refused here";
  EXPECT_EXIT(lock_many(65536, 1, 0, 0), once(), "io_uring does not lock .*Cannot allocate memory.*ulimit -l");
  // Some kernels also count the rings. The tier then uses threads.
  EXPECT_EXIT(lock_many(0, 3, 0, 0), once(), "Cannot allocate memory.*ulimit -l");
}

class ForbiddenUring : public UringCalls {
 public:
  int set_up(unsigned, io_uring&) const override { return -EPERM; }
};

// One warning for any number of tiers.
TEST_F(SaidOnce, ForbiddenIoUringWarnsOnce) {
  const auto make_many = [&] {
    exit_with_count("io_uring is refused", [&] {
      const ForbiddenUring calls;
      Ledger ledger;
      DiskPlaces places({.paths = {folder()}}, ledger, MemoryTag::kActivation, {.uring = &calls});
      bool good = true;
      for (int i = 0; i < 3; ++i) {
        (void)places.take(DiskPlaces::kSlabBytes);  // one slab each
        DiskTier disk({.paths = {folder()}, .bytes = kMiB}, {.uring = &calls});
        const Allocation page = filled_pages(kPage, 1);
        good = good && disk.describe().starts_with("threads") && moves(disk, page.bytes());
      }
      return good;
    });
  };
  EXPECT_EXIT(make_many(), once(), "io_uring is refused here .Operation not permitted.");
}

TEST_F(SaidOnce, DisklessFolderWarnsOnce) {
  if (FileCalls::kernel().try_folder("/dev/shm") != 0) GTEST_SKIP() << "there is no /dev/shm to write to";
  const auto make_many = [this] {
    exit_with_count("no O_DIRECT here", [] {
      bool good = true;
      for (int i = 0; i < 3; ++i) {
        DiskTier disk({.paths = {"/dev/shm", "/dev/shm"}, .bytes = 4 * kMiB});
        const Allocation page = filled_pages(kPage, 1);
        good = good && moves(disk, page.bytes());
      }
      return good;
    });
  };
  EXPECT_EXIT(make_many(), once(), "/dev/shm: no O_DIRECT here");
}

}  // namespace
}  // namespace zero
