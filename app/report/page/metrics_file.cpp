#include "app/report/page/metrics_file.h"

#include <algorithm>
#include <cerrno>
#include <cmath>
#include <fstream>
#include <limits>
#include <string_view>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "zero/base/error/error.h"

#include "app/report/files/metrics_log.h"

namespace zero::page {
namespace {

using Json = nlohmann::json;

constexpr double kLeastPauseSeconds = 2;

// Returns NaN if the key is missing or no number.
double number_of(const Json& json, const char* key) {
  const auto found = json.find(key);
  return found != json.end() && found->is_number() ? found->get<double>() : std::nan("");
}
std::string word_of(const Json& json, const char* key) {
  const auto found = json.find(key);
  return found != json.end() && found->is_string() ? found->get<std::string>().substr(0, 200) : "";
}

// Reads {"step": 500, "event": "rewound", "reason": "loss spike", "from": 512, "loss": 93.1, "limit": 3.2, ...}
RunEvent event_of_line(const Json& line, double step) {
  RunEvent event{step, word_of(line, "event"), word_of(line, "reason")};
  if (const std::string detail = word_of(line, "detail"); !detail.empty()) event.text += fmt::format(", {}", detail);
  const bool norm = word_of(line, "reason") == "norm spike";
  const double value = number_of(line, norm ? "grad_norm" : "loss"), limit = number_of(line, "limit");
  if (std::isfinite(value)) event.text += fmt::format(": {} {:.5g}", norm ? "gradient norm" : "loss", value);
  if (std::isfinite(limit)) event.text += fmt::format(", beyond {:.5g}", limit);
  if (const double from = number_of(line, "from"); std::isfinite(from))
    event.text = fmt::format("step {:.0f}: {}; back to step {:.0f}", from, event.text, step);
  return event;
}

class Reader {
 public:
  void read_line(std::string_view line) {
    ++file_.num_lines;
    const Json json = Json::parse(line, nullptr, /*allow_exceptions=*/false);
    const double step = json.is_object() ? number_of(json, "step") : std::nan("");
    if (!std::isfinite(step)) {
      ++file_.num_damaged;
    } else if (word_of(json, "event") == kSavedEvent) {
      return;  // the page shows the checkpoints that are kept
    } else if (json.contains("event")) {
      add_event(event_of_line(json, step));
    } else {
      look_for_pause(json, step);
      add_numbers("", json, step, 0);
      if (json.contains("ranks")) add_ranks(json["ranks"], step);
      if (const double seconds = number_of(json, "step_seconds"); seconds >= 0) file_.step_seconds.push_back(seconds);
    }
  }

  MetricsFile take(bool half_a_line) && {
    file_.ends_in_half_a_line = half_a_line;
    for (const auto& [name, thinner] : thinners_) file_.curves.emplace(name, thinner.points());
    return std::move(file_);
  }

 private:
  void add_event(RunEvent event) {
    if (file_.events.size() == MetricsFile::kMostEvents) {
      ++file_.num_events_beyond;
    } else {
      file_.events.push_back(std::move(event));
    }
  }

  void add(const std::string& name, double step, double value) {
    auto found = thinners_.find(name);
    if (found == thinners_.end()) {
      if (thinners_.size() == MetricsFile::kMostCurves || name.size() > 100) return;
      found = thinners_.emplace(name, CurveThinner(MetricsFile::kMostPoints)).first;
    }
    found->second.add(step, value);
  }

  void add_numbers(const std::string& before, const Json& object, double step, int depth) {
    for (const auto& [key, value] : object.items()) {
      if (depth == 0 && (key == "step" || key == "t" || key == "ranks")) continue;
      if (value.is_number()) add(before + key, step, value.get<double>());
      if (depth == 0) note_whether_finite(key, value);
      if (value.is_object() && depth < 2) add_numbers(before + key + '.', value, step, depth + 1);
    }
  }

  void note_whether_finite(const std::string& name, const Json& value) {
    if (!value.is_null()) {
      file_.not_finite.erase(name);
    } else if (file_.not_finite.size() < MetricsFile::kMostCurves) {
      file_.not_finite.insert(name);
    }
  }

  void add_ranks(const Json& ranks, double step) {
    file_.ranks.add(ranks);
    for (const char* const key : {"wait_seconds", "samples", "age"}) {
      const auto values = ranks.is_object() ? ranks.find(key) : ranks.end();
      if (values == ranks.end() || !values->is_array() || values->size() > MetricsFile::kMostRankCurves) continue;
      for (std::size_t rank = 0; rank < values->size(); ++rank)
        if (const Json& value = (*values)[rank]; value.is_number())
          add(fmt::format("ranks.{}.{}", key, rank), step, value.get<double>());
    }
  }

  // A line is written when its step is over. So the time since the line before belongs to the step, or is a pause.
  void look_for_pause(const Json& json, double step) {
    const double now = number_of(json, "t");
    if (!std::isfinite(now)) return;
    double own = number_of(json, "step_seconds");
    if (!std::isfinite(own)) own = number_of(json, "eval_seconds");
    if (!std::isfinite(own)) own = 0;
    if (!std::isfinite(began_)) began_ = now - own;
    if (const double pause = now - own - last_time_; pause > std::max(kLeastPauseSeconds, 3 * own))
      add_event({step, "pause",
                 fmt::format("{:.0f} s before step {:.0f} that belong to no step: a restart, a save, or a wait", pause,
                             step)});
    last_time_ = now;
    add("elapsed_seconds", step, now - began_);
  }

  MetricsFile file_;
  std::map<std::string, CurveThinner, std::less<>> thinners_;
  double began_ = std::nan(""), last_time_ = std::nan("");
};

}  // namespace

const std::vector<CurvePoint>* MetricsFile::curve(std::string_view name) const {
  const auto found = curves.find(name);
  return found == curves.end() || found->second.empty() ? nullptr : &found->second;
}

std::optional<double> MetricsFile::last(std::string_view name) const {
  if (not_finite.contains(name)) return std::nan("");
  const auto* points = curve(name);
  return points == nullptr ? std::nullopt : std::optional<double>(points->back().value);
}

MetricsFile read_metrics(const std::filesystem::path& path) {
  Reader reader;
  if (!std::filesystem::exists(path)) return std::move(reader).take(false);
  std::ifstream file(path, std::ios::binary);
  if (!file) throw IoError(path.string(), "open", errno);
  std::vector<char> line(MetricsFile::kMostLineBytes + 1);
  while (file.getline(line.data(), static_cast<std::streamsize>(line.size())) || file.gcount() > 0) {
    if (file.eof()) return std::move(reader).take(/*half_a_line=*/true);  // no line break follows
    if (file.bad()) break;
    const std::streamsize bytes = file.gcount();  // with the line break
    const bool too_long = file.fail();
    if (too_long) {
      file.clear();
      file.ignore(std::numeric_limits<std::streamsize>::max(), '\n');
    }
    reader.read_line(too_long ? "" : std::string_view(line.data(), static_cast<std::size_t>(bytes - 1)));
  }
  if (file.bad()) throw IoError(path.string(), "read", errno);
  return std::move(reader).take(/*half_a_line=*/false);
}

}  // namespace zero::page
