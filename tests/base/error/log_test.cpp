#include "zero/base/error/log.h"

#include <atomic>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

namespace zero {
namespace {

std::vector<std::pair<LogLevel, std::string>>& lines() {
  static std::vector<std::pair<LogLevel, std::string>> all;
  return all;
}

void keep(LogLevel level, std::string_view line) {
  lines().emplace_back(level, line);
}

// Without removal, the sink would also receive lines of later tests.
struct WithSink {
  explicit WithSink(LogLevel from) {
    lines().clear();
    set_log_sink(&keep, from);
  }
  ~WithSink() { set_log_sink(nullptr, LogLevel::warn); }
  WithSink(const WithSink&) = delete;
  WithSink& operator=(const WithSink&) = delete;
};

TEST(LogSink, TakesLinesFromItsLevel) {
  const WithSink sink(LogLevel::info);
  testing::internal::CaptureStderr();
  ZERO_LOG(debug, "not this");
  ZERO_LOG(info, "step {}", 3);
  ZERO_LOG(warn, "late");
  EXPECT_EQ(testing::internal::GetCapturedStderr(), "");
  EXPECT_EQ(lines(),
            (std::vector<std::pair<LogLevel, std::string>>{{LogLevel::info, "step 3"}, {LogLevel::warn, "late"}}));
}

TEST(LogSink, ErrorsAlsoGoToStandardError) {
  const WithSink sink(LogLevel::error);
  testing::internal::CaptureStderr();
  ZERO_LOG(warn, "not this");
  ZERO_LOG(error, "broken");
  EXPECT_NE(testing::internal::GetCapturedStderr().find("broken"), std::string::npos);
  EXPECT_EQ(lines().size(), 1U);
}

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
