// What a person sees while a run goes on.
//
//   Progress progress(std::cout, {.terminal = isatty(1)}, steps, "tok/s");
//   progress.step({.step = 120, .loss = 2.4123, .lr = 9.8e-4, .grad_norm = 1.21, .rate = 41200, .seconds = 0.038,
//   .memory = n}); progress.line("step 250  val_loss 2.51");
//
// A line for each call of step(). On a terminal, beneath them, one live line with a bar and the time left: it is never
// wider than the terminal, is redrawn in place, and is gone when the run ends, or this. Lines of steps, too, leave out
// there what does not fit. Colour only on a terminal, and not where NO_COLOR asks for none. A silent one (ranks other
// than 0) prints nothing. Local.
#pragma once

#include <cstdint>
#include <optional>
#include <ostream>
#include <string>
#include <string_view>

namespace zero {

struct ProgressStyle {
  bool terminal = false;
  bool color = false;
  bool silent = false;
  int columns = 0;  // of the terminal; 0: as many as standard output has, asked anew for every line
  // NO_COLOR and what standard output is.
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
  std::int64_t memory_bytes = 0;
};

// "step 120/2000  loss 2.4123  lr 9.8e-04  norm 1.21  41,200 tok/s  38 ms  mem 61 MiB"; after the norm "scale 65536"
// where losses have one. What makes it wider than
// `columns` is left out, the memory first, then norm, lr and time; step, loss and rate stay. 0: all of it.
std::string progress_line(const ProgressValues& values, std::int64_t steps, std::string_view rate_unit,
                          int columns = 0);
// "[######..........]  38%  12 s left"; without the bar, or empty, where that is wider than `columns`. 0: all of it.
std::string progress_bar(std::int64_t step, std::int64_t steps, double seconds_a_step, int columns = 0);
// "9 s", "2 min 05 s", "3 h 04 min"
std::string format_duration(double seconds);

class Progress {
 public:
  Progress(std::ostream& out, ProgressStyle style, std::int64_t steps, std::string rate_unit)
      : out_(out), style_(style), steps_(steps), rate_unit_(std::move(rate_unit)) {}
  Progress(const Progress&) = delete;
  Progress& operator=(const Progress&) = delete;
  ~Progress();

  void step(const ProgressValues& values);
  // A line of its own, above the live one where there is one.
  void line(std::string_view text);
  // Text as it comes, without a line break: a generated sample.
  void text(std::string_view text);

 private:
  int columns() const;
  void clear_bar();

  std::ostream& out_;
  ProgressStyle style_;
  std::int64_t steps_;
  std::string rate_unit_;
  bool bar_shown_ = false;
};

}  // namespace zero
