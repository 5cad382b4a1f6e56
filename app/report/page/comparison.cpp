#include "app/report/page/comparison.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <set>

#include <fmt/format.h>

#include "zero/base/text/bytes.h"
#include "zero/base/text/terminal_text.h"

#include "app/report/screen/loss_text.h"

namespace zero::page {
namespace {

constexpr std::size_t kMostOfAValue = 40;  // columns

struct FigureRow {
  const char* key;
  const char* label;
  Unit unit;
  int better;
  RunFigures::Figure RunFigures::*figure;
};

constexpr FigureRow kFiguresAboveTiers[] = {
    {"steps", "steps", Unit::kCount, 0, &RunFigures::steps},
    {"loss", "loss, last step", Unit::kNumber, -1, &RunFigures::loss},
    {"val_loss", "validation loss, last", Unit::kNumber, -1, &RunFigures::val_loss},
    {"best_val_loss", "validation loss, best", Unit::kNumber, -1, &RunFigures::best_val_loss},
    {"accuracy", "accuracy", Unit::kFraction, 1, &RunFigures::accuracy},
    {"perplexity", "perplexity", Unit::kNumber, -1, &RunFigures::perplexity},
    {"val_loss_ema", "validation loss of the average", Unit::kNumber, -1, &RunFigures::val_loss_ema},
    {"accuracy_ema", "accuracy of the average", Unit::kFraction, 1, &RunFigures::accuracy_ema},
    {"perplexity_ema", "perplexity of the average", Unit::kNumber, -1, &RunFigures::perplexity_ema},
    {"units_per_second", "tokens a second", Unit::kPerSecond, 1, &RunFigures::units_per_second},
    {"step_seconds", "time of a step (median)", Unit::kSeconds, -1, &RunFigures::step_seconds},
    {"exposed_seconds", "waits for disk and link, a step", Unit::kSeconds, -1, &RunFigures::exposed_seconds},
    {"total_seconds", "time in all", Unit::kSeconds, 0, &RunFigures::total_seconds},
    {"utilization", "utilization", Unit::kFraction, 1, &RunFigures::utilization},
};
constexpr FigureRow kFiguresBelowTiers[] = {
    {"sent_bytes", "sent a step", Unit::kBytes, -1, &RunFigures::sent_bytes},
    {"disk_moved_bytes", "read and written on disk a step", Unit::kBytes, -1, &RunFigures::disk_moved},
    {"link_moved_bytes", "over the link a step", Unit::kBytes, -1, &RunFigures::link_moved},
    {"skipped_steps", "skipped steps", Unit::kCount, -1, &RunFigures::skipped_steps},
    {"rewinds", "rewinds", Unit::kCount, -1, &RunFigures::rewinds},
};

bool fits_a_count(double value) {
  return std::isfinite(value) && std::abs(value) < 1e18;
}

// Three digits, or all whole digits of a larger value: "{:.3g}" prints 1000 as "1e+03".
std::string format_digits(double value) {
  return value >= 999.5 && fits_a_count(value) ? format_count(std::llround(value)) : fmt::format("{:.3g}", value);
}

std::string format_seconds(double seconds) {
  if (seconds < 0.9995) return fmt::format("{:.3g} ms", seconds * 1e3);  // 999.5 ms reads "1e+03 ms"
  return seconds < 120 ? fmt::format("{:.3g} s", seconds) : fmt::format("{:.1f} min", seconds / 60);
}

// Tokens of some runs and rows of others are not compared by name.
std::string label_of(const FigureRow& row, std::span<const RecordedRun> runs) {
  if (row.figure != &RunFigures::units_per_second) return row.label;
  const auto has_tokens = [](const RecordedRun& run) { return run.figures.counts_tokens; };
  if (std::ranges::all_of(runs, has_tokens)) return row.label;
  return std::ranges::none_of(runs, has_tokens) ? "rows a second" : "tokens or rows a second";
}

constexpr const char* kAgainstHighest =
    "against the fastest matrix product that one of these runs probed on the same machine, device and number of "
    "threads";
constexpr const char* kWithoutPeak = "; a run whose report has no peak_flops, against its own probe";
constexpr const char* kAgainstOwn =
    "against each run's own probe, as no report has peak_flops: runs whose steps take as long may differ in it";

// The highest peaks of runs with the same machine, device and threads. The peak of all ranks does not grow in
// proportion to their number, because ranks may share cores.
struct HighestPeak {
  double of_a_rank = 0, together = 0;
  double of(double ranks) const { return std::min(ranks * of_a_rank, together); }
};

void tell_against_highest_peak(std::span<const RecordedRun> runs, ComparedFigure& utilization) {
  std::map<std::string_view, HighestPeak> highest;
  for (const RecordedRun& run : runs) {
    if (!run.figures.peak_flops) continue;
    HighestPeak& peak = highest[run.figures.probed_on];
    peak.of_a_rank = std::max(peak.of_a_rank, *run.figures.peak_flops / run.figures.num_computing);
    peak.together = std::max(peak.together, *run.figures.peak_flops);
  }
  bool lacks_one = false;
  for (std::size_t i = 0; i < runs.size(); ++i) {
    const RunFigures& figures = runs[i].figures;
    if (!utilization.values[i]) continue;
    if (figures.peak_flops)
      *utilization.values[i] *= *figures.peak_flops / highest[figures.probed_on].of(figures.num_computing);
    else
      lacks_one = true;
  }
  utilization.note = highest.empty() ? kAgainstOwn : kAgainstHighest;
  if (lacks_one && !highest.empty()) utilization.note += kWithoutPeak;
}

using Cells = std::vector<std::string>;

std::string aligned(const std::vector<Cells>& lines) {
  std::vector<std::size_t> widths(lines.front().size());
  for (const Cells& cells : lines)
    for (std::size_t i = 0; i < cells.size(); ++i) widths[i] = std::max(widths[i], terminal_columns(cells[i]));
  std::string text;
  for (const Cells& cells : lines) {
    std::string line;
    for (std::size_t i = 0; i < cells.size(); ++i) {
      const std::string space(widths[i] - terminal_columns(cells[i]), ' ');
      line += i == 0 ? cells[i] + space : "  " + space + cells[i];
    }
    text += line.substr(0, line.find_last_not_of(' ') + 1) + '\n';
  }
  return text;
}

// Adds a row with the value of each run, unless no run has one. Returns the added row, or null.
template <typename ValueOf>
ComparedFigure* add_row(ComparedFigure row, std::span<const RecordedRun> runs, ValueOf value_of, Comparison& out) {
  for (const RecordedRun& run : runs) row.values.push_back(value_of(run.figures));
  if (std::ranges::none_of(row.values, [](const auto& value) { return value.has_value(); })) return nullptr;
  return &out.figures.emplace_back(std::move(row));
}

void add_rows(std::span<const FigureRow> rows, std::span<const RecordedRun> runs, Comparison& out) {
  for (const FigureRow& row : rows) {
    ComparedFigure* const added = add_row(
        {row.key, label_of(row, runs), row.unit, row.better, {}, {}}, runs,
        [&row](const RunFigures& figures) { return figures.*row.figure; }, out);
    if (added != nullptr && row.figure == &RunFigures::utilization && runs.size() > 1)
      tell_against_highest_peak(runs, *added);
  }
}

}  // namespace

std::string key_of_bytes(const TierFacts& tier) {
  return fmt::format("{}{}_bytes", tier.name, tier.peak_key.empty() ? "" : "_peak");
}

Comparison compare(std::span<const RecordedRun> runs) {
  Comparison out;
  std::set<std::string> keys;
  for (const RecordedRun& run : runs) {
    out.names.push_back(run.name);
    out.done.push_back(run.done);
    for (const auto& [key, ignored] : run.configuration) keys.insert(key);
  }
  add_rows(kFiguresAboveTiers, runs, out);
  for (const TierFacts& tier : kTierTable)
    add_row(
        {key_of_bytes(tier),
         fmt::format("{}{}", tier.peak_key.empty() ? "" : "peak ", tier.phrase),
         Unit::kBytes,
         -1,
         {},
         {}},
        runs, [&tier](const RunFigures& figures) { return figures.most_bytes[tier.tier]; }, out);
  add_rows(kFiguresBelowTiers, runs, out);
  keys.erase("run.dir");
  for (const std::string& key : keys) {
    ComparedKey compared{key, {}, false};
    for (const RecordedRun& run : runs) {
      const auto found = run.configuration.find(key);
      compared.values.push_back(found == run.configuration.end() ? "" : found->second);
    }
    compared.differs = std::ranges::count(compared.values, compared.values.front()) !=
                       static_cast<std::ptrdiff_t>(compared.values.size());
    out.keys.push_back(std::move(compared));
  }
  return out;
}

std::string format_figure(Unit unit, const std::optional<double>& value) {
  if (!value || !std::isfinite(*value)) return "-";
  switch (unit) {
    case Unit::kCount:
      return fits_a_count(*value) ? format_count(std::llround(*value)) : fmt::format("{:.3g}", *value);
    case Unit::kPerSecond:
      return fits_a_count(*value) && *value >= 100 ? format_count(std::llround(*value)) : fmt::format("{:.3g}", *value);
    case Unit::kBytes:
      return fits_a_count(*value) ? format_bytes(std::llround(*value)) : fmt::format("{:.3g} B", *value);
    case Unit::kSeconds:
      return format_seconds(*value);
    case Unit::kFraction:
      return format_digits(*value * 100) + "%";
    case Unit::kNumber:
      break;
  }
  return loss_text(*value);
}

std::string format_change(const ComparedFigure& figure, std::size_t run) {
  const auto& first = figure.values.front();
  const auto& value = figure.values[run];
  if (run == 0 || !first || !value || *first <= 0 || !std::isfinite(*value / *first)) return "";
  if (*value == *first) return figure.better == 0 ? "" : "=";
  const double ratio = *value / *first, percent = 100 * (*value - *first) / *first;
  if (ratio >= 2) return "x " + format_digits(ratio);
  if (std::abs(percent) < 0.095) return fmt::format("{:+.1g}%", percent);
  return std::abs(percent) < 9.95 ? fmt::format("{:+.1f}%", percent) : fmt::format("{:+.0f}%", percent);
}

std::string notes_text(const Comparison& comparison) {
  std::string text;
  for (const ComparedFigure& figure : comparison.figures)
    if (!figure.note.empty()) text += fmt::format("{}: {}\n", figure.label, figure.note);
  return text;
}

std::string to_text(const Comparison& comparison) {
  const std::size_t num_runs = comparison.names.size();
  std::vector<Cells> lines{{""}};
  for (std::size_t run = 0; run < num_runs; ++run) {
    lines[0].push_back(terminal_text(comparison.names[run], kMostOfAValue) +
                       (comparison.done[run] ? "" : " (not done)"));
    if (run > 0) lines[0].push_back("");
  }
  for (const ComparedFigure& figure : comparison.figures) {
    Cells cells{figure.label};
    for (std::size_t run = 0; run < num_runs; ++run) {
      cells.push_back(format_figure(figure.unit, figure.values[run]));
      if (run > 0) cells.push_back(format_change(figure, run));
    }
    lines.push_back(std::move(cells));
  }
  std::string text = aligned(lines) + notes_text(comparison);
  lines.clear();
  for (const ComparedKey& key : comparison.keys) {
    if (!key.differs) continue;
    Cells cells{"  " + key.key};
    for (const std::string& value : key.values)
      cells.push_back(value.empty() ? "-" : terminal_text(value, kMostOfAValue));
    lines.push_back(std::move(cells));
  }
  if (num_runs > 1) text += lines.empty() ? "\nNo key of the configurations differs.\n" : "\nkeys that differ\n";
  return lines.empty() ? text : text + aligned(lines);
}

nlohmann::ordered_json to_json(const Comparison& comparison) {
  using Json = nlohmann::ordered_json;
  Json json{{"runs", Json::array()}, {"notes", Json::object()}, {"differing_keys", Json::object()}};
  for (std::size_t run = 0; run < comparison.names.size(); ++run) {
    Json values = Json::object();
    for (const ComparedFigure& figure : comparison.figures)
      values[figure.key] = figure.values[run] ? Json(*figure.values[run]) : Json();
    json["runs"].push_back(
        {{"name", comparison.names[run]}, {"done", bool(comparison.done[run])}, {"figures", std::move(values)}});
  }
  for (const ComparedFigure& figure : comparison.figures)
    if (!figure.note.empty()) json["notes"][figure.key] = figure.note;
  for (const ComparedKey& key : comparison.keys)
    if (key.differs) json["differing_keys"][key.key] = key.values;
  return json;
}

}  // namespace zero::page
