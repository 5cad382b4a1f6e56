#include "zero/base/process/chrome_trace.h"

#include <algorithm>
#include <cmath>
#include <iterator>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

namespace zero {
namespace {

using Nanoseconds = std::int64_t;
constexpr int kLanesOfRow = 1000;  // thread numbers per row

Nanoseconds since(double origin, double time) {
  return std::max<Nanoseconds>(0, std::llround((time - origin) * 1e9));
}

// Whole nanoseconds, because rounding must never let a span end after the span that contains it.
std::string microseconds(Nanoseconds time) {
  return fmt::format("{}.{:03}", time / 1000, time % 1000);
}

// Quotes a text. Names come from the user's model, so invalid UTF-8 is replaced.
std::string quoted(const std::string& text) {
  return nlohmann::json(text).dump(-1, ' ', /*ensure_ascii=*/false, nlohmann::json::error_handler_t::replace);
}

class Writer {
 public:
  explicit Writer(std::span<const std::string> unit_names) : names_of_all_(unit_names) {}

  void add_rank(int rank, const RankTimeline& timeline) {
    unit_names_ = timeline.unit_names.empty() ? names_of_all_ : timeline.unit_names;
    describe(rank, 0, "process", fmt::format("rank {}", rank), rank);
    std::array<std::vector<TimelineSpan>, kNumTimelineRows> rows;
    for (const TimelineSpan& span : timeline.spans)
      rows[static_cast<std::size_t>(row_of(span.activity))].push_back(span);
    for (std::size_t row = 0; row < rows.size(); ++row)
      add_row(rank, static_cast<TimelineRow>(row), timeline.origin, rows[row]);
    num_lost_ += timeline.num_lost;
  }

  std::string text() && {
    fmt::format_to(std::back_inserter(text_),
                   "\n],\n\"displayTimeUnit\": \"ms\", \"otherData\": {{\"lost_spans\": {}}}}}\n", num_lost_);
    return std::move(text_);
  }

 private:
  template <typename... Values>
  void event(fmt::format_string<Values...> format, Values&&... values) {
    if (std::exchange(has_events_, true)) text_ += ",\n";
    fmt::format_to(std::back_inserter(text_), format, std::forward<Values>(values)...);
  }

  // Names a process or thread, and sets its position.
  void describe(int pid, int tid, std::string_view what, const std::string& name, int position) {
    event(R"({{"name": "{}_name", "ph": "M", "pid": {}, "tid": {}, "args": {{"name": {}}}}})", what, pid, tid,
          quoted(name));
    event(R"({{"name": "{}_sort_index", "ph": "M", "pid": {}, "tid": {}, "args": {{"sort_index": {}}}}})", what, pid,
          tid, position);
  }

  void add_row(int rank, TimelineRow row, double origin, std::vector<TimelineSpan>& spans) {
    // If two spans begin together, the containing one is first.
    std::ranges::stable_sort(spans, [](const TimelineSpan& a, const TimelineSpan& b) {
      return a.begin != b.begin ? a.begin < b.begin : a.end > b.end;
    });
    const int first = (static_cast<int>(row) + 1) * kLanesOfRow;
    std::vector<Nanoseconds> free_at;  // by lane
    for (const TimelineSpan& span : spans) {
      const Nanoseconds begin = since(origin, span.begin);
      const Nanoseconds end = std::max(begin, since(origin, span.end));
      const int lane = row == TimelineRow::kCompute ? nested_lane(free_at) : free_lane(begin, end, free_at);
      event(R"({{"name": {}, "cat": "{}", "ph": "X", "ts": {}, "dur": {}, "pid": {}, "tid": {}, "args": {{{}}}}})",
            title(span), name_of(row), microseconds(begin), microseconds(end - begin), rank, first + lane,
            span.bytes > 0 ? fmt::format("\"bytes\": {}", span.bytes) : "");
    }
    for (int lane = 0; lane < static_cast<int>(free_at.size()); ++lane) {
      const std::string name(name_of(row));
      describe(rank, first + lane, "thread", lane == 0 ? name : fmt::format("{} {}", name, lane + 1), first + lane);
    }
  }

  // One thread computes: its spans are nested and share a lane.
  static int nested_lane(std::vector<Nanoseconds>& free_at) {
    free_at.resize(1);
    return 0;
  }

  // Returns the first lane that is free by then; the last lane takes all spans that find no free lane.
  static int free_lane(Nanoseconds begin, Nanoseconds end, std::vector<Nanoseconds>& free_at) {
    auto lane = std::ranges::find_if(free_at, [begin](Nanoseconds free) { return free <= begin; });
    if (lane == free_at.end()) {
      if (free_at.size() < kLanesOfRow) free_at.push_back(0);
      lane = std::prev(free_at.end());
    }
    *lane = std::max(*lane, end);
    return static_cast<int>(lane - free_at.begin());
  }

  std::string title(const TimelineSpan& span) const {
    const std::string_view activity = name_of(span.activity);
    const auto unit = static_cast<std::size_t>(span.unit);
    if (span.pass.micro >= 0) return quoted(fmt::format("{} {}.{}", activity, span.pass.micro, span.pass.section));
    if (span.unit < 0) return quoted(std::string(activity));
    return quoted(unit < unit_names_.size() ? fmt::format("{} {}", activity, unit_names_[unit])
                                            : fmt::format("{} {}", activity, unit));
  }

  std::span<const std::string> names_of_all_, unit_names_;  // unit_names_: of the rank that is added
  std::string text_ = "{\"traceEvents\": [\n";
  bool has_events_ = false;
  std::int64_t num_lost_ = 0;
};

}  // namespace

std::string to_chrome_trace(std::span<const RankTimeline> ranks, std::span<const std::string> unit_names) {
  Writer writer(unit_names);
  for (std::size_t rank = 0; rank < ranks.size(); ++rank) writer.add_rank(static_cast<int>(rank), ranks[rank]);
  return std::move(writer).text();
}

}  // namespace zero
