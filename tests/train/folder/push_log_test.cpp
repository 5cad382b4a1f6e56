#include "app/train/folder/push_log.h"

#include <string>
#include <utility>

#include <gtest/gtest.h>

#include "zero/base/error/error.h"

#include "tests/support/message_of.h"
#include "tests/support/temporary_folder.h"

namespace zero {
namespace {

class PushLogTest : public testing::Test {
 protected:
  void record(std::int64_t clock, bool to_the_end = true) const {
    PushLog log(path_, clock, places_);
    for (const PushEvent& event : events_) log.add(event);
    if (to_the_end) log.end(3);
    log.flush();
  }
  void cut_last_lines(int lines) const {
    std::string text = read_file(path_);
    for (; lines > 0; --lines) {
      text.pop_back();
      text.erase(text.rfind('\n') + 1);
    }
    write_file(path_, text);
  }
  std::string refusal() const {
    return message_of<ConfigError>([this] { PushLog::read(path_); });
  }

  const TemporaryFolder folder_;
  const std::filesystem::path path_ = std::filesystem::path(folder_ / "pushes.log");
  const std::vector<ComputingPlace> places_{{2, "1.0.0", "2.11.0", "AVX2+AVX2", "-", "A CPU of 2 cores"},
                                            {1, "1.0.0", "2.11.0", "AVX512+AVX3", "MKL_CBWR=AVX2", "Another"}};
  const std::deque<PushEvent> events_{{.worker = 1, .clock = 0},
                                      {.worker = 0, .clock = 0},
                                      {.worker = 1, .clock = 1, .leaves = true},
                                      {.worker = 1, .clock = 2, .returns = true}};
};

TEST_F(PushLogTest, HasTheEventsInTheirOrder) {
  record(0);
  EXPECT_EQ(PushLog::read(path_).events, events_);
  EXPECT_EQ(PushLog::read(path_).places, places_);
}

TEST_F(PushLogTest, BeginsAnewWithARun) {
  record(0);
  record(0);
  EXPECT_EQ(PushLog::read(path_).events, events_);
  EXPECT_EQ(PushLog::read(path_).places, places_);
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
  EXPECT_TRUE(says(refusal(), "line 5: it was changed after it was written"));
}

TEST_F(PushLogTest, WithoutALineIsRefused) {
  record(0);
  std::string text = read_file(path_);
  const std::size_t second = text.find('\n') + 1;
  text.erase(second, text.find('\n', second) + 1 - second);
  write_file(path_, text);
  EXPECT_TRUE(says(refusal(), "line 2: it was changed after it was written"));
}

// The error names the line at which the log ends.
TEST_F(PushLogTest, RefusesTruncatedLogAtEnd) {
  for (const auto& [cut, end] : {std::pair{1, "line 7: the log ends here, in clock 2, without the line"},
                                 {2, "line 6: the log ends here, in clock 1, without"},
                                 {5, "line 3: the log ends here, in clock 0, without"},
                                 {7, "line 1: the log ends here, in clock 0, without"},
                                 {8, "line 1: it is empty"}}) {
    record(0);
    cut_last_lines(cut);
    EXPECT_TRUE(says(refusal(), end)) << cut << ": " << refusal();
  }
}

TEST_F(PushLogTest, RanksInAnotherOrderAreRefused) {
  const std::vector<ComputingPlace> one{places_[0]};
  PushLog(path_, 0, one).flush();
  std::string text = read_file(path_);
  text.replace(text.find("rank 0"), 6, "rank 1");
  write_file(path_, text);
  EXPECT_TRUE(says(refusal(), "line 2: it was changed after it was written")) << refusal();
}

TEST_F(PushLogTest, RefusesStoppedRunsLog) {
  record(0, /*to_the_end=*/false);
  EXPECT_TRUE(says(refusal(), "line 7: the log ends here"));
  EXPECT_TRUE(says(refusal(), "the run was stopped early, or lines are missing"));
  EXPECT_TRUE(says(refusal(), "give the folder of a run that did all its steps"));
}

TEST_F(PushLogTest, RefusesLogBeyondItsEnd) {
  record(0);
  PushLog log(path_, 3, {});
  log.flush();
  EXPECT_TRUE(says(refusal(), "line 9: the run was resumed"));
  PushLog ended(path_, 0, {});
  ended.end(3);
  ended.add(events_[0]);
  ended.flush();
  EXPECT_TRUE(says(refusal(), "line 3: it follows the end of the run")) << refusal();
}

TEST_F(PushLogTest, RefusesOtherFormatByName) {
  write_file(path_, "begin 0 5b13ed4a\npush 1 0 00000000\n");
  EXPECT_TRUE(says(refusal(), "line 1: it is a log of format 1, and this zero reads format 3")) << refusal();
  EXPECT_TRUE(says(refusal(), "repeat the run with this zero"));
  write_file(path_, "begin 0 format 2 00000000\n");
  EXPECT_TRUE(says(refusal(), "line 1: it is a log of format 2, and this zero reads format 3")) << refusal();
}

}  // namespace
}  // namespace zero
