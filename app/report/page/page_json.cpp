#include "app/report/page/page_json.h"

#include <algorithm>
#include <charconv>
#include <cmath>

#include <fmt/format.h>

#include "app/report/page/comparison.h"

namespace zero::page {
namespace {

using OrderedJson = nlohmann::ordered_json;

// Six digits are more than a screen shows, and half as long as all digits.
double rounded(double value) {
  const std::string text = fmt::format("{:.6g}", value);
  double out = value;
  std::from_chars(text.data(), text.data() + text.size(), out);
  return out;
}

OrderedJson curve_json(const std::vector<CurvePoint>& points) {
  OrderedJson steps = OrderedJson::array(), values = OrderedJson::array();
  for (const CurvePoint& point : points) {
    const bool whole = std::abs(point.step) < 1e15 && point.step == std::floor(point.step);
    steps.push_back(whole ? OrderedJson(static_cast<std::int64_t>(point.step)) : OrderedJson(point.step));
    values.push_back(rounded(point.value));
  }
  return OrderedJson::array({std::move(steps), std::move(values)});
}

// Leaves out curves that are always 0.
OrderedJson curves_json(const MetricsFile& metrics) {
  OrderedJson json = OrderedJson::object();
  for (const auto& [name, points] : metrics.curves)
    if (std::ranges::any_of(points, [](const CurvePoint& point) { return point.value != 0; }))
      json[name] = curve_json(points);
  return json;
}

OrderedJson memory_json(const std::vector<RecordedMemory>& memory) {
  OrderedJson json = OrderedJson::array();
  for (const RecordedMemory& tier : memory) {
    OrderedJson tags = OrderedJson::object();
    for (const auto& [tag, bytes] : tier.tags)
      if (bytes > 0) tags[tag] = bytes;
    json.push_back({{"tier", tier.tier}, {"tags", tags}, {"total", tier.total}, {"peak", tier.peak}});
  }
  return json;
}

OrderedJson times_json(const std::optional<PhaseTimes>& times) {
  if (!times) return OrderedJson();
  return {{"forward", times->forward}, {"backward", times->backward}, {"update", times->update},
          {"exposed", times->exposed}, {"total", times->total},       {"bound", times->bound}};
}

// Returns planned and measured states by tier. A row has a label, parameter, gradient, master, moment and total.
OrderedJson states_json(const RecordedRun& run) {
  constexpr std::size_t kNumStates = 4;  // the first tags of the ledger
  OrderedJson rows = OrderedJson::array();
  for (const Tier each : kAllTiers) {
    const std::string tier(name_of(each));
    const auto planned = std::ranges::find(run.planned, tier, &PlannedTier::tier);
    if (planned != run.planned.end()) {
      OrderedJson row = OrderedJson::array({fmt::format("{}, planned", tier)});
      for (const std::string& bytes : planned->bytes) row.push_back(bytes);
      rows.push_back(std::move(row));
    }
    const auto measured = std::ranges::find(run.memory, tier, &RecordedMemory::tier);
    if (measured == run.memory.end()) continue;
    OrderedJson row = OrderedJson::array({fmt::format("{}, measured", tier)});
    double total = 0;
    for (std::size_t i = 0; i < kNumStates; ++i) {
      row.push_back(format_figure(Unit::kBytes, measured->tags[i].second));
      total += measured->tags[i].second;
    }
    row.push_back(format_figure(Unit::kBytes, total));
    if (total == 0 && planned == run.planned.end()) continue;
    rows.push_back(std::move(row));
  }
  return rows;
}

// Returns rows of a label, the planned value, the measured value, and measured / planned.
OrderedJson balance_json(const RecordedRun& run) {
  OrderedJson rows = OrderedJson::array();
  const auto add = [&](std::string label, Unit unit, RunFigures::Figure planned, RunFigures::Figure measured) {
    if (!planned || !measured) return;
    const ComparedFigure both{"", "", unit, -1, {planned, measured}};
    rows.push_back({label, format_figure(unit, planned), format_figure(unit, measured), format_change(both, 1)});
  };
  const auto add_bytes = [&](std::string label, const std::optional<PlannedAndMeasured>& bytes) {
    if (bytes) add(std::move(label), Unit::kBytes, bytes->planned, bytes->measured);
  };
  add_bytes("states of a rank (formula of the stage)", run.states);
  add_bytes("sent a step (plan)", run.sent_by_plan);
  add_bytes("sent a step (formula of the stage)", run.sent_by_formula);
  if (run.predicted && run.measured) {
    const PhaseTimes &predicted = *run.predicted, &measured = *run.measured;
    add("time of a step", Unit::kSeconds, predicted.total, measured.total);
    add("forward", Unit::kSeconds, predicted.forward, measured.forward);
    add("backward", Unit::kSeconds, predicted.backward, measured.backward);
    add("update", Unit::kSeconds, predicted.update, measured.update);
  }
  return rows;
}

OrderedJson timeline_json(const std::optional<StepTimelineFile>& timeline) {
  if (!timeline || timeline->rows.empty()) return OrderedJson();
  OrderedJson rows = OrderedJson::array(), spans = OrderedJson::array();
  for (const auto& row : timeline->rows) rows.push_back({row.rank, row.name});
  for (const auto& span : timeline->spans)
    spans.push_back({span.row, rounded(span.begin), rounded(span.seconds), span.name, span.bytes});
  return {{"seconds", timeline->seconds}, {"rows", rows}, {"names", timeline->names}, {"spans", spans}};
}

OrderedJson ranks_json(const RankTable& ranks) {
  OrderedJson columns = OrderedJson::array();
  for (const RankColumn& column : ranks.columns()) {
    OrderedJson values = OrderedJson::array();
    for (const double value : column.values)
      values.push_back(std::isfinite(value) ? OrderedJson(rounded(value)) : OrderedJson());
    columns.push_back({{"label", column.label}, {"unit", column.unit}, {"values", std::move(values)}});
  }
  return columns;
}

OrderedJson run_json(const RecordedRun& run) {
  OrderedJson events = OrderedJson::array(), facts = OrderedJson::array();
  for (const RunEvent& event : run.metrics.events) events.push_back({event.step, event.kind, event.text});
  facts.push_back({"folder", run.folder.string()});
  for (const auto& [label, text] : run.facts) facts.push_back({label, text});
  return {{"name", run.name},
          {"done", run.done},
          {"notes", run.notes},
          {"facts", facts},
          {"curves", curves_json(run.metrics)},
          {"events", events},
          {"memory", memory_json(run.memory)},
          {"states", states_json(run)},
          {"predicted", times_json(run.predicted)},
          {"measured", times_json(run.measured)},
          {"balance", balance_json(run)},
          {"plan", run.plan},
          {"timeline", timeline_json(run.timeline)},
          {"ranks", ranks_json(run.metrics.ranks)}};
}

// Returns 1 if the run is better than the first run, -1 if it is worse, 0 if neither.
int verdict(const ComparedFigure& figure, std::size_t run) {
  const std::string change = format_change(figure, run);
  if (change.empty() || change == "=") return 0;
  return *figure.values[run] > *figure.values.front() ? figure.better : -figure.better;
}

OrderedJson figure_json(const ComparedFigure& figure) {
  OrderedJson json{{"key", figure.key}, {"label", figure.label}, {"note", figure.note}};
  for (std::size_t run = 0; run < figure.values.size(); ++run) {
    json["texts"].push_back(format_figure(figure.unit, figure.values[run]));
    json["changes"].push_back(format_change(figure, run));
    json["verdicts"].push_back(verdict(figure, run));
  }
  return json;
}

}  // namespace

OrderedJson page_json(std::span<const RecordedRun> runs, std::string_view made) {
  const Comparison comparison = compare(runs);
  OrderedJson json{{"version", ZERO_VERSION},
                   {"made", made},
                   {"runs", OrderedJson::array()},
                   {"figures", OrderedJson::array()},
                   {"keys", OrderedJson::array()}};
  for (const RecordedRun& run : runs) json["runs"].push_back(run_json(run));
  for (const ComparedFigure& figure : comparison.figures) json["figures"].push_back(figure_json(figure));
  for (const ComparedKey& key : comparison.keys)
    json["keys"].push_back({{"key", key.key}, {"values", key.values}, {"differs", key.differs}});
  return json;
}

}  // namespace zero::page
