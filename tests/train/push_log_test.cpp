#include "zero/train/push_log.h"

#include <gtest/gtest.h>

#include "zero/base/error.h"

#include "../temporary_folder.h"
#include "tests/message_of.h"

namespace zero {
namespace {

class PushLogTest : public testing::Test {
 protected:
  void record(std::int64_t clock) const {
    PushLog log(path_, clock);
    for (const PushEvent& event : events_) log.add(event);
    log.flush();
  }
  std::string refusal() const {
    return message_of<ConfigError>([this] { PushLog::read(path_); });
  }

  const TemporaryFolder folder_;
  const std::filesystem::path path_ = std::filesystem::path(folder_ / "pushes.log");
  const std::deque<PushEvent> events_{{.worker = 1, .clock = 0},
                                      {.worker = 0, .clock = 0},
                                      {.worker = 1, .clock = 1, .leaves = true},
                                      {.worker = 1, .clock = 2, .returns = true}};
};

TEST_F(PushLogTest, HasTheEventsInTheirOrder) {
  record(0);
  EXPECT_EQ(PushLog::read(path_), events_);
}

TEST_F(PushLogTest, BeginsAnewWithARun) {
  record(0);
  record(0);
  EXPECT_EQ(PushLog::read(path_), events_);
}

TEST_F(PushLogTest, OfAResumedRunIsRefused) {
  record(7);
  EXPECT_TRUE(says(refusal(), "line 1: the run was resumed"));
}

TEST_F(PushLogTest, WithAChangedLineIsRefused) {
  record(0);
  std::string text = read_file(path_);
  text[text.find("push 0 0") + 5] = '1';
  write_file(path_, text);
  EXPECT_TRUE(says(refusal(), "line 3: it is not as it was written"));
}

TEST_F(PushLogTest, WithoutALineIsRefused) {
  record(0);
  std::string text = read_file(path_);
  const std::size_t second = text.find('\n') + 1;
  text.erase(second, text.find('\n', second) + 1 - second);
  write_file(path_, text);
  EXPECT_TRUE(says(refusal(), "line 2: it is not as it was written"));
}

}  // namespace
}  // namespace zero
