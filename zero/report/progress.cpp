#include "zero/report/progress.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdlib>

#include <fmt/format.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "zero/base/bytes.h"
#include "zero/base/seconds.h"

namespace zero {
namespace {

constexpr std::int64_t kBarWidth = 24;
constexpr int kUsualColumns = 80;
// Carriage return and "erase to the end of the line": every terminal since the VT100 knows both.
constexpr std::string_view kClear = "\r\x1b[K";

std::string memory(std::int64_t bytes) {
  constexpr std::int64_t kKiB = 1 << 10, kMiB = 1 << 20;
  const bool small = bytes < kMiB;
  const std::int64_t unit = small ? kKiB : kMiB;
  return fmt::format("{} {}", format_count((bytes + unit / 2) / unit), small ? "KiB" : "MiB");
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

std::string progress_line(const ProgressValues& v, std::int64_t steps, std::string_view rate_unit, int columns) {
  enum Part { kLr, kNorm, kScale, kTime, kMemory, kNumParts };
  constexpr std::array kLeftOutFirst{kMemory, kScale, kNorm, kLr, kTime};
  std::array<std::string, kNumParts> parts{fmt::format("  lr {:.1e}", v.lr), fmt::format("  norm {:.2f}", v.grad_norm),
                                           v.loss_scale ? fmt::format("  scale {:g}", *v.loss_scale) : "",
                                           "  " + format_seconds(v.seconds), "  mem " + memory(v.memory_bytes)};
  const auto line = [&] {
    return fmt::format("step {}/{}  loss {:.4f}{}{}{}  {} {}{}{}", v.step, steps, v.loss, parts[kLr], parts[kNorm],
                       parts[kScale], format_count(std::llround(v.rate)), rate_unit, parts[kTime], parts[kMemory]);
  };
  std::string text = line();
  for (const Part part : kLeftOutFirst) {
    if (columns <= 0 || std::ssize(text) <= columns) break;
    parts[part].clear();
    text = line();
  }
  return text;
}

std::string format_duration(double seconds) {
  const auto s = std::llround(seconds);
  if (s < 60) return fmt::format("{} s", s);
  if (s < 3600) return fmt::format("{} min {:02} s", s / 60, s % 60);
  return fmt::format("{} h {:02} min", s / 3600, s % 3600 / 60);
}

std::string progress_bar(std::int64_t step, std::int64_t steps, double seconds_a_step, int columns) {
  step = std::min(step, steps);
  const std::int64_t full = steps > 0 ? kBarWidth * step / steps : kBarWidth;
  const std::string left = fmt::format("{:3}%  {} left", steps > 0 ? 100 * step / steps : 100,
                                       format_duration(seconds_a_step * static_cast<double>(steps - step)));
  const std::string whole = fmt::format("[{}{}] {}", std::string(static_cast<std::size_t>(full), '#'),
                                        std::string(static_cast<std::size_t>(kBarWidth - full), '.'), left);
  if (columns <= 0 || std::ssize(whole) <= columns) return whole;
  return std::ssize(left) <= columns ? left : "";
}

Progress::~Progress() {
  if (bar_shown_) out_ << kClear << std::flush;
}

int Progress::columns() const {
  if (style_.columns > 0) return style_.columns;
  winsize size{};
  const bool known = ::ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 0;
  return known ? size.ws_col : kUsualColumns;
}

void Progress::step(const ProgressValues& values) {
  if (style_.silent) return;
  if (!style_.terminal) {
    out_ << progress_line(values, steps_, rate_unit_) << '\n' << std::flush;
    return;
  }
  // In the last column some terminals begin the next line.
  const int room = columns() - 1;
  clear_bar();
  out_ << progress_line(values, steps_, rate_unit_, room) << '\n';
  const std::string bar = values.step < steps_ ? progress_bar(values.step, steps_, values.seconds, room) : "";
  if (style_.color && !bar.empty())
    out_ << "\x1b[36m" << bar << "\x1b[0m";
  else
    out_ << bar;
  out_ << std::flush;
  bar_shown_ = !bar.empty();
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
  if (bar_shown_) out_ << kClear;
  bar_shown_ = false;
}

}  // namespace zero
