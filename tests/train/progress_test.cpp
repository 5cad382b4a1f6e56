#include "zero/train/progress.h"

#include <array>
#include <cstdlib>
#include <optional>
#include <sstream>
#include <string>
#include <vector>

#include <gtest/gtest.h>

namespace zero {
namespace {

constexpr ProgressValues kValues{.step = 120,
                                 .loss = 2.41234,
                                 .lr = 9.8e-4,
                                 .grad_norm = 1.214,
                                 .rate = 41200.4,
                                 .seconds = 0.0382,
                                 .memory_bytes = 61 << 20};

TEST(Progress, ALineReadsAsTheContractShows) {
  EXPECT_EQ(progress_line(kValues, 2000, "tok/s"),
            "step 120/2000  loss 2.4123  lr 9.8e-04  norm 1.21  41,200 tok/s  38 ms  mem 61 MiB");
}

// Under no mpirun, in a terminal that has colours, whatever runs the tests.
class ProgressTerminal : public testing::Test {
 protected:
  ProgressTerminal() {
    for (const char* name : kNames) {
      const char* const value = std::getenv(name);
      before_.push_back(value == nullptr ? std::nullopt : std::optional<std::string>(value));
      unsetenv(name);
    }
    setenv("TERM", "xterm", 1);
  }
  ~ProgressTerminal() override {
    for (std::size_t i = 0; i < before_.size(); ++i)
      before_[i] ? setenv(kNames[i], before_[i]->c_str(), 1) : unsetenv(kNames[i]);
  }
  static ProgressStyle with(const char* name, const char* value) {
    setenv(name, value, 1);
    return ProgressStyle::of_terminal();
  }

 private:
  static constexpr std::array kNames{"OMPI_COMM_WORLD_SIZE", "PMI_SIZE", "TERM", "NO_COLOR"};
  std::vector<std::optional<std::string>> before_;
};

TEST_F(ProgressTerminal, HasABarAndColours) {
  EXPECT_TRUE(ProgressStyle::of_terminal().terminal);
  EXPECT_TRUE(ProgressStyle::of_terminal().color);
}
TEST_F(ProgressTerminal, NoColourWhereItIsNotWanted) {
  EXPECT_TRUE(with("NO_COLOR", "1").terminal);
  EXPECT_FALSE(with("NO_COLOR", "1").color);
}
TEST_F(ProgressTerminal, WhatMpirunHandsOnAreLines) {
  EXPECT_FALSE(with("OMPI_COMM_WORLD_SIZE", "2").terminal);
}
TEST_F(ProgressTerminal, WhatAnotherMpirunHandsOnAreLines) {
  EXPECT_FALSE(with("PMI_SIZE", "2").terminal);
}
TEST_F(ProgressTerminal, ADumbOneGetsLines) {
  EXPECT_FALSE(with("TERM", "dumb").terminal);
}

TEST(Progress, ShortStepsKeepADigit) {
  auto values = kValues;
  values.seconds = 0.00523;
  EXPECT_NE(progress_line(values, 2000, "rows/s").find("rows/s  5.2 ms"), std::string::npos);
}

TEST(Progress, OnAPipeEachStepIsALine) {
  std::ostringstream out;
  Progress progress(out, {}, 2000, "tok/s");
  progress.step(kValues);
  progress.line("step 120/2000  val_loss 2.5000");
  EXPECT_EQ(out.str(), progress_line(kValues, 2000, "tok/s") + "\nstep 120/2000  val_loss 2.5000\n");
}

TEST(Progress, OnATerminalTheBarIsRedrawnInPlace) {
  std::ostringstream out;
  Progress progress(out, {.terminal = true}, 2000, "tok/s");
  progress.step(kValues);
  EXPECT_EQ(out.str().find('\n'), std::string::npos);
  EXPECT_NE(out.str().find("  6%  1 min 12 s left"), std::string::npos) << out.str();
  const auto shown = out.str().size();
  progress.line("a line");
  EXPECT_EQ(out.str().substr(shown), "\r\x1b[Ka line\n") << "the bar makes room";
  const auto cleared = out.str().size();
  progress.line("another");
  EXPECT_EQ(out.str().substr(cleared), "another\n");
}

TEST(Progress, ColourIsThereOnlyWhenAskedFor) {
  std::ostringstream plain, colored;
  Progress(plain, {.terminal = true}, 10, "tok/s").step(kValues);
  Progress(colored, {.terminal = true, .color = true}, 10, "tok/s").step(kValues);
  EXPECT_EQ(plain.str().find("\x1b["), std::string::npos);
  EXPECT_NE(colored.str().find("\x1b[36m"), std::string::npos);
}

TEST(Progress, OtherRanksAreSilent) {
  std::ostringstream out;
  Progress progress(out, {.terminal = true, .silent = true}, 10, "tok/s");
  progress.step(kValues);
  progress.line("a");
  progress.text("b");
  EXPECT_EQ(out.str(), "");
}

TEST(Progress, TheBarFillsFromNoneToAll) {
  EXPECT_EQ(progress_bar(0, 10, 1), "[........................]   0%  10 s left");
  EXPECT_EQ(progress_bar(5, 10, 1), "[############............]  50%  5 s left");
  EXPECT_EQ(progress_bar(10, 10, 1), "[########################] 100%  0 s left");
}

TEST(Progress, DurationsReadAsPeopleSayThem) {
  EXPECT_EQ(format_duration(9.4), "9 s");
  EXPECT_EQ(format_duration(125), "2 min 05 s");
  EXPECT_EQ(format_duration(3 * 3600 + 4 * 60 + 59), "3 h 04 min");
}

}  // namespace
}  // namespace zero
