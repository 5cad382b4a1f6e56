#include "zero/memory/io/uring_queue.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <liburing.h>
#include <sys/uio.h>
#include <unistd.h>

#include "zero/base/error/error.h"
#include "zero/base/files/file.h"
#include "zero/memory/io/scratch_file.h"

#include "tests/memory/filled_pages.h"
#include "tests/support/temporary_folder.h"

namespace zero {
namespace {

using std::chrono::milliseconds;

constexpr std::size_t kPage = 4096;
constexpr milliseconds kPatience{60000};

// Refuses calls on request, a given number of times (-1: always). Records the operations that reach the kernel.
class WatchedCalls : public UringCalls {
 public:
  struct Refusal {
    int result = 0;
    mutable int times = -1;
    bool applies() const { return result != 0 && times != 0 && (times < 0 || times-- > 0); }
  };
  Refusal on_set_up, on_register_files, on_make_table, on_set_buffer, on_submit, on_wait;
  mutable std::vector<int> operations;
  mutable std::vector<bool> registered_files;

  int set_up(unsigned entries, io_uring& ring) const override {
    return on_set_up.applies() ? on_set_up.result : UringCalls::set_up(entries, ring);
  }
  int register_files(io_uring& ring, std::span<const int> files) const override {
    return on_register_files.applies() ? on_register_files.result : UringCalls::register_files(ring, files);
  }
  int make_buffer_table(io_uring& ring, unsigned slots) const override {
    return on_make_table.applies() ? on_make_table.result : UringCalls::make_buffer_table(ring, slots);
  }
  int set_buffer(io_uring& ring, unsigned slot, const iovec& buffer) const override {
    return on_set_buffer.applies() ? on_set_buffer.result : UringCalls::set_buffer(ring, slot, buffer);
  }
  int submit(io_uring& ring) const override {
    if (on_submit.applies()) return on_submit.result;
    for (unsigned i = ring.sq.sqe_head; i != ring.sq.sqe_tail; ++i) {
      const io_uring_sqe& entry = ring.sq.sqes[i & *ring.sq.kring_mask];
      operations.push_back(entry.opcode);
      registered_files.push_back((entry.flags & IOSQE_FIXED_FILE) != 0);
    }
    return UringCalls::submit(ring);
  }
  int wait(io_uring& ring, milliseconds limit) const override {
    return on_wait.applies() ? on_wait.result : UringCalls::wait(ring, limit);
  }
};

class UringQueue : public testing::Test {
 protected:
  void SetUp() override {
    const std::array<int, 1> files{file_.get()};
    if (const int error = open_uring_queue(files, 4).error; error != 0)
      GTEST_SKIP() << "io_uring is refused here: " << std::strerror(error);
  }
  std::unique_ptr<IoQueue> open() {
    const std::array<int, 1> files{file_.get()};
    UringOpening opening = open_uring_queue(files, 4, calls_);
    EXPECT_EQ(opening.error, 0);
    return std::move(opening.queue);
  }
  static IoRequest write(std::span<std::byte> pages, std::uint64_t tag = 1) {
    return {IoOperation::kWrite, 0, 0, pages, tag};
  }
  static IoRequest read(std::span<std::byte> pages, std::uint64_t tag = 2) {
    return {IoOperation::kRead, 0, 0, pages, tag};
  }
  // The result of the next answer, or the queue's own error.
  static std::int64_t next_answer(IoQueue& queue) {
    std::array<IoAnswer, 1> answer;
    int count = 0;
    while (count == 0) count = queue.reap(answer, kPatience);
    return count < 0 ? count : answer[0].result;
  }

  TemporaryFolder folder_;
  ScratchFile file_{folder_.path(), 1 << 20};
  WatchedCalls calls_;
};

TEST(UringQueueRefused, SaysWhy) {
  const std::array<int, 1> files{STDIN_FILENO};
  for (const int error : {EPERM, ENOSYS, ENOMEM}) {
    WatchedCalls calls;
    calls.on_set_up.result = -error;
    const UringOpening opening = open_uring_queue(files, 4, calls);
    EXPECT_EQ(opening.queue, nullptr);
    EXPECT_EQ(opening.error, error);
  }
}

TEST_F(UringQueue, RegistersItsFiles) {
  const auto queue = open();
  const Allocation page = filled_pages(kPage, 1);
  EXPECT_EQ(queue->submit(write(page.bytes())), 0);
  EXPECT_EQ(next_answer(*queue), static_cast<std::int64_t>(kPage));
  EXPECT_EQ(calls_.operations, std::vector<int>{IORING_OP_WRITE});
  EXPECT_EQ(calls_.registered_files, std::vector<bool>{true});
}

TEST_F(UringQueue, TakesUnregisteredFiles) {
  calls_.on_register_files.result = -EMFILE;
  const auto queue = open();
  const Allocation page = filled_pages(kPage, 1);
  EXPECT_EQ(queue->submit(write(page.bytes())), 0);
  EXPECT_EQ(next_answer(*queue), static_cast<std::int64_t>(kPage));
  EXPECT_EQ(calls_.registered_files, std::vector<bool>{false});
}

TEST_F(UringQueue, UsesRegisteredMemory) {
  const auto queue = open();
  const Allocation first = filled_pages(4 * kPage, 1);
  const Allocation second = filled_pages(4 * kPage, 2);
  const Allocation other = allocate_host(kPage);
  if (const int error = queue->register_memory(first.bytes()); error != 0)
    GTEST_SKIP() << "16 KiB of memory cannot be locked: " << std::strerror(error);
  ASSERT_EQ(queue->register_memory(second.bytes()), 0) << "a second block, beside the first";
  for (const auto& request :
       {write(second.bytes().subspan(kPage, kPage)), read(first.bytes().first(kPage)), read(other.bytes())}) {
    EXPECT_EQ(queue->submit(request), 0);
    EXPECT_EQ(next_answer(*queue), static_cast<std::int64_t>(kPage));
  }
  EXPECT_EQ(calls_.operations, (std::vector<int>{IORING_OP_WRITE_FIXED, IORING_OP_READ_FIXED, IORING_OP_READ}));
  EXPECT_TRUE(same_bytes(first.bytes().first(kPage), second.bytes().subspan(kPage, kPage)));
  EXPECT_TRUE(same_bytes(other.bytes(), second.bytes().subspan(kPage, kPage)));
}

TEST_F(UringQueue, WorksWithoutLockableMemory) {
  calls_.on_make_table = {-EINVAL, 1};  // like a kernel without the call
  calls_.on_set_buffer.result = -ENOMEM;
  const auto queue = open();
  const Allocation page = filled_pages(kPage, 1);
  for (const int error : {EINVAL, ENOMEM}) {
    EXPECT_EQ(queue->register_memory(page.bytes()), error);
    EXPECT_EQ(queue->submit(write(page.bytes())), 0);
    EXPECT_EQ(next_answer(*queue), static_cast<std::int64_t>(kPage));
  }
  EXPECT_EQ(calls_.operations, (std::vector<int>{IORING_OP_WRITE, IORING_OP_WRITE}));
}

TEST_F(UringQueue, KeepsRegistrationsPastLimit) {
  const auto queue = open();
  const Allocation page = filled_pages(kPage, 1);
  const Allocation more = filled_pages(kPage, 2);
  if (const int error = queue->register_memory(page.bytes()); error != 0)
    GTEST_SKIP() << "4 KiB of memory cannot be locked: " << std::strerror(error);
  calls_.on_set_buffer = {-ENOMEM, 1};
  EXPECT_EQ(queue->register_memory(more.bytes()), ENOMEM);
  for (const Allocation* memory : {&page, &more}) {
    EXPECT_EQ(queue->submit(write(memory->bytes())), 0);
    EXPECT_EQ(next_answer(*queue), static_cast<std::int64_t>(kPage));
  }
  EXPECT_EQ(calls_.operations, (std::vector<int>{IORING_OP_WRITE_FIXED, IORING_OP_WRITE}));
}

TEST_F(UringQueue, RegistersMemoryUnderOtherRequests) {
  const auto queue = open();
  const Allocation first = filled_pages(kPage, 1);
  const Allocation second = filled_pages(kPage, 2);
  EXPECT_EQ(queue->submit(write(first.bytes())), 0);
  if (const int error = queue->register_memory(second.bytes()); error != 0)
    GTEST_SKIP() << "4 KiB of memory cannot be locked: " << std::strerror(error);
  EXPECT_EQ(next_answer(*queue), static_cast<std::int64_t>(kPage));
  EXPECT_EQ(queue->submit(write(second.bytes())), 0);
  EXPECT_EQ(next_answer(*queue), static_cast<std::int64_t>(kPage));
  queue->forget_memory(second.bytes());
  EXPECT_EQ(queue->submit(write(second.bytes())), 0);
  EXPECT_EQ(next_answer(*queue), static_cast<std::int64_t>(kPage));
  EXPECT_EQ(calls_.operations, (std::vector<int>{IORING_OP_WRITE, IORING_OP_WRITE_FIXED, IORING_OP_WRITE}));
}

TEST_F(UringQueue, RegistersReturnedAddressesAgain) {
  const auto queue = open();
  const Allocation page = filled_pages(kPage, 1);
  for (int round = 0; round < 3000; ++round) {  // more often than the table has slots
    if (const int error = queue->register_memory(page.bytes()); error != 0)
      GTEST_SKIP() << "4 KiB of memory cannot be locked: " << std::strerror(error);
    queue->forget_memory(page.bytes());
  }
  // If the kernel does not empty a slot, the slot is lost. Memory that is later allocated at its address does not use
  // it.
  ASSERT_EQ(queue->register_memory(page.bytes()), 0);
  calls_.on_set_buffer = {-ENXIO, 1};
  queue->forget_memory(page.bytes());
  EXPECT_EQ(queue->submit(write(page.bytes())), 0);
  EXPECT_EQ(next_answer(*queue), static_cast<std::int64_t>(kPage));
  EXPECT_EQ(calls_.operations, std::vector<int>{IORING_OP_WRITE});
}

TEST_F(UringQueue, DelaysRequestsBeyondKernelRoom) {
  for (const int error : {EAGAIN, EBUSY, EINTR}) {
    const auto queue = open();
    calls_.on_submit = {-error, 3};
    const Allocation page = filled_pages(kPage, 1);
    EXPECT_EQ(queue->submit(write(page.bytes())), 0) << std::strerror(error);
    EXPECT_EQ(next_answer(*queue), static_cast<std::int64_t>(kPage));
    EXPECT_EQ(calls_.on_submit.times, 0);
  }
}

TEST_F(UringQueue, ARefusedSubmissionIsTheLast) {
  const auto queue = open();
  const Allocation page = filled_pages(kPage, 1);
  calls_.on_submit = {-EBADF, 1};
  EXPECT_EQ(queue->submit(write(page.bytes())), EBADF);
  EXPECT_EQ(queue->submit(write(page.bytes())), EBADF) << "else the kernel would also get the first request";
  queue->cancel(1);
  EXPECT_TRUE(calls_.operations.empty());
}

TEST_F(UringQueue, DelayedRefusalIsQueueError) {
  const auto queue = open();
  const Allocation page = filled_pages(kPage, 1);
  calls_.on_submit = {-EAGAIN, 1};
  EXPECT_EQ(queue->submit(write(page.bytes())), 0);
  calls_.on_submit = {-EBADF, 1};
  EXPECT_EQ(next_answer(*queue), -EBADF);
}

TEST_F(UringQueue, InterruptedWaitHasNoAnswers) {
  const auto queue = open();
  std::array<IoAnswer, 1> answer;
  for (const int error : {EINTR, ETIME, EAGAIN}) {
    calls_.on_wait = {-error, 1};
    EXPECT_EQ(queue->reap(answer, kPatience), 0);
  }
  calls_.on_wait = {-EBADF, 1};
  EXPECT_EQ(queue->reap(answer, kPatience), -EBADF);
}

// Reads of an empty pipe hang like those of a hanging disk.
class HangingUringQueue : public UringQueue {
 protected:
  void SetUp() override {
    UringQueue::SetUp();
    if (IsSkipped()) return;
    int ends[2];
    ASSERT_EQ(pipe2(ends, O_CLOEXEC), 0);
    read_end_ = FileDescriptor(ends[0]);
    write_end_ = FileDescriptor(ends[1]);
    const std::array<int, 1> files{ends[0]};
    queue_ = open_uring_queue(files, 4).queue;
    ASSERT_NE(queue_, nullptr);
    ASSERT_EQ(queue_->submit(read(page_.bytes(), 7)), 0);
  }

  FileDescriptor read_end_;
  FileDescriptor write_end_;
  Allocation page_ = allocate_host(kPage);
  std::unique_ptr<IoQueue> queue_;
};

TEST_F(HangingUringQueue, HasNoAnswer) {
  std::array<IoAnswer, 1> answer;
  EXPECT_EQ(queue_->reap(answer, milliseconds(5)), 0);
}

TEST_F(HangingUringQueue, AnswersWhatIsCalledOff) {
  queue_->cancel(7);
  const std::int64_t result = next_answer(*queue_);
  EXPECT_TRUE(result == -ECANCELED || result == -EINTR) << result;
  std::array<IoAnswer, 1> answer;
  EXPECT_EQ(queue_->reap(answer, milliseconds(5)), 0) << "the cancellation's own answer is dropped";
}

TEST_F(HangingUringQueue, IsDestroyedWithoutWaiting) {
  queue_.reset();
  EXPECT_EQ(::write(write_end_.get(), "late", 4), 4);
}

}  // namespace
}  // namespace zero
