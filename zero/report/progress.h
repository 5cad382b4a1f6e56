// Progress: the lines of a run on standard output while it goes on.
//
//   Progress progress(std::cout, {.terminal = isatty(1)}, steps, "tok/s");
//   progress.step({.step = 120, .loss = 2.4123, .lr = 9.8e-4, .grad_norm = 1.21, .rate = 41200, .seconds = 0.038});
//   progress.line("step 250  val_loss 2.51");
//
// A line for each call of step(). On a terminal, beneath them, one live line (live_line.h): it is never wider than the
// terminal, is redrawn in place, and is gone when the run ends, or this. If the window shrinks, the next redraw fits and
// erases every row of the old one. live() redraws it for a step that has no line of its own. Lines of steps also leave out
// there what does not fit. Colour only on a terminal, and not where NO_COLOR asks for none; blocks of Unicode only where the
// locale is of UTF-8. A silent one (ranks other than 0) prints nothing. Local.
#pragma once

#include <cstdint>
#include <optional>
#include <ostream>
#include <string>
#include <string_view>
#include <vector>

#include "zero/report/live_line.h"

namespace zero {

struct ProgressStyle {
  bool terminal = false;
  bool color = false;
  bool silent = false;
  Glyphs glyphs = Glyphs::kAscii;
  int columns = 0;  // of the terminal; 0: as many as standard output has, asked anew for every line
  // NO_COLOR, the locale's variables, and what standard output is.
  static ProgressStyle of_standard_output();
  // Of output that is a terminal; TERM=dumb, or mpirun behind it, takes lines alone.
  static ProgressStyle of_terminal();
};

struct ProgressValues {
  std::int64_t step = 0;
  double loss = 0;
  double lr = 0;
  double grad_norm = 0;
  std::optional<double> loss_scale;  // where losses have one
  double rate = 0;                   // tokens or samples a second, over all ranks
  double seconds = 0;                // a step
  double seconds_left = 0;           // of the run
  std::int64_t memory_bytes = 0;
};

// "step 120/2000  loss 2.4123  lr 9.8e-04  norm 1.21  41,200 tok/s  38 ms  mem 61 MiB"; after the norm "scale 65536"
// where losses have one. What makes it wider than
// `columns` is left out, the memory first, then norm, lr and time; step, loss and rate stay. 0: all of it.
std::string progress_line(const ProgressValues& values, std::int64_t steps, std::string_view rate_unit,
                          int columns = 0);

class Progress {
 public:
  Progress(std::ostream& out, ProgressStyle style, std::int64_t steps, std::string rate_unit)
      : out_(out), style_(style), steps_(steps), rate_unit_(std::move(rate_unit)) {}
  Progress(const Progress&) = delete;
  Progress& operator=(const Progress&) = delete;
  ~Progress();

  void step(const ProgressValues& values);
  void live(const ProgressValues& values);
  // Losses of later steps leave the live line's curve.
  void take_back(std::int64_t step);
  // A line of its own, above the live one where there is one.
  void line(std::string_view text);
  // Text as it comes, without a line break: a generated sample. The live line goes until the next step.
  void text(std::string_view text);
  // Of the terminal now; 80 where there is none.
  int columns() const;

 private:
  void draw();
  void clear_live();

  std::ostream& out_;
  ProgressStyle style_;
  std::int64_t steps_;
  std::string rate_unit_;
  std::vector<std::int64_t> logged_steps_;  // of losses_; the newest last
  std::vector<double> losses_;
  std::optional<LiveValues> live_;  // that the terminal shows now
};

}  // namespace zero
