#include "zero/memory/disk/disk_requests.h"

#include <gtest/gtest.h>
#include <rapidcheck.h>
#include <rapidcheck/gtest.h>

#include "zero/base/process/clock.h"

#include "tests/memory/filled_pages.h"
#include "tests/memory/scripted_queue.h"
#include "tests/support/message_of.h"

namespace zero {
namespace {

using std::chrono::milliseconds;
using Account = DiskRequests::Account;

constexpr std::size_t kPage = 4096;
constexpr milliseconds kPatience{60000};
constexpr milliseconds kImpatience{20};

struct Fixture {
  explicit Fixture(milliseconds timeout = kPatience, int depth = 4)
      : requests(disk.queue(), {.folders = {"/nvme0", "/nvme1"}, .depth = depth, .timeout = timeout}) {}

  void write(std::int64_t offset, std::span<std::byte> memory, Account& account) {
    requests.start({.operation = IoOperation::kWrite, .file = 1, .offset = offset, .memory = memory}, account);
  }
  void read(std::int64_t offset, std::span<std::byte> memory, Account& account) {
    requests.start({.operation = IoOperation::kRead, .file = 1, .offset = offset, .memory = memory}, account);
  }
  // Writes and reads back. Returns the first error, or a message if the bytes differ.
  std::string round_trip(std::size_t bytes) {
    const Allocation block = filled_pages(bytes, 1);
    const Allocation back = allocate_host(bytes);
    Account account;
    write(8192, block.bytes(), account);
    requests.wait(account);
    if (account.error) return account.error->what();
    read(8192, back.bytes(), account);
    requests.wait(account);
    if (account.error) return account.error->what();
    return same_bytes(block.bytes(), back.bytes()) ? "" : "other bytes came back";
  }
  std::string error_of_read() {
    const Allocation page = allocate_host(kPage);
    Account account;
    read(0, page.bytes(), account);
    requests.wait(account);
    EXPECT_EQ(account.open, 0);
    return account.error ? account.error->what() : "";
  }

  ScriptedDisk disk;
  DiskRequests requests;
};

TEST(DiskRequests, BytesGoThereAndComeBack) {
  Fixture f;
  EXPECT_EQ(f.round_trip(3 * kPage), "");
  EXPECT_EQ(f.disk.asked.size(), 2U);
  EXPECT_EQ(f.requests.read_bytes(), static_cast<std::int64_t>(3 * kPage));
  EXPECT_EQ(f.requests.written_bytes(), static_cast<std::int64_t>(3 * kPage));
  EXPECT_EQ(f.requests.num_under_way(), 0);
}

// After any short answer the next request begins on a page, and finally all bytes are right.
RC_GTEST_PROP(DiskRequests, ContinueShortAnswersFromPage, ()) {
  Fixture f;
  const auto shares = *rc::gen::container<std::vector<int>>(rc::gen::inRange(1, 101));
  std::size_t next = 0;
  bool aligned = true;
  f.disk.answer = [&](const IoRequest& request) {
    aligned = aligned && request.offset % kPage == 0 && request.memory.size() % kPage == 0 &&
              reinterpret_cast<std::uintptr_t>(request.memory.data()) % kPage == 0;
    const auto bytes = static_cast<std::int64_t>(request.memory.size());
    if (next >= shares.size()) return bytes;
    return std::min(bytes, std::max<std::int64_t>(bytes * shares[next++] / 100, static_cast<std::int64_t>(kPage) + 13));
  };
  RC_ASSERT(f.round_trip(16 * kPage) == "");
  RC_ASSERT(aligned);
}

TEST(DiskRequests, InterruptionsAreRepeated) {
  for (const int error : {EINTR, EAGAIN, ECANCELED}) {
    Fixture f;
    int refusals = 3;
    f.disk.answer = [&](const IoRequest& request) {
      return refusals-- > 0 ? -error : static_cast<std::int64_t>(request.memory.size());
    };
    EXPECT_EQ(f.round_trip(2 * kPage), "") << std::strerror(error);
    EXPECT_EQ(f.disk.asked.size(), 5U);
  }
}

TEST(DiskRequests, ErrorsNameFolderOperationBytesOffset) {
  for (const int error : {EIO, ENOSPC, ENODEV}) {
    Fixture f;
    f.disk.answer = [&](const IoRequest&) { return -error; };
    const std::string text = f.round_trip(2 * kPage);
    EXPECT_TRUE(says(text, "/nvme1: write of 8,192 bytes at 8,192: "));
    EXPECT_TRUE(says(text, std::strerror(error)));
    EXPECT_EQ(f.disk.asked.size(), 1U);
  }
}

TEST(DiskRequests, AccountKeepsItsFirstError) {
  Fixture f;
  const Allocation block = filled_pages(2 * kPage, 1);
  f.disk.answer = [](const IoRequest& request) { return request.offset == 0 ? -EIO : -ENOSPC; };
  Account account;
  f.write(0, block.bytes().first(kPage), account);
  f.write(kPage, block.bytes().subspan(kPage), account);
  EXPECT_EQ(account.open, 2);
  f.requests.wait(account);
  ASSERT_TRUE(account.error);
  EXPECT_EQ(account.error->error_number(), EIO);
}

TEST(DiskRequests, AccountsDoNotShareErrors) {
  Fixture f;
  const Allocation block = filled_pages(2 * kPage, 1);
  f.disk.answer = [](const IoRequest& request) { return request.offset == 0 ? -EIO : std::int64_t{kPage}; };
  Account fails;
  Account works;
  f.write(0, block.bytes().first(kPage), fails);
  f.write(kPage, block.bytes().subspan(kPage), works);
  f.requests.wait(works);
  f.requests.wait(fails);
  EXPECT_FALSE(works.error);
  EXPECT_TRUE(fails.error);
}

TEST(DiskRequests, EmptyAnswersEndInError) {
  for (const std::int64_t result : {0, 1, 4095}) {
    Fixture f;
    f.disk.answer = [&](const IoRequest&) { return result; };
    EXPECT_TRUE(says(f.error_of_read(), "/nvme1: read of 4,096 bytes at 0"));
    EXPECT_LT(f.disk.asked.size(), 20U);
  }
}

// The kernel always refuses for lack of resources.
TEST(DiskRequests, EndlessShortageEndsInError) {
  Fixture f(kImpatience);
  f.disk.answer = [](const IoRequest&) { return -EAGAIN; };
  EXPECT_TRUE(says(f.error_of_read(), "again and again"));
}

TEST(DiskRequests, ThatCannotBeStartedHaveFailed) {
  Fixture f;
  f.disk.submit_error = EBADF;
  EXPECT_TRUE(says(f.error_of_read(), "the request was refused"));
  EXPECT_EQ(f.requests.num_under_way(), 0);
  f.disk.submit_error = 0;
  EXPECT_EQ(f.error_of_read(), "") << "the next request works";
}

TEST(DiskRequests, SilentQueueFailsAllRequests) {
  Fixture f;
  f.disk.reap_error = EBADF;
  EXPECT_TRUE(says(f.error_of_read(), "/nvme0: wait for scripted: Bad file descriptor"));
  f.disk.reap_error = 0;
  EXPECT_TRUE(says(f.error_of_read(), "wait for scripted")) << "all later requests also fail";
}

TEST(DiskRequests, TimeoutFailsThemAndLaterOnes) {
  Fixture f(kImpatience);
  f.disk.answer = [](const IoRequest&) { return ScriptedDisk::kNever; };
  EXPECT_TRUE(says(f.error_of_read(), "/nvme1: read of 4,096 bytes at 0: no answer for 0.02 s"));
  EXPECT_EQ(f.requests.num_under_way(), 1) << "the kernel may still use its memory";
  const Allocation page = allocate_host(kPage);
  Account later;
  f.read(kPage, page.bytes(), later);
  EXPECT_EQ(later.open, 0);
  ASSERT_TRUE(later.error);
  EXPECT_TRUE(says(later.error->what(), "no answer"));
}

TEST(DiskRequests, TimelyCancellationHasNoAnswer) {
  Fixture f(kImpatience);
  f.disk.answer = [](const IoRequest&) { return ScriptedDisk::kNever; };
  f.disk.answer_to_cancel = [](const IoRequest&) { return -ECANCELED; };
  EXPECT_TRUE(says(f.error_of_read(), "no answer for 0.02 s"));
  EXPECT_EQ(f.requests.num_under_way(), 0);
}

// If a process was stopped for a minute, its answers are there when it continues. They do not count as late.
TEST(DiskRequests, LateCancellationIsAnswered) {
  Fixture f(kImpatience);
  f.disk.answer = [](const IoRequest&) { return ScriptedDisk::kNever; };
  f.disk.answer_to_cancel = [](const IoRequest& request) { return static_cast<std::int64_t>(request.memory.size()); };
  EXPECT_EQ(f.round_trip(2 * kPage), "");
}

TEST(DiskRequests, AnsweredLongAgoAreNotLate) {
  Fixture f(milliseconds(1));
  const Allocation page = allocate_host(kPage);
  Account account;
  f.read(0, page.bytes(), account);
  std::this_thread::sleep_for(milliseconds(5));  // longer than the time limit of an answer
  f.requests.wait(account);
  EXPECT_FALSE(account.error);
}

// The first answer is short and old. The rest of the request gets the full time limit.
TEST(DiskRequests, OldRetryGetsFullTime) {
  for (const std::int64_t first : {std::int64_t{-EINTR}, std::int64_t{kPage}}) {
    Fixture f(kImpatience);
    const Allocation block = filled_pages(2 * kPage, 1);
    f.disk.answer = [&](const IoRequest& request) {
      return f.disk.asked.size() == 1 ? first : static_cast<std::int64_t>(request.memory.size());
    };
    Account account;
    f.write(0, block.bytes(), account);
    std::this_thread::sleep_for(2 * kImpatience);  // a long computation
    f.requests.wait(account);
    EXPECT_FALSE(account.error) << account.error->what();
    EXPECT_EQ(f.disk.asked.size(), 2U);
  }
}

TEST(DiskRequests, AreNeverMoreThanTheDepth) {
  Fixture f(kPatience, 3);
  const Allocation block = filled_pages(10 * kPage, 1);
  Account account;
  for (std::size_t i = 0; i < 10; ++i)
    f.write(static_cast<std::int64_t>(i * kPage), block.bytes().subspan(i * kPage, kPage), account);
  EXPECT_LE(account.open, 3);
  f.requests.wait(account);
  EXPECT_EQ(f.disk.most_under_way, 3U);
  EXPECT_EQ(f.requests.written_bytes(), static_cast<std::int64_t>(10 * kPage));
}

TEST(DiskRequests, HangingOnesDoNotBlockOthers) {
  Fixture f(kImpatience, 1);
  f.disk.answer = [](const IoRequest&) { return ScriptedDisk::kNever; };
  const Allocation block = filled_pages(2 * kPage, 1);
  Account first;
  Account second;
  f.write(0, block.bytes().first(kPage), first);
  f.write(kPage, block.bytes().subspan(kPage), second);
  EXPECT_TRUE(first.error && second.error);
  EXPECT_EQ(first.open + second.open, 0);
}

TEST(DiskRequests, PollDoesNotWait) {
  Fixture f;
  const Allocation block = filled_pages(2 * kPage, 1);
  f.disk.answer = [](const IoRequest& request) {
    return request.offset == 0 ? std::int64_t{kPage} : ScriptedDisk::kNever;
  };
  f.disk.answer_to_cancel = [](const IoRequest&) { return std::int64_t{kPage}; };
  Account answered;
  Account unanswered;
  f.write(0, block.bytes().first(kPage), answered);
  f.write(kPage, block.bytes().subspan(kPage), unanswered);
  f.requests.poll();
  EXPECT_EQ(answered.open, 0);
  EXPECT_EQ(unanswered.open, 1);
  f.requests.queue().cancel(1);
  f.requests.wait(unanswered);
}

TEST(DiskRequests, InspectBytesWhenMoved) {
  ScriptedDisk disk;
  std::vector<std::int64_t> places;
  DiskRequests requests(
      disk.queue(),
      {.folders = {"/nvme0"}, .depth = 2, .inspect = [&](const DiskRequest& request) -> std::optional<IoError> {
         places.push_back(request.place);
         return request.place == 7 ? std::optional(requests.error_of(request, 0, "bad")) : std::nullopt;
       }});
  const Allocation page = filled_pages(kPage, 1);
  for (const std::int64_t place : {6, 7}) {
    Account account;
    requests.start({.operation = IoOperation::kWrite, .memory = page.bytes(), .place = place}, account);
    requests.wait(account);
    EXPECT_EQ(account.error.has_value(), place == 7);
  }
  EXPECT_EQ(places, (std::vector<std::int64_t>{6, 7}));
}

// Two reads of the same place are allowed.
TEST(DiskRequests, SamePlaceTwiceIsOurBug) {
  Fixture f;
  const Allocation block = filled_pages(4 * kPage, 1);
  Account account;
  f.read(0, block.bytes().first(kPage), account);
  f.read(0, block.bytes().subspan(kPage, kPage), account);
  EXPECT_THROW(f.write(0, block.bytes().subspan(2 * kPage, kPage), account), InternalError);
  f.write(kPage, block.bytes().subspan(3 * kPage, kPage), account);
  EXPECT_THROW(f.read(0, block.bytes().first(2 * kPage), account), InternalError);
  f.requests.wait(account);
  f.write(0, block.bytes(), account);
  f.requests.wait(account);
  EXPECT_FALSE(account.error);
}

TEST(DiskRequests, AreWaitedForBeforeTheyGo) {
  ScriptedDisk disk;
  const Allocation page = filled_pages(kPage, 1);
  Account account;
  {
    DiskRequests requests(disk.queue(), {.folders = {"/nvme0"}});
    requests.start({.operation = IoOperation::kWrite, .memory = page.bytes()}, account);
    EXPECT_EQ(account.open, 1);
  }
  EXPECT_EQ(account.open, 0);
  EXPECT_FALSE(account.error);
}

TEST(DiskRequests, TimelineShowsThemUntilAnswered) {
  Timeline timeline;
  timeline.start();
  ScriptedDisk disk;
  bool first = true;
  disk.answer = [&](const IoRequest& request) {  // the first answer is short, so a second request asks for the rest
    return std::exchange(first, false) ? 4096 : static_cast<std::int64_t>(request.memory.size());
  };
  DiskRequests requests(disk.queue(), {.folders = {"/nvme0"}, .timeline = &timeline});
  const Allocation block = filled_pages(4 * kPage, 1);
  Account account;
  const auto piece = [&](std::size_t page, std::size_t pages) {
    return block.bytes().subspan(page * kPage, pages * kPage);
  };
  requests.start({.operation = IoOperation::kWrite, .memory = piece(0, 3), .unit = 5}, account);
  EXPECT_TRUE(timeline.spans().empty());
  requests.wait(account);
  requests.start({.operation = IoOperation::kRead, .memory = piece(3, 1)}, account);
  requests.wait(account);
  ASSERT_EQ(timeline.spans().size(), 2U) << "one span for each request, with any number of answers";
  const TimelineSpan& write = timeline.spans()[0];
  const TimelineSpan& read = timeline.spans()[1];
  EXPECT_EQ(write.activity, Activity::kDiskWrite);
  EXPECT_EQ(write.unit, 5);
  EXPECT_EQ(write.bytes, static_cast<std::int64_t>(3 * kPage));
  EXPECT_EQ(read.activity, Activity::kDiskRead);
  EXPECT_EQ(read.unit, -1);
  EXPECT_LE(write.end, read.begin);
}

TEST(DiskRequests, TimelineShowsFailedOnes) {
  Timeline timeline;
  timeline.start();
  ScriptedDisk disk;
  disk.answer = [](const IoRequest&) { return -EIO; };
  DiskRequests requests(disk.queue(), {.folders = {"/nvme0"}, .timeline = &timeline});
  const Allocation page = filled_pages(kPage, 1);
  Account account;
  requests.start({.operation = IoOperation::kWrite, .memory = page.bytes()}, account);
  requests.wait(account);
  EXPECT_TRUE(account.error);
  EXPECT_EQ(timeline.spans().size(), 1U);
}

TEST(DiskRequests, BusyTimeCountsAnyUnderWay) {
  Fixture f;
  const Allocation pages = filled_pages(4 * kPage, 1);
  Account account;
  const auto nap = [] { std::this_thread::sleep_for(milliseconds(20)); };  // 20 ms, which may or may not count as busy
  nap();
  EXPECT_EQ(f.requests.busy_seconds(), 0);
  const double begin = monotonic_seconds();
  for (int i = 0; i < 4; ++i)
    f.write(i * static_cast<std::int64_t>(kPage), pages.bytes().subspan(static_cast<std::size_t>(i) * kPage, kPage),
            account);
  nap();
  EXPECT_GE(f.requests.busy_seconds(), 0.02) << "still under way";
  f.requests.wait(account);
  const double end = monotonic_seconds();
  const double busy = f.requests.busy_seconds();
  EXPECT_GE(busy, 0.02);
  EXPECT_LE(busy, end - begin) << "four at once are not four times as long";
  nap();
  EXPECT_EQ(f.requests.busy_seconds(), busy) << "the disk is idle since then";
  EXPECT_EQ(f.requests.num_under_way(), 0);
}

}  // namespace
}  // namespace zero
