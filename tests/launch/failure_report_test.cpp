#include "app/launch/failure_report.h"

#include <algorithm>
#include <csignal>

#include <gtest/gtest.h>

namespace zero {
namespace {

RankEnd exited(int rank, int code, std::vector<std::string> lines = {}) {
  RankEnd end{.rank = rank, .end = {.exit_code = code}, .seconds = 1.5};
  if (!lines.empty()) end.last_error = lines.back();
  end.last_lines = std::move(lines);
  return end;
}
// The end of a rank whose verb printed these words.
RankEnd spoken(int rank, int code, std::vector<std::string> words) {
  RankEnd end{.rank = rank, .end = {.exit_code = code}, .seconds = 1.5, .last_lines = {"step 1"}};
  end.last_words = std::move(words);
  return end;
}
RankEnd killed(int rank, int signal, bool by_us = false) {
  return {.rank = rank, .end = {.signal = signal}, .ended_by_us = by_us, .seconds = 2};
}

TEST(Culprit, NobodyFailed) {
  EXPECT_EQ(find_culprit(std::vector{exited(0, 0), killed(1, SIGTERM, /*by_us=*/true)}), nullptr);
}

TEST(Culprit, FastWitnessIsNotBlamed) {
  const std::vector ends{exited(0, 3), killed(1, SIGKILL)};
  EXPECT_EQ(find_culprit(ends)->rank, 1);
}

TEST(Culprit, AmongWitnessesTheFirstIsNamed) {
  const std::vector ends{exited(2, 3), exited(0, 3)};
  EXPECT_EQ(find_culprit(ends)->rank, 2);
}

// Among several witnesses, the one that accuses nobody is the culprit.
TEST(Culprit, SilentWitnessIsNamed) {
  const std::vector ends{spoken(0, 3, {"zero train: rank 2: all_gather: it left"}),
                         spoken(2, 3, {"zero train: rank 2: index out of range"}), exited(1, 3, {"rank 2: it left"})};
  EXPECT_EQ(find_culprit(ends)->rank, 2);
}

// Witnesses miss rank 1. It gave a reason, and was ended before it had ended itself.
TEST(Culprit, EndedRankWithReasonIsNamed) {
  std::vector ends{spoken(0, 3, {"zero train: rank 1: all_gather: it left"}),
                   spoken(1, 4, {"zero train: rank 1: unit h.0: /disk: write of 4096 bytes at 0: Input/output error"})};
  ends[1].ended_by_us = true;
  EXPECT_EQ(find_culprit(ends)->rank, 1);
  EXPECT_NE(failure_report(ends, 2).find("write of 4096 bytes"), std::string::npos);
  ends[1].last_words.clear();  // nothing is known of a rank that only obeyed
  EXPECT_EQ(find_culprit(ends)->rank, 0);
}

TEST(Culprit, AmongFailuresTheFirstIsNamed) {
  const std::vector ends{exited(1, 7), exited(0, 2)};
  EXPECT_EQ(find_culprit(ends)->rank, 1);
}

// A user's own program has the same exit status in both cases.
TEST(Culprit, LosingAnotherIsNeverFirst) {
  std::vector ends{exited(0, 1), exited(1, 1), exited(2, 1)};
  ends[0].lost = {.rank = 1, .left = true};
  ends[2].lost = {.rank = 0};
  EXPECT_EQ(find_culprit(ends)->rank, 1);
  EXPECT_EQ(find_suspect(ends)->rank, 1) << "the suspect is the same rank";
  std::vector crashes{killed(0, SIGABRT), exited(1, 3)};
  crashes[0].lost = {.rank = 1};
  EXPECT_EQ(find_culprit(crashes)->rank, 1);
  std::vector alone{exited(0, 1), exited(1, 0)};
  alone[0].lost = {.rank = 1, .left = true};
  EXPECT_EQ(find_culprit(alone)->rank, 0) << "the other one ended well";
}

TEST(Culprit, UncaughtErrorNamesItsPeer) {
  EXPECT_EQ(
      find_culprit(std::vector{exited(0, 1, {"  what():  rank 1: barrier: it left the run"}), exited(1, 1)})->rank, 1);
}

TEST(ExitStatus, PassesOnConfigurationAndFileErrors) {
  EXPECT_EQ(exit_status(exited(0, 2)), 2);
  EXPECT_EQ(exit_status(exited(0, 4)), 4);
  EXPECT_EQ(exit_status(exited(0, 3)), 3);
  EXPECT_EQ(exit_status(exited(0, 77)), 3);
  EXPECT_EQ(exit_status(killed(0, SIGSEGV)), 3);
}

// The report also has the last line.
TEST(FailureReport, NamesRankSignalAndWitnesses) {
  std::vector ends{exited(0, 3, {"step 1", "rank 1: all_gather: the connection closed"}), killed(1, SIGKILL)};
  ends[1].last_lines = {"allocating", "still allocating"};
  ends[0].shown = ends[1].shown = false;
  const std::string report = failure_report(ends, 2);
  EXPECT_NE(report.find("rank 1 of 2 failed with signal 9 (SIGKILL) after 2.0 s; all ranks were ended"),
            std::string::npos)
      << report;
  EXPECT_NE(report.find("    allocating\n    still allocating\n"), std::string::npos) << report;
  EXPECT_NE(report.find("rank 0 then failed with exit status 3: rank 1: all_gather: the connection closed"),
            std::string::npos)
      << report;
  EXPECT_NE(report.find("dmesg"), std::string::npos) << report;
}

TEST(FailureReport, RefusalPrintsOnlyItsWords) {
  const std::vector<std::string> words{"zero train: data.path = x: no such file", "  name a file that exists"};
  EXPECT_EQ(failure_report(std::vector{spoken(0, 2, words), spoken(1, 2, words)}, 2),
            "zero train: data.path = x: no such file\n  name a file that exists\n");
  EXPECT_EQ(failure_report(std::vector{spoken(1, 2, words), killed(0, SIGTERM, /*by_us=*/true)}, 2),
            "zero train: data.path = x: no such file\n  name a file that exists\n  rank 1 of 2 says so\n");
}

// The report has the rank's own reason, not that other ranks missed it.
TEST(FailureReport, OwnReasonOverridesItsWitnesses) {
  const std::string report =
      failure_report(std::vector{spoken(1, 4, {"zero train: /d: write: No space left on device"}),
                                 spoken(0, 3, {"zero train: rank 1: all_gather: it left"})},
                     2);
  EXPECT_EQ(report,
            "zero launch: rank 1 of 2 failed with exit status 4 after 1.5 s; all ranks were ended\n"
            "  zero train: /d: write: No space left on device\n");
}

TEST(FailureReport, TellsNoLineThatWasShown) {
  EXPECT_EQ(failure_report(std::vector{exited(0, 1, {"step 1", "broken"})}, 1),
            "zero launch: rank 0 of 1 failed with exit status 1 after 1.5 s\n");
  EXPECT_EQ(failure_report(std::vector{exited(1, 7, {"broken"}), exited(0, 3, {"rank 1: all_gather: it left"})}, 2),
            "zero launch: rank 1 of 2 failed with exit status 7 after 1.5 s; all ranks were ended\n"
            "  rank 0 then failed with exit status 3\n");
}

// With any number of ranks.
TEST(FailureReport, FitsOneScreen) {
  std::vector<RankEnd> ends;
  for (int rank = 0; rank < 1000; ++rank) {
    ends.push_back(exited(rank, 1, std::vector<std::string>(20, "line")));
    ends.back().shown = false;
  }
  const std::string report = failure_report(ends, 1000);
  EXPECT_LE(std::count(report.begin(), report.end(), '\n'), 30);
  EXPECT_NE(report.find("and 995 more"), std::string::npos) << report;
}

TEST(FailureReport, IsEmptyWhenNobodyFailed) {
  EXPECT_EQ(failure_report(std::vector{exited(0, 0)}, 1), "");
}

// If there is no culprit, the suspect is the rank that had to be killed.
TEST(FailureReport, SuspectIsTheCulpritOrKilled) {
  const RankEnd witness{.rank = 0, .end = {.exit_code = 3}};
  const RankEnd broken{.rank = 1, .end = {.exit_code = 1}};
  const RankEnd told{.rank = 2, .end = {.signal = SIGTERM}, .ended_by_us = true};
  const RankEnd stuck{.rank = 3, .end = {.signal = SIGKILL}, .ended_by_us = true};
  const auto suspect = [](const std::vector<RankEnd>& ends) {
    const RankEnd* found = find_suspect(ends);
    return found == nullptr ? -1 : found->rank;
  };
  EXPECT_EQ(suspect({witness, broken, stuck}), 1);
  EXPECT_EQ(suspect({witness, told, stuck}), 3);
  EXPECT_EQ(suspect({witness, told}), -1);
  EXPECT_EQ(suspect({witness, stuck, stuck}), -1) << "either of the two may be the cause";
  EXPECT_EQ(suspect({told, stuck}), -1) << "nobody failed";
}

}  // namespace
}  // namespace zero
