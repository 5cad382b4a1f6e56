#include "app/report/screen/progress.h"

#include <algorithm>
#include <array>
#include <cctype>
#include <cmath>
#include <cstdlib>

#include <fmt/format.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "zero/base/text/bytes.h"

#include "app/report/screen/loss_text.h"

namespace zero {
namespace {

constexpr int kUsualColumns = 80;
// The cursor waits where the live line begins. If the window shrinks, a terminal that wraps old lines again moves the
// cursor with them, and a terminal that cuts them leaves it. So "erase to the end of the screen" erases all rows of the
// live line. Every terminal since the VT100 supports it.
constexpr std::string_view kToBegin = "\r", kClear = "\r\x1b[J";

// Returns the terminal's encoding: the first of these variables that is set counts.
template <typename Variable>
std::string_view locale_of(Variable variable) {
  for (const char* const name : {"LC_ALL", "LC_CTYPE"}) {
    if (const std::string_view value = variable(name); !value.empty()) return value;
  }
  return variable("LANG");
}

// Is it a UTF-8 locale, such as "en_US.UTF-8" or "C.utf8"?
bool is_utf8(std::string_view locale) {
  std::string text(locale);
  std::erase(text, '-');
  std::ranges::transform(text, text.begin(), [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  return text.find("utf8") != std::string::npos;
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
  // mpirun reads a rank's output through its own terminal, and forwards it to its own output.
  const bool is_mpiruns = !variable("OMPI_COMM_WORLD_SIZE").empty() || !variable("PMI_SIZE").empty();
  if (is_mpiruns || variable("TERM") == "dumb") return {};
  return {.terminal = true,
          .color = variable("NO_COLOR").empty(),
          .glyphs = is_utf8(locale_of(variable)) ? Glyphs::kUnicode : Glyphs::kAscii};
}

std::string progress_line(const ProgressValues& v, std::int64_t steps, std::string_view rate_unit, int columns) {
  enum Part { kLr, kNorm, kScale, kTime, kMemory, kNumParts };
  constexpr std::array kLeftOutFirst{kMemory, kScale, kNorm, kLr, kTime};
  std::array<std::string, kNumParts> parts{fmt::format("  lr {:.1e}", v.lr), fmt::format("  norm {:.2f}", v.grad_norm),
                                           v.loss_scale ? fmt::format("  scale {:g}", *v.loss_scale) : "",
                                           "  " + format_seconds(v.seconds), "  mem " + format_memory(v.memory_bytes)};
  const auto line = [&] {
    return fmt::format("step {}/{}  loss {}{}{}{}  {} {}{}{}", v.step, steps, loss_text(v.loss), parts[kLr],
                       parts[kNorm], parts[kScale], format_count(std::llround(v.rate)), rate_unit, parts[kTime],
                       parts[kMemory]);
  };
  std::string text = line();
  for (const Part part : kLeftOutFirst) {
    if (columns <= 0 || std::ssize(text) <= columns) break;
    parts[part].clear();
    text = line();
  }
  return text;
}

Progress::~Progress() {
  clear_live();
  out_ << std::flush;
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
  if (losses_.size() == kMostCurveColumns) {
    losses_.erase(losses_.begin());
    logged_steps_.erase(logged_steps_.begin());
  }
  losses_.push_back(values.loss);
  logged_steps_.push_back(values.step);
  clear_live();
  // The last column stays free, because some terminals begin a new line after it.
  out_ << progress_line(values, steps_, rate_unit_, columns() - 1) << '\n';
  live(values);
}

void Progress::live(const ProgressValues& values) {
  if (style_.silent || !style_.terminal) return;
  clear_live();
  if (values.step < steps_) {
    live_ = {.step = values.step,
             .loss = values.loss,
             .rate = values.rate,
             .seconds_left = values.seconds_left,
             .memory_bytes = values.memory_bytes};
    draw();
  }
  out_ << std::flush;
}

void Progress::take_back(std::int64_t step) {
  while (!logged_steps_.empty() && logged_steps_.back() > step) {
    logged_steps_.pop_back();
    losses_.pop_back();
  }
}

void Progress::line(std::string_view text) {
  if (style_.silent) return;
  const std::optional<LiveValues> live = live_;
  clear_live();
  out_ << text << '\n';
  live_ = live;
  draw();
  out_ << std::flush;
}

void Progress::text(std::string_view text) {
  if (style_.silent) return;
  clear_live();
  out_ << text << std::flush;
}

// For the columns that the terminal has now.
void Progress::draw() {
  if (!live_) return;
  const std::string text = live_line(
      *live_, losses_, {.steps = steps_, .rate_unit = rate_unit_, .columns = columns() - 1, .glyphs = style_.glyphs});
  if (style_.color)
    out_ << "\x1b[36m" << text << "\x1b[0m" << kToBegin;
  else
    out_ << text << kToBegin;
}

void Progress::clear_live() {
  if (live_) out_ << kClear;
  live_.reset();
}

}  // namespace zero
