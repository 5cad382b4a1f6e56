#include "app/report/page/timeline_file.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <map>
#include <utility>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "zero/base/files/file.h"

namespace zero::page {
namespace {

using Json = nlohmann::json;

constexpr double kMicrosecond = 1e-6;

double number_at(const Json& event, const char* key) {
  const auto found = event.find(key);
  return found != event.end() && found->is_number() ? found->get<double>() : 0;
}
// Returns a rank or a row; -1: none.
int whole_at(const Json& event, const char* key) {
  const double number = number_at(event, key);
  return number >= 0 && number < 1e9 ? static_cast<int>(number) : -1;
}
std::string name_at(const Json& object) {
  const auto found = object.find("name");
  return found != object.end() && found->is_string() ? found->get<std::string>().substr(0, 200) : "";
}

// The events of a trace, by kind.
struct Trace {
  std::map<std::pair<int, int>, std::string> threads;  // (pid, tid): rank and row
  std::vector<const Json*> spans;
};

Trace events_of(const Json& events) {
  Trace trace;
  for (const Json& event : events) {
    if (!event.is_object() || !event.contains("ph")) continue;
    if (event["ph"] == "X") trace.spans.push_back(&event);
    if (event["ph"] == "M" && name_at(event) == "thread_name" && event.contains("args") && event["args"].is_object())
      trace.threads[{whole_at(event, "pid"), whole_at(event, "tid")}] = name_at(event["args"]);
  }
  return trace;
}

// A pass of a pipeline has its micro-batch and section after the name.
bool is_forward(const std::string& name) {
  return name == "forward" || name.starts_with("forward ");
}

// Returns begin and end, in microseconds, of the last step that has an end. A step begins with a forward pass. With
// several micro-batches, that is the first forward pass after a "step".
std::pair<double, double> last_step(const Trace& trace) {
  std::vector<std::pair<double, const Json*>> of_first;
  for (const Json* span : trace.spans) {
    const std::string name = name_at(*span);
    if (number_at(*span, "pid") == 0 && (is_forward(name) || name == "step"))
      of_first.emplace_back(number_at(*span, "ts"), span);
  }
  std::ranges::stable_sort(of_first, {}, &std::pair<double, const Json*>::first);
  std::pair<double, double> found{0, 0};
  double begin = std::nan("");
  for (const auto& [at, span] : of_first) {
    if (is_forward(name_at(*span))) {
      if (std::isnan(begin)) begin = at;
    } else if (!std::isnan(begin)) {
      found = {begin, at + number_at(*span, "dur")};
      begin = std::nan("");
    }
  }
  return found;
}

}  // namespace

std::optional<StepTimelineFile> read_timeline(const std::filesystem::path& path) {
  std::error_code missing;
  const std::uintmax_t bytes = std::filesystem::file_size(path, missing);
  if (missing) return std::nullopt;
  StepTimelineFile out;
  if (bytes > StepTimelineFile::kMostBytes) {
    out.problem = fmt::format("{} has more than {} MiB", path.filename().string(), StepTimelineFile::kMostBytes >> 20);
    return out;
  }
  const Json json = Json::parse(read_file(path), nullptr, /*allow_exceptions=*/false);
  const bool is_trace = json.is_object() && json.contains("traceEvents") && json["traceEvents"].is_array();
  const Trace trace = is_trace ? events_of(json["traceEvents"]) : Trace();
  const auto [begin, end] = last_step(trace);
  if (end <= begin) {
    out.problem = fmt::format("{} holds no whole step", path.filename().string());
    return out;
  }
  out.seconds = (end - begin) * kMicrosecond;
  std::map<std::pair<int, int>, std::size_t> row_of_thread;
  for (const auto& [thread, name] : trace.threads) {
    row_of_thread[thread] = out.rows.size();
    out.rows.push_back({thread.first, name});
  }
  std::map<std::string, std::size_t> number_of_name;
  for (const Json* span : trace.spans) {
    const auto row = row_of_thread.find({whole_at(*span, "pid"), whole_at(*span, "tid")});
    const double from = std::max(begin, number_at(*span, "ts"));
    const double until = std::min(end, number_at(*span, "ts") + number_at(*span, "dur"));
    if (row == row_of_thread.end() || until < from) continue;
    const auto [name, is_new] = number_of_name.try_emplace(name_at(*span), out.names.size());
    if (is_new) out.names.push_back(name->first);
    const bool has_bytes = span->contains("args") && (*span)["args"].is_object();
    out.spans.push_back({row->second, (from - begin) * kMicrosecond, (until - from) * kMicrosecond, name->second,
                         has_bytes ? number_at((*span)["args"], "bytes") : 0});
  }
  if (out.spans.size() > StepTimelineFile::kMostSpans) {
    out.num_left_out = out.spans.size() - StepTimelineFile::kMostSpans;
    std::ranges::stable_sort(out.spans, std::greater(), &StepTimelineFile::Span::seconds);
    out.spans.resize(StepTimelineFile::kMostSpans);
  }
  std::ranges::stable_sort(out.spans, {}, &StepTimelineFile::Span::begin);
  return out;
}

}  // namespace zero::page
