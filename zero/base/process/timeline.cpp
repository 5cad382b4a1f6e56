#include "zero/base/process/timeline.h"

#include <algorithm>
#include <utility>

namespace zero {
namespace {

struct NamedActivity {
  TimelineRow row;
  std::string_view name;
};

// in the order of Activity
constexpr std::array<NamedActivity, kNumActivities> kActivities{{{TimelineRow::kCompute, "forward"},
                                                                 {TimelineRow::kCompute, "backward"},
                                                                 {TimelineRow::kCompute, "backward inputs"},
                                                                 {TimelineRow::kCompute, "backward weights"},
                                                                 {TimelineRow::kCompute, "step"},
                                                                 {TimelineRow::kCompute, "evaluate"},
                                                                 {TimelineRow::kCompute, "wait data"},
                                                                 {TimelineRow::kCompute, "wait gather"},
                                                                 {TimelineRow::kCompute, "wait reduce"},
                                                                 {TimelineRow::kCompute, "wait disk"},
                                                                 {TimelineRow::kCompute, "wait link"},
                                                                 {TimelineRow::kCompute, "wait section"},
                                                                 {TimelineRow::kGather, "gather"},
                                                                 {TimelineRow::kReduce, "reduce"},
                                                                 {TimelineRow::kReduce, "gather gradient"},
                                                                 {TimelineRow::kUpdate, "update"},
                                                                 {TimelineRow::kDiskRead, "read"},
                                                                 {TimelineRow::kDiskWrite, "write"},
                                                                 {TimelineRow::kLinkUp, "up"},
                                                                 {TimelineRow::kLinkDown, "down"}}};

constexpr std::array<std::string_view, kNumTimelineRows> kRows{"compute",   "gather",     "reduce",  "update",
                                                               "disk read", "disk write", "link up", "link down"};

}  // namespace

std::string_view name_of(TimelineRow row) {
  return kRows[static_cast<std::size_t>(row)];
}

std::string_view name_of(Activity activity) {
  return kActivities[static_cast<std::size_t>(activity)].name;
}

TimelineRow row_of(Activity activity) {
  return kActivities[static_cast<std::size_t>(activity)].row;
}

void Timeline::name_units(const std::vector<std::string>& names) {
  unit_names_.resize(std::max(unit_names_.size(), names.size()));
  for (std::size_t unit = 0; unit < names.size(); ++unit) {
    std::string& known = unit_names_[unit];
    const std::string listed = ", " + known + ", ";
    if (listed.find(", " + names[unit] + ", ") != std::string::npos) continue;
    known += (known.empty() ? "" : ", ") + names[unit];
  }
}

void Timeline::start() {
  spans_.clear();
  spans_.reserve(capacity_);  // so add() never allocates, and may be called while an exception is thrown
  num_lost_ = 0;
  origin_ = monotonic_seconds();
  recording_ = true;
  for (const Elsewhere& each : elsewhere_) each.begin();
}

void Timeline::stop() {
  for (const Elsewhere& each : elsewhere_) {
    if (recording_) each.end();
  }
  recording_ = false;
}

void Timeline::passes_are_timed_elsewhere(std::function<void()> begin, std::function<void()> end) {
  elsewhere_.push_back({std::move(begin), std::move(end)});
}

void Timeline::add(const TimelineSpan& span) {
  if (!recording_ || span.begin < origin_) return;
  if (spans_.size() == capacity_) {
    ++num_lost_;
    return;
  }
  spans_.push_back(span);
}

}  // namespace zero
