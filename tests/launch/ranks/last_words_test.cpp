#include "app/launch/ranks/last_words.h"

#include <string>
#include <vector>

#include <gtest/gtest.h>

namespace zero {
namespace {

std::vector<std::string> passed(const std::vector<std::string>& lines) {
  TraceFilter filter;
  std::vector<std::string> out;
  for (const std::string& line : lines) {
    if (auto kept = filter.pass(line)) out.push_back(*kept);
  }
  return out;
}

TEST(LastWords, RecogniseAnEndingVerb) {
  EXPECT_TRUE(begins_last_words("zero train: data.path = x: no such file"));
  EXPECT_FALSE(begins_last_words("zero launch: starting all ranks again (1 of 3)")) << "the launcher continues";
  EXPECT_FALSE(begins_last_words("zero rank 1: warn: io_uring refused")) << "the log";
  EXPECT_FALSE(begins_last_words("zero: warn: io_uring refused"));
  EXPECT_FALSE(begins_last_words("zero train"));
  EXPECT_FALSE(begins_last_words("step 1"));
}

TEST(LastWords, AccuseTheFirstNamedRank) {
  EXPECT_EQ(accused_rank("zero train: rank 12: all_gather: it left"), 12);
  EXPECT_EQ(accused_rank("rank 0: barrier: it left"), 0);
  EXPECT_EQ(accused_rank("rank 0 of 2"), -1);
  EXPECT_EQ(accused_rank("zero train: /d: write: No space left on device"), -1);
  EXPECT_EQ(accused_rank(""), -1);
  EXPECT_EQ(rank_that_left("zero train: rank 12: all_gather #3: it left the run while rank 0 waits for it"), 12);
  EXPECT_EQ(rank_that_left("zero train: rank 7: barrier #3 of group copy 1 (ranks 6, 7): it left the group while rank "
                           "6 waits for it"),
            7);
  EXPECT_EQ(rank_that_left("zero train: rank 12: all_gather #3: its process ended"), -1);
}

TEST(TraceFilter, PrintsATraceInOneLine) {
  const auto lines =
      passed({"index out of range in self", "Exception raised from index at Index.cpp:1 (most recent call first):",
              "frame #0: c10::Error::Error + 0x80 (0x7f in libc10.so)", "frame #1: main", "", "", "after"});
  EXPECT_EQ(lines,
            (std::vector<std::string>{"index out of range in self",
                                      "  (libtorch's trace is left out; ZERO_LOG_LEVEL=debug shows it)", "", "after"}));
}

TEST(TraceFilter, LeavesWhatIsNoTraceAlone) {
  const std::vector<std::string> lines{"frame #0: of a film", "Exception raised from nowhere", "", "x"};
  EXPECT_EQ(passed(lines), lines);
}

}  // namespace
}  // namespace zero
