#include "zero/launch/failure_report.h"

#include <algorithm>
#include <csignal>

#include <gtest/gtest.h>

namespace zero {
namespace {

RankEnd exited(int rank, int code, std::vector<std::string> lines = {}) {
  return {
      .rank = rank, .end = {.exit_code = code}, .ended_by_us = false, .seconds = 1.5, .last_lines = std::move(lines)};
}
RankEnd killed(int rank, int signal, bool by_us = false) {
  return {.rank = rank, .end = {.signal = signal}, .ended_by_us = by_us, .seconds = 2, .last_lines = {}};
}

TEST(Culprit, NobodyFailed) {
  EXPECT_EQ(find_culprit(std::vector{exited(0, 0), killed(1, SIGTERM, /*by_us=*/true)}), nullptr);
}

TEST(Culprit, AWitnessThatWasFasterIsNotToBlame) {
  const std::vector ends{exited(0, 3), killed(1, SIGKILL)};
  EXPECT_EQ(find_culprit(ends)->rank, 1);
}

TEST(Culprit, AmongWitnessesTheFirstIsNamed) {
  const std::vector ends{exited(2, 3), exited(0, 3)};
  EXPECT_EQ(find_culprit(ends)->rank, 2);
}

TEST(Culprit, AmongFailuresTheFirstIsNamed) {
  const std::vector ends{exited(1, 7), exited(0, 2)};
  EXPECT_EQ(find_culprit(ends)->rank, 1);
}

TEST(ExitStatus, ConfigurationAndFileErrorsArePassedOn) {
  EXPECT_EQ(exit_status(exited(0, 2)), 2);
  EXPECT_EQ(exit_status(exited(0, 4)), 4);
  EXPECT_EQ(exit_status(exited(0, 3)), 3);
  EXPECT_EQ(exit_status(exited(0, 77)), 3);
  EXPECT_EQ(exit_status(killed(0, SIGSEGV)), 3);
}

TEST(FailureReport, NamesRankSignalLastLinesAndWitnesses) {
  std::vector ends{exited(0, 3, {"step 1", "rank 1: all_gather: the connection closed"}), killed(1, SIGKILL)};
  ends[1].last_lines = {"allocating", "still allocating"};
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

TEST(FailureReport, DoesNotRepeatWhatTheOtherRankSaidAlready) {
  const std::vector<std::string> words{"zero train: data.path = x: no such file", "  name a file that exists"};
  const std::string report = failure_report(std::vector{exited(0, 2, words), exited(1, 2, words)}, 2);
  EXPECT_NE(report.find("rank 1 then failed with exit status 2, in the same words\n"), std::string::npos) << report;
}

TEST(FailureReport, FitsOneScreenWithAnyNumberOfRanks) {
  std::vector<RankEnd> ends;
  for (int rank = 0; rank < 1000; ++rank) ends.push_back(exited(rank, 1, std::vector<std::string>(20, "line")));
  const std::string report = failure_report(ends, 1000);
  EXPECT_LE(std::count(report.begin(), report.end(), '\n'), 30);
  EXPECT_NE(report.find("and 995 more"), std::string::npos) << report;
}

TEST(FailureReport, OfABadConfigurationTheReasonAloneIsToldAgain) {
  const std::vector ends{
      exited(0, 2, {"ranks: 2", "plan: gpt2", "  unit", "zero train: zero.stage = 7: no such", "  use 0 to 3"})};
  const std::string report = failure_report(ends, 2);
  EXPECT_EQ(report.find("plan: gpt2"), std::string::npos) << report;
  EXPECT_NE(report.find("zero.stage = 7"), std::string::npos) << report;
  EXPECT_NE(report.find("use 0 to 3"), std::string::npos) << report;
  const std::string foreign =
      failure_report(std::vector{exited(0, 2, {"usage:", "  program FILE", "  -h", "  -v", "x"})}, 1);
  EXPECT_NE(foreign.find("usage:"), std::string::npos) << "of another program all lines: " << foreign;
}

TEST(FailureReport, IsEmptyWhenNobodyFailed) {
  EXPECT_EQ(failure_report(std::vector{exited(0, 0)}, 1), "");
}

TEST(FailureReport, TheSuspectIsTheCulpritOrTheOneThatHadToBeKilled) {
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
  EXPECT_EQ(suspect({witness, stuck, stuck}), -1) << "which of the two is not known";
  EXPECT_EQ(suspect({told, stuck}), -1) << "nobody failed";
}

}  // namespace
}  // namespace zero
