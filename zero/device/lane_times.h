// LaneTimes: how long lanes of a device work, by the device's own clock, and when, as spans of a timeline.
//
//   LaneTimes times(device, timeline);
//   { const LaneSpan span(times, Lane::kUpdate, Activity::kUpdate, unit, bytes); ... }   // what is queued in kUpdate meanwhile
//   times.read();                                // in each step: of the spans that the device has done by then
//   times.seconds(Activity::kUpdate)             // so far
//
// A span begins when its lane has come to it, and waits of the lane that are queued within it are part of it. Where the host can
// read the device there is nothing to time: all of this does nothing, and spans are the host's own (TimedSpan).
//
// While the timeline records, spans of lanes go into it, on the clock of the host. The two clocks are compared once for each
// start() of the timeline: the host waits for kCompute then, and at its stop() for all spans that are left. Passes and waits
// of the model are no longer timed by the host (Timeline::passes_are_timed_elsewhere()).
//
// Local; one thread at a time. Throws DeviceError.
#pragma once

#include <array>
#include <cstdint>
#include <exception>
#include <memory>
#include <utility>
#include <vector>

#include "zero/base/timeline.h"
#include "zero/device/device.h"

namespace zero {

class LaneTimes {
 public:
  // `device` and `timeline` outlive it. Null: there is no timeline.
  explicit LaneTimes(Device& device, Timeline* timeline = nullptr);
  LaneTimes(const LaneTimes&) = delete;
  LaneTimes& operator=(const LaneTimes&) = delete;

  // An empty mark where there is nothing to time.
  [[nodiscard]] Mark mark(Lane lane);
  // From `begin` to `end`, which may lie in the future. No-op for empty marks.
  void add(Activity activity, int unit, std::int64_t bytes, Mark begin, Mark end);
  // The same of a span that is part of another one: it counts for no seconds().
  void show(Activity activity, int unit, Mark begin, Mark end);

  void read();
  double seconds(Activity activity) const { return seconds_[static_cast<std::size_t>(activity)]; }

 private:
  struct Span {
    TimelineSpan shown;
    Mark begin, end;
    bool counts;
    int start;  // num_starts_ when it was queued
  };
  void compare_clocks();
  void keep(const TimelineSpan& shown, Mark begin, Mark end, bool counts);
  bool recording() const { return timeline_ != nullptr && timeline_->recording(); }
  bool read(const Span& span);  // false: the device has not done it
  void read_all();

  Device& device_;
  Timeline* timeline_;
  std::vector<Span> spans_;  // that the device may not have done
  std::array<double, kNumActivities> seconds_{};
  int num_starts_ = 0;
  Mark origin_;  // passed at origin_at_ by the host's clock
  double origin_at_ = 0;
  std::shared_ptr<const bool> here_;  // the timeline may be stopped when this has gone
};

// What is queued in a lane while it lives. An empty one times nothing. Move-only. Ends without a word where an exception is on its way.
class [[nodiscard]] LaneSpan {
 public:
  LaneSpan() = default;
  LaneSpan(LaneTimes& times, Lane lane, Activity activity, int unit = -1, std::int64_t bytes = 0)
      : times_(&times), lane_(lane), activity_(activity), unit_(unit), bytes_(bytes), begin_(times.mark(lane)) {}
  LaneSpan(LaneSpan&& other) noexcept
      : times_(std::exchange(other.times_, nullptr)),
        lane_(other.lane_),
        activity_(other.activity_),
        unit_(other.unit_),
        bytes_(other.bytes_),
        begin_(std::move(other.begin_)),
        num_exceptions_(other.num_exceptions_) {}
  LaneSpan& operator=(LaneSpan&&) = delete;
  ~LaneSpan() noexcept(false) {
    if (times_ != nullptr && !begin_.empty() && std::uncaught_exceptions() == num_exceptions_)
      times_->add(activity_, unit_, bytes_, begin_, times_->mark(lane_));
  }

 private:
  LaneTimes* times_ = nullptr;
  Lane lane_ = Lane::kCompute;
  Activity activity_ = Activity::kForward;
  int unit_ = -1;
  std::int64_t bytes_ = 0;
  Mark begin_{};
  int num_exceptions_ = std::uncaught_exceptions();
};

}  // namespace zero
