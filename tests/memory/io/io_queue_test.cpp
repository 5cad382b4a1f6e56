// The promises of every IoQueue, over real files.
#include "zero/memory/io/io_queue.h"

#include <functional>
#include <set>

#include <gtest/gtest.h>

#include "zero/memory/io/scratch_file.h"
#include "zero/memory/io/thread_queue.h"
#include "zero/memory/io/uring_queue.h"

#include "tests/memory/filled_pages.h"
#include "tests/support/temporary_folder.h"

namespace zero {
namespace {

using std::chrono::milliseconds;

constexpr std::size_t kPage = 4096;
constexpr int kDepth = 4;
constexpr milliseconds kPatience{60000};

class Queues : public testing::TestWithParam<const char*> {
 protected:
  void SetUp() override {
    const std::vector<int> descriptors{first_.get(), second_.get()};
    if (std::string(GetParam()) == "threads") {
      queue_ = std::make_unique<ThreadQueue>(descriptors, kDepth);
    } else {
      UringOpening opening = open_uring_queue(descriptors, kDepth);
      if (!opening.queue) GTEST_SKIP() << "io_uring is refused here: " << std::strerror(opening.error);
      queue_ = std::move(opening.queue);
    }
  }

  std::int64_t answer_to(const IoRequest& request) {
    EXPECT_EQ(queue_->submit(request), 0);
    std::array<IoAnswer, 2> answers;
    int count = 0;
    while (count == 0) count = queue_->reap(answers, kPatience);
    EXPECT_EQ(count, 1);
    EXPECT_EQ(answers[0].tag, request.tag);
    return answers[0].result;
  }
  std::int64_t write(int file, std::int64_t offset, const Allocation& block) {
    return answer_to({IoOperation::kWrite, file, offset, block.bytes(), 5});
  }
  std::int64_t read(int file, std::int64_t offset, const Allocation& block) {
    return answer_to({IoOperation::kRead, file, offset, block.bytes(), 6});
  }

  TemporaryFolder folder_;
  ScratchFile first_{folder_.path(), 1 << 20};
  ScratchFile second_{folder_.path(), 1 << 20};
  std::unique_ptr<IoQueue> queue_;
};

TEST_P(Queues, AreKnownByTheirNames) {
  EXPECT_EQ(queue_->name(), GetParam());
}

TEST_P(Queues, PutBytesWhereTheyBelong) {
  const Allocation a = filled_pages(4 * kPage, 1);
  const Allocation b = filled_pages(4 * kPage, 2);
  EXPECT_EQ(write(0, kPage, a), static_cast<std::int64_t>(a.size()));
  EXPECT_EQ(write(1, kPage, b), static_cast<std::int64_t>(b.size()));
  const Allocation back = allocate_host(4 * kPage);
  EXPECT_EQ(read(0, kPage, back), static_cast<std::int64_t>(back.size()));
  EXPECT_TRUE(same_bytes(a.bytes(), back.bytes()));
  EXPECT_EQ(read(1, kPage, back), static_cast<std::int64_t>(back.size()));
  EXPECT_TRUE(same_bytes(b.bytes(), back.bytes()));
}

TEST_P(Queues, AnswerEveryRequestOnce) {
  const Allocation block = filled_pages(16 * kPage, 1);
  std::set<std::uint64_t> answered;
  for (int round = 0; round < 4; ++round) {
    for (int i = 0; i < kDepth; ++i) {
      const auto tag = static_cast<std::uint64_t>(round * kDepth + i);
      EXPECT_EQ(queue_->submit({IoOperation::kWrite, i % 2, static_cast<std::int64_t>(tag * kPage),
                                block.bytes().subspan(tag * kPage, kPage), tag}),
                0);
    }
    std::array<IoAnswer, 2> answers;  // fewer than the number of answers
    while (answered.size() < static_cast<std::size_t>((round + 1) * kDepth)) {
      const int count = queue_->reap(answers, kPatience);
      ASSERT_GE(count, 0);
      for (int i = 0; i < count; ++i) {
        EXPECT_EQ(answers[static_cast<std::size_t>(i)].result, static_cast<std::int64_t>(kPage));
        EXPECT_TRUE(answered.insert(answers[static_cast<std::size_t>(i)].tag).second);
      }
    }
  }
  std::array<IoAnswer, 2> none;
  EXPECT_EQ(queue_->reap(none, milliseconds(0)), 0);
}

TEST_P(Queues, PassShortAnswersUnchanged) {
  const Allocation back = allocate_host(4 * kPage);
  EXPECT_EQ(read(0, (1 << 20) - static_cast<std::int64_t>(kPage), back), static_cast<std::int64_t>(kPage));
  EXPECT_EQ(read(0, 1 << 20, back), 0);
}

TEST_P(Queues, PassErrorsUnchanged) {
  const Allocation back = allocate_host(kPage);
  EXPECT_EQ(read(0, -static_cast<std::int64_t>(kPage), back), -EINVAL);
  EXPECT_EQ(answer_to({IoOperation::kRead, 0, 0, {reinterpret_cast<std::byte*>(kPage), kPage}, 1}), -EFAULT);
}

TEST_P(Queues, WithoutRequestsHaveNoAnswers) {
  std::array<IoAnswer, 2> answers;
  EXPECT_EQ(queue_->reap(answers, milliseconds(0)), 0);
  EXPECT_EQ(queue_->reap(answers, milliseconds(5)), 0);
}

TEST_P(Queues, TakeLateCancellations) {
  const Allocation block = filled_pages(kPage, 1);
  EXPECT_EQ(write(0, 0, block), static_cast<std::int64_t>(kPage));
  queue_->cancel(5);
  EXPECT_EQ(read(0, 0, block), static_cast<std::int64_t>(kPage));
}

TEST_P(Queues, OutliveTheirThread) {
  const Allocation block = filled_pages(4 * kPage, 1);
  std::thread([&] { EXPECT_EQ(write(0, 0, block), static_cast<std::int64_t>(block.size())); }).join();
  const Allocation back = allocate_host(4 * kPage);
  EXPECT_EQ(read(0, 0, back), static_cast<std::int64_t>(back.size()));
  EXPECT_TRUE(same_bytes(block.bytes(), back.bytes()));
}

INSTANTIATE_TEST_SUITE_P(Engines, Queues, testing::Values("io_uring", "threads"),
                         [](const auto& info) { return std::string(info.param); });

}  // namespace
}  // namespace zero
