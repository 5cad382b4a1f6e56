#include "zero/train/progress.h"

#include <algorithm>
#include <cmath>
#include <cstdlib>

#include <fmt/format.h>
#include <unistd.h>

#include "zero/base/bytes.h"

namespace zero {
namespace {

constexpr std::int64_t kBarWidth = 24;

std::string milliseconds(double seconds) {
  const double ms = seconds * 1e3;
  return ms < 10 ? fmt::format("{:.1f} ms", ms) : fmt::format("{} ms", format_count(std::llround(ms)));
}

}  // namespace

ProgressStyle ProgressStyle::of_standard_output() {
  return ::isatty(STDOUT_FILENO) == 1 ? of_terminal() : ProgressStyle{};
}

ProgressStyle ProgressStyle::of_terminal() {
  const auto variable = [](const char* name) {
    const char* const value = std::getenv(name);  // NOLINT: read once, at the start
    return std::string_view(value == nullptr ? "" : value);
  };
  // mpirun reads a rank's output from a terminal of its own, and hands it on to wherever its own goes.
  const bool is_mpiruns = !variable("OMPI_COMM_WORLD_SIZE").empty() || !variable("PMI_SIZE").empty();
  if (is_mpiruns || variable("TERM") == "dumb") return {};
  return {.terminal = true, .color = variable("NO_COLOR").empty()};
}

std::string progress_line(const ProgressValues& v, std::int64_t steps, std::string_view rate_unit) {
  return fmt::format("step {}/{}  loss {:.4f}  lr {:.1e}  norm {:.2f}  {} {}  {}  mem {} MiB", v.step, steps, v.loss,
                     v.lr, v.grad_norm, format_count(std::llround(v.rate)), rate_unit, milliseconds(v.seconds),
                     format_count((v.memory_bytes + (1 << 19)) >> 20));
}

std::string format_duration(double seconds) {
  const auto s = std::llround(seconds);
  if (s < 60) return fmt::format("{} s", s);
  if (s < 3600) return fmt::format("{} min {:02} s", s / 60, s % 60);
  return fmt::format("{} h {:02} min", s / 3600, s % 3600 / 60);
}

std::string progress_bar(std::int64_t step, std::int64_t steps, double seconds_a_step) {
  step = std::min(step, steps);
  const std::int64_t full = steps > 0 ? kBarWidth * step / steps : kBarWidth;
  return fmt::format("[{}{}] {:3}%  {} left", std::string(static_cast<std::size_t>(full), '#'),
                     std::string(static_cast<std::size_t>(kBarWidth - full), '.'), steps > 0 ? 100 * step / steps : 100,
                     format_duration(seconds_a_step * static_cast<double>(steps - step)));
}

void Progress::step(const ProgressValues& values) {
  if (style_.silent) return;
  const std::string text = progress_line(values, steps_, rate_unit_);
  if (!style_.terminal) {
    out_ << text << '\n' << std::flush;
    return;
  }
  const std::string bar = progress_bar(values.step, steps_, values.seconds);
  clear_bar();
  if (style_.color) {
    out_ << "\x1b[36m" << bar << "\x1b[0m  " << text << std::flush;
  } else {
    out_ << bar << "  " << text << std::flush;
  }
  bar_shown_ = true;
}

void Progress::line(std::string_view text) {
  if (style_.silent) return;
  clear_bar();
  out_ << text << '\n' << std::flush;
}

void Progress::text(std::string_view text) {
  if (style_.silent) return;
  clear_bar();
  out_ << text << std::flush;
}

void Progress::clear_bar() {
  // Carriage return and "erase to the end of the line": every terminal since the VT100 knows both.
  if (bar_shown_) out_ << "\r\x1b[K";
  bar_shown_ = false;
}

}  // namespace zero
