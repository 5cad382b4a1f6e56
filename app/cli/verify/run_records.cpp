#include "app/cli/verify/run_records.h"

#include <cmath>
#include <string_view>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "zero/base/files/file.h"

#include "app/report/files/metrics_log.h"

namespace zero::cli {
namespace {

using LogLine = nlohmann::json;

template <typename Keys>
RecordedValues values_in(const LogLine& line, const Keys& keys) {
  RecordedValues values;
  for (const char* const key : keys) {
    const auto found = line.find(key);
    if (found == line.end() || !(found->is_number() || found->is_null())) continue;
    values[key] = found->is_null() ? std::nan("") : found->template get<double>();
  }
  return values;
}

std::int64_t whole_number_in(const LogLine& line, const char* key) {
  const auto found = line.find(key);
  return found != line.end() && found->is_number_integer() ? found->get<std::int64_t>() : -1;
}

class LogReader {
 public:
  void read_line(std::string_view text) {
    ++number_;
    const LogLine line = LogLine::parse(text, nullptr, /*allow_exceptions=*/false);
    const std::int64_t step = line.is_object() ? whole_number_in(line, "step") : -1;
    if (step < 0) return refuse(step_, line.is_object() ? "has no step" : "is not JSON");
    if (const auto event = line.find("event"); event != line.end() && event->is_string()) {
      read_event(event->get<std::string>(), line, step);
    } else if (const RecordedValues found = values_in(line, kEvaluationValues); !found.empty()) {
      records_.evaluations[step].push_back(found);
    } else {
      read_step(values_in(line, kStepValues), step);
    }
  }
  RunRecords take() && { return std::move(records_); }

 private:
  void refuse(std::int64_t step, std::string reason) { records_.damaged.push_back({number_, step, std::move(reason)}); }

  void read_event(const std::string& event, const LogLine& line, std::int64_t step) {
    if (event == "rewound") records_.rewinds.push_back({step, whole_number_in(line, "from")});
    if (event != kSavedEvent) return;
    const auto text = line.find("state_sums");
    const auto sums =
        text != line.end() && text->is_string() ? StateSums::of_text(text->get<std::string>()) : std::nullopt;
    if (sums) {
      records_.saved[step] = *sums;
    } else {
      refuse(step, "has no sums of states");
    }
  }

  void read_step(RecordedValues values, std::int64_t step) {
    if (!values.contains("loss")) return refuse(step, "has no loss");
    const bool is_new = records_.steps.emplace(step, std::move(values)).second;
    if (!is_new) refuse(step, fmt::format("is a second line of step {}", step));
    if (is_new && step <= step_) refuse(step, fmt::format("follows the line of step {}", step_));
    step_ = step;
  }

  RunRecords records_;
  std::int64_t number_ = 0;
  std::int64_t step_ = 0;  // of the last step line
};

}  // namespace

RunRecords read_records(const std::filesystem::path& metrics) {
  LogReader reader;
  std::error_code ignored;
  const std::string text = std::filesystem::exists(metrics, ignored) ? read_file(metrics) : std::string();
  // Half a line at the end is that of a run that is in progress or was killed.
  for (std::size_t begin = 0, end = 0; (end = text.find('\n', begin)) != std::string::npos; begin = end + 1)
    reader.read_line(std::string_view(text).substr(begin, end - begin));
  return std::move(reader).take();
}

}  // namespace zero::cli
