#include "zero/memory/io/thread_queue.h"

#include <array>
#include <condition_variable>
#include <fstream>
#include <latch>
#include <mutex>
#include <set>

#include <gtest/gtest.h>
#include <signal.h>
#include <sys/resource.h>

#include "zero/base/error/error.h"
#include "zero/memory/io/scratch_file.h"

#include "tests/memory/failing_calls.h"
#include "tests/memory/filled_pages.h"
#include "tests/support/message_of.h"
#include "tests/support/temporary_folder.h"
#include "tests/support/this_build.h"

namespace zero {
namespace {

using std::chrono::milliseconds;

constexpr std::size_t kPage = 4096;
constexpr milliseconds kPatience{60000};

// A disk whose reads hang until the test lets them go.
class HangingReads : public FileCalls {
 public:
  ssize_t read(int fd, std::span<std::byte> into, std::int64_t offset) const override {
    std::unique_lock lock(mutex_);
    ++num_inside_;
    changed_.notify_all();
    changed_.wait(lock, [&] { return released_; });
    const ssize_t result = FileCalls::read(fd, into, offset);
    --num_inside_;
    changed_.notify_all();
    return result;
  }
  void wait_until_inside(int count) const {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return num_inside_ == count; });
  }
  void release() {
    const std::lock_guard lock(mutex_);
    released_ = true;
    changed_.notify_all();
  }

 private:
  mutable std::mutex mutex_;
  mutable std::condition_variable changed_;
  mutable int num_inside_ = 0;
  bool released_ = false;
};

struct Fixture {
  explicit Fixture(const FileCalls& calls, int depth) : queue(std::make_unique<ThreadQueue>(files, depth, calls)) {}

  void read(std::uint64_t tag) {
    EXPECT_EQ(queue->submit({IoOperation::kRead, 0, static_cast<std::int64_t>(tag * kPage),
                             memory.bytes().subspan(tag * kPage, kPage), tag}),
              0);
  }
  std::vector<IoAnswer> reap(milliseconds wait) {
    std::vector<IoAnswer> answers(8);
    answers.resize(static_cast<std::size_t>(queue->reap(answers, wait)));
    return answers;
  }

  TemporaryFolder folder;
  ScratchFile file{folder.path(), 1 << 20};
  std::array<int, 1> files{file.get()};
  Allocation memory = allocate_host(64 * kPage);
  std::unique_ptr<ThreadQueue> queue;
};

TEST(ThreadQueue, DepthLimitsRequestsInKernel) {
  HangingReads calls;
  Fixture f(calls, 3);
  for (std::uint64_t tag = 0; tag < 5; ++tag) f.read(tag);
  calls.wait_until_inside(3);
  EXPECT_TRUE(f.reap(milliseconds(0)).empty());
  calls.release();
  std::set<std::uint64_t> tags;
  while (tags.size() < 5) {
    for (const IoAnswer& answer : f.reap(kPatience)) {
      EXPECT_EQ(answer.result, static_cast<std::int64_t>(kPage));
      tags.insert(answer.tag);
    }
  }
}

// Runs in its own process, whose address space has room for only a few stacks.
TEST(ThreadQueue, ReportsThreadShortage) {
  if (built::kSanitized) GTEST_SKIP() << "a sanitizer takes addresses of its own";
  const TemporaryFolder folder;
  const ScratchFile file(folder.path(), 1 << 20);
  const auto said = [&] {
    const std::array files{file.get()};
    rlim_t pages = 0;
    std::ifstream("/proc/self/statm") >> pages;
    const rlim_t limit = pages * kPage + (20 << 20);  // a stack has 8 MiB
    const rlimit less{limit, limit};
    if (setrlimit(RLIMIT_AS, &less) != 0) return std::string("no limit");
    try {
      ThreadQueue queue(files, ThreadQueue::kMaxThreads);
    } catch (const IoError& error) {
      return std::string(error.what());
    }
    return std::string("nothing");
  };
  EXPECT_EXIT(
      {
        std::cerr << said();
        std::exit(0);
      },
      testing::ExitedWithCode(0), "threads for the disk: start a thread: Resource temporarily unavailable");
}

TEST(ThreadQueue, CancelsUnbegunRequests) {
  HangingReads calls;
  Fixture f(calls, 1);
  f.read(0);
  calls.wait_until_inside(1);
  f.read(1);
  f.queue->cancel(0);
  EXPECT_TRUE(f.reap(milliseconds(0)).empty()) << "begun";
  f.queue->cancel(1);
  const auto answers = f.reap(kPatience);
  ASSERT_EQ(answers.size(), 1U);
  EXPECT_EQ(answers[0].tag, 1U);
  EXPECT_EQ(answers[0].result, -ECANCELED);
  calls.release();
  EXPECT_EQ(f.reap(kPatience).size(), 1U);
}

TEST(ThreadQueue, LeavesHangingThreadsTheirFile) {
  HangingReads calls;
  {
    Fixture f(calls, 2);
    const Allocation written = filled_pages(kPage, 1);
    ASSERT_EQ(FileCalls::kernel().write(f.file.get(), written.bytes(), 0), static_cast<ssize_t>(kPage));
    f.read(0);
    calls.wait_until_inside(1);
    f.queue.reset();
    const Allocation kept = std::move(f.memory);
    f.file = ScratchFile(f.folder.path(), 1 << 20);
    calls.release();
    calls.wait_until_inside(0);
    EXPECT_TRUE(same_bytes(kept.bytes().first(kPage), written.bytes()));
  }
}

TEST(ThreadQueue, PassesErrorsUnchanged) {
  FailingCalls calls;
  calls.on_read = -EIO;
  Fixture f(calls, 2);
  f.read(0);
  const auto answers = f.reap(kPatience);
  ASSERT_EQ(answers.size(), 1U);
  EXPECT_EQ(answers[0].result, -EIO);
}

TEST(ThreadQueue, WithoutDescriptorsIsNotMade) {
  FailingCalls calls;
  calls.on_duplicate = -EMFILE;
  EXPECT_TRUE(says(message_of<IoError>([&] { Fixture(calls, 2); }), std::strerror(EMFILE)));
}

TEST(ThreadQueue, RegistersNoMemory) {
  Fixture f(FileCalls::kernel(), 1);
  EXPECT_EQ(f.queue->register_memory(f.memory.bytes()), ENOTSUP);
}

TEST(ThreadQueue, ItsThreadsTakeNoSignals) {
  class MaskOfThread : public FileCalls {
   public:
    ssize_t read(int, std::span<std::byte>, std::int64_t) const override {
      sigset_t mask;
      pthread_sigmask(SIG_SETMASK, nullptr, &mask);
      return sigismember(&mask, SIGTERM);
    }
  } const calls;
  Fixture f(calls, 1);
  f.read(0);
  const auto answers = f.reap(kPatience);
  ASSERT_EQ(answers.size(), 1U);
  EXPECT_EQ(answers[0].result, 1);
}

}  // namespace
}  // namespace zero
