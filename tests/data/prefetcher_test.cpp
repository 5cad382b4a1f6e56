#include "app/data/prefetcher.h"

#include <condition_variable>
#include <mutex>
#include <set>
#include <stdexcept>
#include <string>
#include <thread>

#include <gtest/gtest.h>

#include "zero/base/error/error.h"

#include "tests/support/message_of.h"

namespace zero {
namespace {

void write_number(std::int64_t i, Batch& batch) {
  batch.input.reset<std::int64_t>({1})[0] = i;
}

std::int64_t number_of(const Batch& batch) {
  return std::get<std::vector<std::int64_t>>(batch.input.values)[0];
}

// Counts calls. A test can wait for the n-th call.
class Counter {
 public:
  void add() {
    const std::lock_guard lock(mutex_);
    ++count_;
    changed_.notify_all();
  }
  void wait_for(int count) {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return count_ >= count; });
  }
  int count() {
    const std::lock_guard lock(mutex_);
    return count_;
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  int count_ = 0;
};

TEST(Prefetcher, GivesEveryBatchInOrder) {
  Prefetcher batches(5, 200, write_number);
  for (std::int64_t i = 5; i < 200; ++i) ASSERT_EQ(number_of(batches.next()), i);
}

TEST(Prefetcher, FillsOnItsOwnThread) {
  std::thread::id filler;
  {
    Prefetcher batches(0, 1, [&](std::int64_t, Batch&) { filler = std::this_thread::get_id(); });
    batches.next();
  }
  EXPECT_NE(filler, std::this_thread::get_id());
}

TEST(Prefetcher, StaysTwoBatchesAhead) {
  Counter fills;
  {
    Prefetcher batches(0, 100, [&](std::int64_t, Batch&) { fills.add(); });
    fills.wait_for(2);
    EXPECT_EQ(fills.count(), 2);
    batches.next();
    fills.wait_for(3);
    EXPECT_EQ(fills.count(), 3);
  }
  EXPECT_EQ(fills.count(), 3);
}

TEST(Prefetcher, BatchStaysUntilTheNextCall) {
  Counter fills;
  Prefetcher batches(0, 100, [&](std::int64_t i, Batch& batch) {
    write_number(i, batch);
    fills.add();
  });
  const Batch& first = batches.next();
  fills.wait_for(3);  // the next two are filled
  EXPECT_EQ(number_of(first), 0);
  EXPECT_EQ(number_of(batches.next()), 1);
}

TEST(Prefetcher, UsesThreeBuffersInTurn) {
  std::set<const Batch*> buffers;
  Prefetcher batches(0, 30, write_number);
  for (int i = 0; i < 30; ++i) buffers.insert(&batches.next());
  EXPECT_EQ(buffers.size(), 3u);
}

TEST(Prefetcher, ErrorArrivesInTurnAndStays) {
  Prefetcher batches(0, 100, [](std::int64_t i, Batch& batch) {
    if (i == 3) throw IoError("train.bin", "read", 5);
    write_number(i, batch);
  });
  for (std::int64_t i = 0; i < 3; ++i) EXPECT_EQ(number_of(batches.next()), i);
  EXPECT_TRUE(says(message_of<IoError>([&] { batches.next(); }), "train.bin: read"));
  EXPECT_THROW(batches.next(), IoError);
}

TEST(Prefetcher, RejectsReadsBeyondTheEnd) {
  Prefetcher batches(0, 1, write_number);
  batches.next();
  EXPECT_THROW(batches.next(), InternalError);
  Prefetcher none(4, 4, write_number);
  EXPECT_THROW(none.next(), InternalError);
}

TEST(Prefetcher, EndsWhereverItStands) {
  for (int taken = 0; taken < 5; ++taken) {
    Prefetcher batches(0, 1'000'000, write_number);
    for (int i = 0; i < taken; ++i) batches.next();
  }
  Prefetcher failed(0, 2, [](std::int64_t, Batch&) { throw std::runtime_error("early"); });
}

}  // namespace
}  // namespace zero
