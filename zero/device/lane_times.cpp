#include "zero/device/lane_times.h"

#include <optional>
#include <utility>

#include "zero/base/clock.h"

namespace zero {

LaneTimes::LaneTimes(Device& device, Timeline* timeline)
    : device_(device), timeline_(timeline), here_(std::make_shared<const bool>(true)) {
  if (timeline_ == nullptr || device_.host_readable()) return;
  timeline_->passes_are_timed_elsewhere([this, here = std::weak_ptr<const bool>(here_)] {
    if (!here.expired()) read_all();
  });
}

// The clocks are compared before a span's first mark, so that none begins before the origin.
Mark LaneTimes::mark(Lane lane) {
  if (device_.host_readable()) return {};
  if (recording() && compared_for_ != timeline_->origin()) compare_clocks();
  return device_.timed_mark(lane);
}

void LaneTimes::compare_clocks() {
  read();
  compared_for_ = timeline_->origin();
  origin_ = device_.timed_mark(Lane::kCompute);
  device_.join(origin_);
  origin_at_ = monotonic_seconds();
}

void LaneTimes::add(Activity activity, int unit, std::int64_t bytes, Mark begin, Mark end) {
  if (begin.empty() || end.empty()) return;
  spans_.push_back({.shown = {.bytes = bytes, .unit = unit, .activity = activity},
                    .begin = std::move(begin),
                    .end = std::move(end),
                    .counts = true});
}

void LaneTimes::show(Activity activity, int unit, Mark begin, Mark end) {
  if (!recording() || begin.empty() || end.empty()) return;
  spans_.push_back({.shown = {.unit = unit, .activity = activity},
                    .begin = std::move(begin),
                    .end = std::move(end),
                    .counts = false});
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

// The timeline takes no span that began before it was started.
bool LaneTimes::read(const Span& span) {
  const std::optional<double> seconds = device_.seconds_between(span.begin, span.end);
  if (!seconds) return false;
  if (span.counts) seconds_[static_cast<std::size_t>(span.shown.activity)] += *seconds;
  if (!recording() || compared_for_ != timeline_->origin()) return true;
  TimelineSpan shown = span.shown;
  shown.begin = origin_at_ + device_.seconds_between(origin_, span.begin).value_or(0);
  shown.end = shown.begin + *seconds;
  timeline_->add(shown);
  return true;
}

}  // namespace zero
