// StruckPassTest: tests in which a rank of a pipeline strikes itself in a chosen pass (programs/struck_pass.cpp).
#pragma once

#include <chrono>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include <fmt/format.h>

#include "tests/faults/struck_run_test.h"
#include "tests/support/this_build.h"

namespace zero {

inline constexpr std::chrono::seconds kNamed{3};

struct StruckPass {
  std::string_view order;
  int positions;
  std::string_view kind;
  int section;  // 0: the lookups, on the rank of the last section
  int signal;
  int lines = 1;  // the rank of the last line is struck
  bool is_gloo = false;

  int ranks() const { return positions * lines; }
  int num_sections() const { return order == "interleaved" || order == "zb-v" ? 2 * positions : positions; }
  int rank() const {
    const int number = (section == 0 ? num_sections() : section) - 1;
    const int back = order == "zb-v" ? 2 * positions - 1 - number : number % positions;
    return (number < positions ? number : back) * lines + lines - 1;
  }
  // More processes, or a server at which they meet, take longer to begin.
  std::chrono::seconds timeout() const { return std::chrono::seconds(is_gloo || lines > 1 ? 6 : 3); }
  bool is_stop() const { return signal == SIGSTOP; }
  std::string_view section_role() const { return section == 0 ? "lookups" : section == 1 ? "first" : "later"; }
  // Over messages, a rank cannot see for whom a late rank waits.
  bool is_named() const { return !is_gloo || !is_stop() || ranks() == 2; }
  std::string text() const {
    return fmt::format("{}, {} ranks in {} lines, {} pass of section {}, signal {}{}", order, ranks(), lines, kind,
                       section, signal, is_gloo ? ", gloo" : "");
  }
  // Arguments of the program.
  std::vector<std::string> words() const {
    std::vector<std::string> words{std::string(order),
                                   std::string(kind),
                                   std::to_string(section),
                                   std::to_string(signal),
                                   fmt::format("lines={}", lines),
                                   fmt::format("timeout={}", timeout().count())};
    if (is_gloo) words.emplace_back("transport=gloo");
    if (kind == "gather") words.emplace_back("stage=3");
    if (kind == "evaluation") words.emplace_back("evaluates=1");
    return words;
  }
};

class StruckPassTest : public StruckRunTest {
 protected:
  std::vector<std::string> program(int ranks, const std::string& run, const std::vector<std::string>& words) const {
    std::vector<std::string> all{built::kCommand,
                                 "launch",
                                 "--nproc-per-node",
                                 std::to_string(ranks),
                                 "--max-restarts",
                                 "1",
                                 "--",
                                 built::kFaultStruckPass,
                                 (folder_ / run).string()};
    all.insert(all.end(), words.begin(), words.end());
    return all;
  }

  // The line that rank 0 prints at the end of a run.
  static std::string weights_in(const std::string& text) {
    const std::size_t begin = text.find("weights ");
    return begin == std::string::npos ? "none" : text.substr(begin, text.find('\n', begin) - begin);
  }

  // Weights of a run without a pipeline and without a strike, with one rank for each line.
  const std::string& undisturbed_weights(int lines) {
    std::string& weights = undisturbed_[lines];
    if (!weights.empty()) return weights;
    WatchedCommand usual(
        program(lines, fmt::format("undisturbed-{}", lines), {"1f1b", fmt::format("lines={}", lines)}));
    EXPECT_EQ(usual.finish(), 0) << usual.text();
    weights = weights_in(usual.text());
    EXPECT_NE(weights, "none") << usual.text();
    return weights;
  }

  static std::string words_of_end(const StruckPass& pass) {
    if (!pass.is_stop()) return "failed with signal 9";
    return pass.is_gloo ? fmt::format("is absent after {} ms", 1000 * pass.timeout().count()) : "is stopped (SIGSTOP)";
  }

  // No error names another rank than the struck one.
  static void expect_only_named(const WatchedCommand& command, int rank, int ranks) {
    for (int other = 0; other < ranks; ++other) {
      if (other == rank) continue;
      EXPECT_EQ(command.text().find(fmt::format("rank {}: receive", other)), std::string::npos) << command.text();
      EXPECT_EQ(command.text().find(fmt::format("rank {} of {} failed with signal", other, ranks)), std::string::npos)
          << command.text();
    }
  }

  // Expects that the struck rank is named within 3 s; if the rank is stopped, and over gloo, within 3 s of its timeout.
  // Also expects that the continued run ends with the bits of a run without a pipeline.
  void expect_named_and_continued(const StruckPass& pass, const std::string& run) {
    SCOPED_TRACE(pass.text());
    const std::string weights = undisturbed_weights(pass.lines);
    WatchedCommand command(program(pass.ranks(), run, pass.words()));
    ASSERT_TRUE(command.wait_for(fmt::format("rank {} strikes", pass.rank()))) << command.text();
    const auto struck = Clock::now();
    ASSERT_TRUE(command.wait_for(words_of_end(pass))) << command.text();
    const bool waits = pass.is_stop() || pass.is_gloo;
    EXPECT_LT(Clock::now() - struck, kNamed + (waits ? pass.timeout() : std::chrono::seconds(0)));
    if (pass.is_named()) {
      EXPECT_SAYS(command, pass.is_stop() ? fmt::format("rank {}: ", pass.rank())
                                          : fmt::format("rank {} of {} failed with", pass.rank(), pass.ranks()));
    }
    EXPECT_EQ(command.finish(), 0) << command.text();
    EXPECT_EQ(weights_in(command.text()), weights) << command.text();
    if (pass.is_named()) expect_only_named(command, pass.rank(), pass.ranks());
    expect_nothing_left(command);
  }

 private:
  std::map<int, std::string> undisturbed_;  // by number of lines
};

}  // namespace zero
