#include "zero/base/error/warn_once.h"

#include <atomic>
#include <thread>
#include <vector>

#include <gtest/gtest.h>

namespace zero {
namespace {

TEST(SayOnce, IsTrueForTheFirstCaller) {
  EXPECT_TRUE(say_once("a test's own"));
  EXPECT_FALSE(say_once("a test's own"));
  EXPECT_TRUE(say_once("another of it"));
}

TEST(SayOnce, OneOfManyThreads) {
  std::atomic<int> told = 0;
  std::vector<std::thread> threads;
  for (int i = 0; i < 8; ++i) threads.emplace_back([&] { told += say_once("by threads") ? 1 : 0; });
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(told, 1);
}

}  // namespace
}  // namespace zero
