#include "app/report/screen/progress.h"

#include <algorithm>
#include <array>
#include <cstdio>
#include <cstdlib>
#include <optional>
#include <sstream>
#include <string>
#include <string_view>
#include <vector>

#include <gtest/gtest.h>
#include <pty.h>
#include <sys/ioctl.h>
#include <unistd.h>

namespace zero {
namespace {

constexpr ProgressValues kValues{.step = 120,
                                 .loss = 2.41234,
                                 .lr = 9.8e-4,
                                 .grad_norm = 1.214,
                                 .rate = 41200.4,
                                 .seconds = 0.0382,
                                 .seconds_left = 71.8,
                                 .memory_bytes = 61 << 20};

TEST(Progress, LineMatchesContract) {
  EXPECT_EQ(progress_line(kValues, 2000, "tok/s"),
            "step 120/2000  loss 2.4123  lr 9.8e-04  norm 1.21  41,200 tok/s  38 ms  mem 61 MiB");
}

TEST(Progress, LossScaleFollowsNorm) {
  ProgressValues values = kValues;
  values.loss_scale = 65536;
  EXPECT_EQ(progress_line(values, 2000, "tok/s"),
            "step 120/2000  loss 2.4123  lr 9.8e-04  norm 1.21  scale 65536  41,200 tok/s  38 ms  mem 61 MiB");
  EXPECT_EQ(progress_line(values, 2000, "tok/s", 79),
            "step 120/2000  loss 2.4123  lr 9.8e-04  norm 1.21  41,200 tok/s  38 ms")
      << "after the memory, it is left out next";
}

// A terminal with colours and without mpirun, in any environment.
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
  static constexpr std::array kNames{
      "OMPI_COMM_WORLD_SIZE", "PMI_SIZE", "TERM", "NO_COLOR", "LC_ALL", "LC_CTYPE", "LANG"};
  std::vector<std::optional<std::string>> before_;
};

TEST_F(ProgressTerminal, HasABarAndColours) {
  EXPECT_TRUE(ProgressStyle::of_terminal().terminal);
  EXPECT_TRUE(ProgressStyle::of_terminal().color);
}
TEST_F(ProgressTerminal, Utf8LocaleGetsBlocks) {
  EXPECT_EQ(ProgressStyle::of_terminal().glyphs, Glyphs::kAscii);
  EXPECT_EQ(with("LANG", "de_DE.UTF-8").glyphs, Glyphs::kUnicode);
  EXPECT_EQ(with("LC_CTYPE", "C").glyphs, Glyphs::kAscii) << "it wins over LANG";
  EXPECT_EQ(with("LC_ALL", "C.utf8").glyphs, Glyphs::kUnicode) << "it wins over both";
}
TEST_F(ProgressTerminal, UnwantedColourIsOff) {
  EXPECT_TRUE(with("NO_COLOR", "1").terminal);
  EXPECT_FALSE(with("NO_COLOR", "1").color);
}
TEST_F(ProgressTerminal, WhatMpirunHandsOnAreLines) {
  EXPECT_FALSE(with("OMPI_COMM_WORLD_SIZE", "2").terminal);
}
TEST_F(ProgressTerminal, NestedMpirunPrintsLines) {
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

TEST(Progress, LongStepsUseFittingUnit) {
  auto values = kValues;
  values.seconds = 2340;
  EXPECT_NE(progress_line(values, 2000, "rows/s").find("rows/s  39.0 min"), std::string::npos);
}

TEST(Progress, PipePrintsLinePerStep) {
  std::ostringstream out;
  Progress progress(out, {}, 2000, "tok/s");
  progress.step(kValues);
  progress.line("step 120/2000  val_loss 2.5000");
  EXPECT_EQ(out.str(), progress_line(kValues, 2000, "tok/s") + "\nstep 120/2000  val_loss 2.5000\n");
}

// A terminal's screen. If its window becomes narrower, it wraps lines anew, as most terminals do, or cuts them, as
// xterm does.
class Screen {
 public:
  enum class OnResize { kWraps, kCuts };
  explicit Screen(std::size_t columns, OnResize on_resize = OnResize::kWraps)
      : columns_(columns), on_resize_(on_resize) {}

  void show(std::string_view text) {
    for (std::size_t i = 0; i < text.size(); ++i) {
      if (text[i] == '\n') {
        if (++line_ == lines_.size()) lines_.emplace_back();
        at_ = 0;
      } else if (text[i] == '\r') {
        at_ -= at_ > 0 && at_ % columns_ == 0 ? columns_ : at_ % columns_;
      } else if (text.substr(i, 3) == "\x1b[J") {
        lines_.resize(line_ + 1);
        lines_.back().resize(at_);
        i += 2;
      } else {
        std::string& line = lines_[line_];
        line.resize(std::max(line.size(), at_ + 1), ' ');
        line[at_++] = text[i];
      }
    }
  }
  void resize(std::size_t columns) {
    columns_ = columns;
    if (on_resize_ == OnResize::kWraps) return;
    for (std::string& line : lines_) line.resize(std::min(line.size(), columns));
    at_ = std::min(at_, columns - 1);
  }
  // From top to bottom.
  std::vector<std::string> rows() const {
    std::vector<std::string> rows;
    for (const std::string& line : lines_)
      for (std::size_t at = 0; at == 0 || at < line.size(); at += columns_) rows.push_back(line.substr(at, columns_));
    return rows;
  }

 private:
  std::size_t columns_;
  OnResize on_resize_;
  std::vector<std::string> lines_ = std::vector<std::string>(1);  // as printed, before wrapping
  std::size_t line_ = 0, at_ = 0;                                 // position of the cursor
};

std::vector<std::string> shown_on(std::size_t columns, const std::string& text) {
  Screen screen(columns);
  screen.show(text);
  return screen.rows();
}

// Standard output is a terminal whose window can be resized.
class ResizedTerminal : public testing::TestWithParam<Screen::OnResize> {
 protected:
  ResizedTerminal() : before_(::dup(STDOUT_FILENO)) {
    std::fflush(stdout);
    winsize size{.ws_row = 24, .ws_col = 100, .ws_xpixel = 0, .ws_ypixel = 0};
    int program = -1;
    EXPECT_EQ(::openpty(&terminal_, &program, nullptr, nullptr, &size), 0);
    ::dup2(program, STDOUT_FILENO);
    ::close(program);
  }
  ~ResizedTerminal() override {
    std::fflush(stdout);
    ::dup2(before_, STDOUT_FILENO);
    ::close(before_);
    ::close(terminal_);
  }
  void resize(unsigned short columns) {
    const winsize size{.ws_row = 24, .ws_col = columns, .ws_xpixel = 0, .ws_ypixel = 0};
    ASSERT_EQ(::ioctl(terminal_, TIOCSWINSZ, &size), 0);
    rows();
    screen_.resize(columns);
  }
  // The rows after all output so far.
  std::vector<std::string> rows() {
    screen_.show(out_.str());
    out_.str("");
    return screen_.rows();
  }

  int before_, terminal_ = -1;
  std::ostringstream out_;
  Screen screen_{100, GetParam()};
  Progress progress_{out_, {.terminal = true}, 2000, "tok/s"};
};
INSTANTIATE_TEST_SUITE_P(Terminals, ResizedTerminal,
                         testing::Values(Screen::OnResize::kWraps, Screen::OnResize::kCuts));

TEST_P(ResizedTerminal, NextStepLeavesNoRest) {
  progress_.step(kValues);
  ASSERT_GT(rows().back().size(), 60U);
  for (const unsigned short columns : std::initializer_list<unsigned short>{60, 43, 29}) {
    resize(columns);
    ProgressValues values = kValues;
    values.step = 2000 - columns;
    progress_.live(values);
    const auto lines_of_steps =
        std::ranges::count_if(rows(), [](const std::string& row) { return row.find("s left") == std::string::npos; });
    EXPECT_EQ(std::size_t(lines_of_steps), rows().size() - 1) << columns << " columns: one live line";
    EXPECT_NE(rows().back().find("s left"), std::string::npos);
    EXPECT_LT(rows().back().size(), columns);
    EXPECT_EQ(rows().front().substr(0, 13), "step 120/2000") << "lines of steps stay";
  }
}

TEST_P(ResizedTerminal, LiveLineKeepsOneRow) {
  progress_.step(kValues);
  resize(50);
  progress_.line("a checkpoint");
  const std::vector<std::string> shown = rows();
  EXPECT_EQ(shown[shown.size() - 2], "a checkpoint");
  EXPECT_NE(shown.back().find("s left"), std::string::npos) << shown.back();
  EXPECT_LT(shown.back().size(), 50U);
}

TEST_P(ResizedTerminal, EndLeavesNothingOfLiveLine) {
  progress_.step(kValues);
  resize(40);
  progress_.text("ROMEO");
  EXPECT_EQ(rows().back(), "ROMEO");
  for (const std::string& row : rows()) EXPECT_EQ(row.find("s left"), std::string::npos) << row;
}

// At any width there is one live line.
TEST(Progress, TerminalKeepsLinesAboveLiveLine) {
  for (const int columns : {42, 80, 130, 140}) {
    std::ostringstream out;
    Progress progress(out, {.terminal = true, .columns = columns}, 2000, "tok/s");
    auto values = kValues;
    for (values.step = 10; values.step <= 100; values.step += 10) progress.step(values);
    progress.line("a checkpoint");
    values.step = 120;
    progress.step(values);
    const auto lines = shown_on(static_cast<std::size_t>(columns), out.str());
    ASSERT_EQ(lines.size(), 13U) << columns << " columns\n" << out.str();
    EXPECT_EQ(lines[10], "a checkpoint");
    EXPECT_EQ(lines[11].substr(0, 26), "step 120/2000  loss 2.4123");
    EXPECT_NE(lines.back().find("  6%  1 min 12 s left"), std::string::npos) << lines.back();
    EXPECT_LT(lines.back().size(), static_cast<std::size_t>(columns));
  }
}

// Also if the run is cut short.
TEST(Progress, RunEndRemovesLiveLine) {
  std::ostringstream out;
  {
    Progress progress(out, {.terminal = true, .columns = 80}, 120, "tok/s");
    progress.step(kValues);
    EXPECT_EQ(out.str().back(), '\n') << "the last step needs none";
  }
  EXPECT_EQ(shown_on(80, out.str()).size(), 2U);
  { Progress(out, {.terminal = true, .columns = 80}, 2000, "tok/s").step(kValues); }
  EXPECT_EQ(shown_on(80, out.str()).back(), "");
}

TEST(Progress, WideLineDropsLeastImportantParts) {
  EXPECT_EQ(progress_line(kValues, 2000, "tok/s", 79),
            "step 120/2000  loss 2.4123  lr 9.8e-04  norm 1.21  41,200 tok/s  38 ms");
  EXPECT_EQ(progress_line(kValues, 2000, "tok/s", 62), "step 120/2000  loss 2.4123  lr 9.8e-04  41,200 tok/s  38 ms");
  EXPECT_EQ(progress_line(kValues, 2000, "tok/s", 10), "step 120/2000  loss 2.4123  41,200 tok/s");
}

TEST(Progress, LittleMemoryIsNotNone) {
  auto values = kValues;
  values.memory_bytes = 3000;
  EXPECT_TRUE(progress_line(values, 10, "rows/s").ends_with("mem 3 KiB"));
}

TEST(Progress, ColourNeedsRequest) {
  std::ostringstream plain, colored;
  Progress without(plain, {.terminal = true, .columns = 80}, 2000, "tok/s");
  Progress with(colored, {.terminal = true, .color = true, .columns = 80}, 2000, "tok/s");
  without.step(kValues);
  with.step(kValues);
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

// Steps between lines change only the live line.
TEST(Progress, StepsBetweenLinesUpdateLiveLine) {
  std::ostringstream pipe, terminal;
  Progress lines(pipe, {}, 2000, "tok/s");
  Progress live(terminal, {.terminal = true, .columns = 80}, 2000, "tok/s");
  auto values = kValues;
  for (Progress* progress : {&lines, &live}) {
    values.step = 120;
    progress->step(values);
    values.step = 127;
    progress->live(values);
  }
  EXPECT_EQ(pipe.str(), progress_line(kValues, 2000, "tok/s") + "\n") << "in a file nothing is redrawn";
  const auto shown = shown_on(80, terminal.str());
  ASSERT_EQ(shown.size(), 2U);
  EXPECT_NE(shown[1].find("  step 127/2000  loss 2.4123  41,200 tok/s"), std::string::npos) << shown[1];
}

// The live line draws the losses of the printed lines.
TEST(Progress, LiveLineSkipsRewoundLosses) {
  std::ostringstream out;
  Progress progress(out, {.terminal = true, .glyphs = Glyphs::kUnicode, .columns = 130}, 2000, "tok/s");
  auto values = kValues;
  for (const double loss : {8.0, 4.0, 1.0}) {
    values.step += 10;
    values.loss = loss;
    progress.step(values);
  }
  EXPECT_NE(shown_on(200, out.str()).back().find(" █▄▁  "), std::string::npos) << out.str();
  progress.take_back(values.step - 1);
  progress.live(values);
  EXPECT_NE(shown_on(200, out.str()).back().find(" █▁  "), std::string::npos) << out.str();
}

// Text replaces the live line.
TEST(Progress, ExtraLineAppearsAboveLiveLine) {
  std::ostringstream out;
  Progress progress(out, {.terminal = true, .columns = 80}, 2000, "tok/s");
  progress.step(kValues);
  progress.line("a checkpoint");
  auto shown = shown_on(80, out.str());
  ASSERT_EQ(shown.size(), 3U);
  EXPECT_EQ(shown[1], "a checkpoint");
  EXPECT_NE(shown[2].find("s left"), std::string::npos);
  progress.text("ROMEO");
  EXPECT_EQ(shown_on(80, out.str()).back(), "ROMEO");
}

}  // namespace
}  // namespace zero
