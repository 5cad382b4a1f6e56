// Progress: the lines that a run prints to standard output.
//
//   Progress progress(std::cout, {.terminal = isatty(1)}, steps, "tok/s");
//   progress.step({.step = 120, .loss = 2.4123, .lr = 9.8e-4, .grad_norm = 1.21, .rate = 41200, .seconds = 0.038});
//   progress.line("step 250  val_loss 2.51");
//
// It prints a line for each call of step(). On a terminal, a live line (live_line.h) follows. It is redrawn in place,
// never wider than the terminal, and removed at the end. If the window shrinks, the next redraw
// fits and erases every row of the old line. live() redraws it for a step without a line of its own. Lines
// of steps leave out figures that do not fit a terminal. Colour is used only on a terminal, unless NO_COLOR forbids it.
// Unicode blocks are used only in a UTF-8 locale. A silent Progress (ranks other than 0) prints nothing. Local.
#pragma once

#include <cstdint>
#include <optional>
#include <ostream>
#include <string>
#include <string_view>
#include <vector>

#include "app/report/screen/live_line.h"

namespace zero {

struct ProgressStyle {
  bool terminal = false;
  bool color = false;
  bool silent = false;
  Glyphs glyphs = Glyphs::kAscii;
  int columns = 0;  // of the terminal; 0: asks standard output for every line
  // Returns the style for standard output, by NO_COLOR, the locale's variables, and whether it is a terminal.
  static ProgressStyle of_standard_output();
  // Returns the style for a terminal. With TERM=dumb, or if mpirun reads the output, it prints lines only.
  static ProgressStyle of_terminal();
};

struct ProgressValues {
  std::int64_t step = 0;
  double loss = 0;
  double lr = 0;
  double grad_norm = 0;
  std::optional<double> loss_scale;  // set if losses have a scale
  double rate = 0;                   // tokens or samples a second, over all ranks
  double seconds = 0;                // of a step
  double seconds_left = 0;           // until the end of the run
  std::int64_t memory_bytes = 0;
};

// "step 120/2000  loss 2.4123  lr 9.8e-04  norm 1.21  41,200 tok/s  38 ms  mem 61 MiB". A loss scale follows the norm,
// as "scale 65536". Figures beyond `columns` are left out: first memory, then norm, lr and time. Step, loss and rate
// always stay. 0 columns: no limit.
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
  // Removes losses of later steps from the live line's curve.
  void take_back(std::int64_t step);
  // Prints a line of its own, above the live line if there is one.
  void line(std::string_view text);
  // Prints text unchanged, without a line break: a generated sample. Removes the live line until the next step.
  void text(std::string_view text);
  // Returns the terminal's columns now; 80 without a terminal.
  int columns() const;

 private:
  void draw();
  void clear_live();

  std::ostream& out_;
  ProgressStyle style_;
  std::int64_t steps_;
  std::string rate_unit_;
  std::vector<std::int64_t> logged_steps_;  // steps of losses_; the newest is last
  std::vector<double> losses_;
  std::optional<LiveValues> live_;  // values that the terminal shows now
};

}  // namespace zero
