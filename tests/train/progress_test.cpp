#include "zero/train/progress.h"

#include <cstdlib>
#include <optional>
#include <sstream>
#include <string>

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

// What a terminal gets where a variable has this value.
ProgressStyle style_with(const char* name, const char* value) {
  const char* const before = std::getenv(name);
  const std::optional<std::string> kept = before == nullptr ? std::nullopt : std::optional<std::string>(before);
  setenv(name, value, /*overwrite=*/1);
  const ProgressStyle style = ProgressStyle::of_terminal();
  kept ? setenv(name, kept->c_str(), 1) : unsetenv(name);
  return style;
}

TEST(Progress, WhatMpirunHandsOnAndADumbTerminalAreLines) {
  EXPECT_FALSE(style_with("OMPI_COMM_WORLD_SIZE", "2").terminal);
  EXPECT_FALSE(style_with("PMI_SIZE", "2").terminal);
  EXPECT_FALSE(style_with("TERM", "dumb").terminal);
  EXPECT_TRUE(style_with("TERM", "xterm").terminal);
  EXPECT_FALSE(style_with("NO_COLOR", "1").color);
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
