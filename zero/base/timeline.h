// Timeline: the work of a rank as spans of time. It shows which transfer hides behind which computation.
//
//   Timeline timeline;
//   timeline.start();
//   { const TimedSpan forward(&timeline, Activity::kForward); ... }         // lasts as long as the scope
//   TimedSpan gather(&timeline, Activity::kGather, unit, bytes);            // lasts until end()
//   ...
//   gather.end();
//   timeline.stop();
//   write_file("timeline.json", to_chrome_trace(...));                      // chrome_trace.h
//
// A span is kept when it begins and ends while the timeline records. Its memory is reserved by start(); spans beyond
// `capacity` are counted and not kept. Without a timeline pass null: a TimedSpan then costs one comparison.
//
// Where a device of its own computes, the host runs ahead of it: then the device times passes and waits, and their spans come
// when it has done them (zero/device/lane_times.h).
//
// Times are monotonic_seconds(). Local; one thread at a time.
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "zero/base/clock.h"

namespace zero {

// A row of the picture: what works. Rows go on side by side; what stands in one of them comes one after the other, but
// for transfers that are in flight together.
enum class TimelineRow : std::uint8_t {
  kCompute,
  kGather,
  kReduce,
  kUpdate,
  kDiskRead,
  kDiskWrite,
  kLinkUp,
  kLinkDown
};
constexpr int kNumTimelineRows = 8;

std::string_view name_of(TimelineRow row);  // "disk read"

// The work of a span. kWait...: the model's own thread waits, for the part of a transfer that nothing hides.
enum class Activity : std::uint8_t {
  kForward,
  kBackward,
  kStep,
  kEvaluate,
  kWaitData,
  kWaitGather,
  kWaitReduce,
  kWaitDisk,
  kWaitLink,
  kGather,
  kReduce,
  kGatherGradient,
  kUpdate,
  kDiskRead,
  kDiskWrite,
  kLinkUp,
  kLinkDown
};
constexpr int kNumActivities = 17;

// What the model does in a step, and its waits for transfers.
constexpr bool is_of_passes(Activity activity) {
  return activity <= Activity::kStep || (activity >= Activity::kWaitGather && activity <= Activity::kWaitLink);
}

std::string_view name_of(Activity activity);  // "wait gather"
TimelineRow row_of(Activity activity);

// Trivially copyable: ranks send them to each other.
struct TimelineSpan {
  double begin = 0;  // monotonic_seconds()
  double end = 0;
  std::int64_t bytes = 0;  // moved or worked on; 0 where that says nothing
  std::int32_t unit = -1;  // -1: of none
  Activity activity = Activity::kForward;
};

class Timeline {
 public:
  static constexpr std::size_t kDefaultCapacity = std::size_t{1} << 18;  // 10 MiB, touched as it fills
  explicit Timeline(std::size_t capacity = kDefaultCapacity) : capacity_(capacity) {}

  // What spans call units by; told by the engine.
  void name_units(std::vector<std::string> names) { unit_names_ = std::move(names); }

  // Forgets what was recorded before.
  void start();
  void stop();
  bool recording() const { return recording_; }

  // A device times passes and waits from now on: a TimedSpan of these, which has the host's clock, is not kept. start() then
  // calls `begin`, and stop() first calls `end`, for spans that are not known before.
  void passes_are_timed_elsewhere(std::function<void()> begin, std::function<void()> end);
  bool keeps_timed(Activity activity) const { return recording_ && (elsewhere_.empty() || !is_of_passes(activity)); }

  // A span whose end is known, be it in the future. No-op unless recording, and for one that began before start().
  void add(const TimelineSpan& span);

  double origin() const { return origin_; }                          // of the last start()
  const std::vector<TimelineSpan>& spans() const { return spans_; }  // in the order of their ends, as add() was called
  const std::vector<std::string>& unit_names() const { return unit_names_; }
  std::int64_t num_lost() const { return num_lost_; }  // beyond the capacity

 private:
  std::size_t capacity_;
  bool recording_ = false;
  double origin_ = 0;
  std::int64_t num_lost_ = 0;
  std::vector<TimelineSpan> spans_;
  std::vector<std::string> unit_names_;
  struct Elsewhere {
    std::function<void()> begin, end;
  };
  std::vector<Elsewhere> elsewhere_;
};

// A span under way. Move-only; ended by end(), by being assigned to, or by its destructor.
class [[nodiscard]] TimedSpan {
 public:
  TimedSpan() = default;
  explicit TimedSpan(Timeline* timeline, Activity activity, int unit = -1, std::int64_t bytes = 0) {
    if (timeline == nullptr || !timeline->keeps_timed(activity)) return;
    timeline_ = timeline;
    span_ = {.begin = monotonic_seconds(), .bytes = bytes, .unit = unit, .activity = activity};
  }
  TimedSpan(TimedSpan&& other) noexcept : timeline_(std::exchange(other.timeline_, nullptr)), span_(other.span_) {}
  TimedSpan& operator=(TimedSpan&& other) noexcept {
    if (this == &other) return *this;
    end();
    timeline_ = std::exchange(other.timeline_, nullptr);
    span_ = other.span_;
    return *this;
  }
  ~TimedSpan() { end(); }

  // No-op for one that has ended.
  void end() noexcept {
    if (timeline_ == nullptr) return;
    span_.end = monotonic_seconds();
    std::exchange(timeline_, nullptr)->add(span_);
  }

 private:
  Timeline* timeline_ = nullptr;  // null: ended, or nobody records
  TimelineSpan span_;
};

}  // namespace zero
