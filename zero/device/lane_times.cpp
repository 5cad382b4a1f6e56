#include "zero/device/lane_times.h"

#include <optional>
#include <utility>

#include "zero/base/process/clock.h"

namespace zero {

LaneTimes::LaneTimes(Device& device, Timeline* timeline)
    : device_(device), timeline_(timeline), here_(std::make_shared<const bool>(true)) {
  if (timeline_ == nullptr || device_.host_readable()) return;
  const auto while_here = [here = std::weak_ptr<const bool>(here_)](const auto& function) {
    return [here, function] {
      if (!here.expired()) function();
    };
  };
  timeline_->passes_are_timed_elsewhere(while_here([this] { compare_clocks(); }), while_here([this] { read_all(); }));
  if (recording()) compare_clocks();
}

Mark LaneTimes::mark(Lane lane) {
  return device_.host_readable() ? Mark() : device_.timed_mark(lane);
}

void LaneTimes::compare_clocks() {
  ++num_starts_;
  origin_ = device_.timed_mark(Lane::kCompute);
  device_.join(origin_);
  origin_at_ = monotonic_seconds();
}

void LaneTimes::add(Activity activity, int unit, std::int64_t bytes, Mark begin, Mark end) {
  keep({.bytes = bytes, .unit = unit, .activity = activity}, std::move(begin), std::move(end), /*counts=*/true);
}

void LaneTimes::show(Activity activity, int unit, Mark begin, Mark end) {
  if (recording()) keep({.unit = unit, .activity = activity}, std::move(begin), std::move(end), /*counts=*/false);
}

void LaneTimes::keep(const TimelineSpan& shown, Mark begin, Mark end, bool counts) {
  if (begin.empty() || end.empty()) return;
  spans_.push_back(
      {.shown = shown, .begin = std::move(begin), .end = std::move(end), .counts = counts, .start = num_starts_});
}

void LaneTimes::read() {
  std::erase_if(spans_, [this](const Span& span) { return read(span); });
}

void LaneTimes::read_all() {
  for (const Span& span : std::exchange(spans_, {})) {
    device_.join(span.end);
    read(span);
  }
}

bool LaneTimes::read(const Span& span) {
  const std::optional<double> seconds = device_.seconds_between(span.begin, span.end);
  if (!seconds) return false;
  if (span.counts) seconds_[static_cast<std::size_t>(span.shown.activity)] += *seconds;
  if (!recording() || span.start != num_starts_) return true;  // it may have begun before the origin
  // A mark that two spans share has one time, so a wait never ends after its pass.
  const auto at = [this](const Mark& mark) { return origin_at_ + device_.seconds_between(origin_, mark).value_or(0); };
  TimelineSpan shown = span.shown;
  shown.begin = at(span.begin);
  shown.end = at(span.end);
  timeline_->add(shown);
  return true;
}

}  // namespace zero
