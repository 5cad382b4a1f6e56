// Timeline: the work of a rank as spans of time. It shows which transfer hides behind which computation.
//
//   Timeline timeline;
//   timeline.start();
//   { const TimedSpan forward(&timeline, Activity::kForward); ... }         // ends with the scope
//   TimedSpan gather(&timeline, Activity::kGather, unit, bytes);            // ends with end()
//   gather.end();
//   timeline.stop();
//   write_file("timeline.json", to_chrome_trace(...));                      // chrome_trace.h
//
// A span is kept if it begins and ends while the timeline records. start() reserves the memory; spans beyond `capacity`
// are only counted. Without a timeline pass null: a TimedSpan then costs one comparison. If a separate device computes,
// the host runs ahead of it. The device then times passes and waits, and adds their spans later
// (zero/device/lane_times.h). Times are monotonic_seconds(). Local; one thread at a time.
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "zero/base/process/clock.h"

namespace zero {

// A row of the picture: a resource. Rows run in parallel; spans within a row follow each other, except transfers that
// are in flight together.
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

// A span's work. kWait...: the model's thread waits for the exposed part of a transfer.
enum class Activity : std::uint8_t {
  kForward,
  kBackward,
  kBackwardInputs,   // of a pipeline: only gradients of inputs
  kBackwardWeights,  // of a pipeline: only gradients of weights
  kStep,
  kEvaluate,
  kWaitData,
  kWaitGather,
  kWaitReduce,
  kWaitDisk,
  kWaitLink,
  kWaitSection,  // for a tensor of a pipeline's other rank
  kGather,
  kReduce,
  kGatherGradient,
  kUpdate,
  kDiskRead,
  kDiskWrite,
  kLinkUp,
  kLinkDown
};
constexpr int kNumActivities = 20;

// Returns whether the activity is a pass of the model in a step, or a wait for a transfer.
constexpr bool is_of_passes(Activity activity) {
  return activity <= Activity::kStep || (activity >= Activity::kWaitGather && activity <= Activity::kWaitSection);
}

std::string_view name_of(Activity activity);  // "wait gather"
TimelineRow row_of(Activity activity);

// The pass of a pipeline to which a span belongs.
struct TimelinePass {
  std::int32_t micro = -1;  // micro-batch; -1: no pipeline
  std::int32_t section = -1;
};

// Trivially copyable, because ranks send spans to each other.
struct TimelineSpan {
  double begin = 0;  // monotonic_seconds()
  double end = 0;
  std::int64_t bytes = 0;  // moved or processed bytes; 0 if meaningless
  std::int32_t unit = -1;  // -1: no unit
  Activity activity = Activity::kForward;
  TimelinePass pass{};
};

class Timeline {
 public:
  static constexpr std::size_t kDefaultCapacity = std::size_t{1} << 18;  // 10 MiB, touched as it fills
  explicit Timeline(std::size_t capacity = kDefaultCapacity) : capacity_(capacity) {}

  // Sets the names of units; the engine calls it. If a rank has several engines (a pipeline's sections), units of one
  // number share a name: "h.0, h.2".
  void name_units(const std::vector<std::string>& names);

  // Begins recording, and forgets earlier spans.
  void start();
  void stop();
  bool recording() const { return recording_; }

  // Lets a device time passes and waits: TimedSpans of these activities, on the host's clock, are no longer kept.
  // start() calls `begin`. stop() first calls `end`, which adds spans that were not known before.
  void passes_are_timed_elsewhere(std::function<void()> begin, std::function<void()> end);
  bool keeps_timed(Activity activity) const { return recording_ && (elsewhere_.empty() || !is_of_passes(activity)); }

  // Adds a span with a known end, which may be in the future. Does nothing while not recording, or if the span began
  // before start().
  void add(const TimelineSpan& span);

  double origin() const { return origin_; }  // time of the last start()
  // in the order of add(), which is that of their ends
  const std::vector<TimelineSpan>& spans() const { return spans_; }
  const std::vector<std::string>& unit_names() const { return unit_names_; }
  std::int64_t num_lost() const { return num_lost_; }  // number of spans beyond the capacity

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

// A span under way. Move-only. It ends by end(), by assignment, or by destruction.
class [[nodiscard]] TimedSpan {
 public:
  TimedSpan() = default;
  explicit TimedSpan(Timeline* timeline, Activity activity, int unit = -1, std::int64_t bytes = 0) {
    if (timeline == nullptr || !timeline->keeps_timed(activity)) return;
    timeline_ = timeline;
    span_ = {.begin = monotonic_seconds(), .bytes = bytes, .unit = unit, .activity = activity};
  }
  TimedSpan(Timeline* timeline, Activity activity, TimelinePass pass) : TimedSpan(timeline, activity) {
    span_.pass = pass;
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

  // Ends the span; does nothing if it has ended.
  void end() noexcept {
    if (timeline_ == nullptr) return;
    span_.end = monotonic_seconds();
    std::exchange(timeline_, nullptr)->add(span_);
  }

 private:
  Timeline* timeline_ = nullptr;  // null: ended, or not recorded
  TimelineSpan span_;
};

}  // namespace zero
