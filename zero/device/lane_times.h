// LaneTimes: how long, and when, a device's lanes work, by the device's clock, as spans of a timeline.
//
//   LaneTimes times(device, timeline);
//   { const LaneSpan span(times, Lane::kUpdate, Activity::kUpdate, unit, bytes); ... }  // times work in kUpdate
//   times.read();                                // in each step: reads the spans that the device has done
//   times.seconds(Activity::kUpdate)             // so far
//
// A span begins when its lane reaches it, and includes the lane's waits that are queued within it. If the host can read
// the device, LaneTimes does nothing, and TimedSpan measures on the host.
//
// While the timeline records, it receives the lanes' spans on the host's clock. The clocks are compared once per
// start() of the timeline, which waits for kCompute; stop() waits for all remaining spans. The host then no longer
// times the model's passes and waits (Timeline::passes_are_timed_elsewhere()). Local; one thread at a time. Throws
// DeviceError.
#pragma once

#include <array>
#include <cstdint>
#include <exception>
#include <memory>
#include <utility>
#include <vector>

#include "zero/base/process/timeline.h"
#include "zero/device/device.h"

namespace zero {

class LaneTimes {
 public:
  // `device` and `timeline` must outlive the object. `timeline` may be null.
  explicit LaneTimes(Device& device, Timeline* timeline = nullptr);
  LaneTimes(const LaneTimes&) = delete;
  LaneTimes& operator=(const LaneTimes&) = delete;

  // Returns a timed mark; empty if there is nothing to time.
  [[nodiscard]] Mark mark(Lane lane);
  // Adds a span from `begin` to `end`, which may be in the future. Ignores empty marks.
  void add(Activity activity, int unit, std::int64_t bytes, Mark begin, Mark end);
  // Adds a span that is part of another one, so seconds() does not count it.
  void show(Activity activity, int unit, Mark begin, Mark end);

  void read();
  double seconds(Activity activity) const { return seconds_[static_cast<std::size_t>(activity)]; }

 private:
  struct Span {
    TimelineSpan shown;
    Mark begin, end;
    bool counts;
    int start;  // num_starts_ at the time of queueing
  };
  void compare_clocks();
  void keep(const TimelineSpan& shown, Mark begin, Mark end, bool counts);
  bool recording() const { return timeline_ != nullptr && timeline_->recording(); }
  bool read(const Span& span);  // false: the device has not done it
  void read_all();

  Device& device_;
  Timeline* timeline_;
  std::vector<Span> spans_;  // spans that the device may not have done
  std::array<double, kNumActivities> seconds_{};
  int num_starts_ = 0;
  Mark origin_;  // passed at origin_at_ by the host's clock
  double origin_at_ = 0;
  // tells the timeline, which may be stopped later, whether this object still exists
  std::shared_ptr<const bool> here_;
};

// Times the work that is queued in a lane during its lifetime. A default-constructed span times nothing. Move-only. If
// an exception ends the scope, the span is dropped.
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
