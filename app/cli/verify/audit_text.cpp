#include "app/cli/verify/audit_text.h"

#include <algorithm>
#include <vector>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "zero/base/text/bytes.h"

#include "app/config/options/option.h"

namespace zero::cli {
namespace {

constexpr std::size_t kMostDifferences = 8, kMostNotes = 6;  // on one screen
constexpr std::size_t kMostInJson = 1000;

std::string where_it_began(const AuditPlan& plan) {
  return plan.start_path.empty() ? "the initial weights" : plan.start_path.string();
}

std::string how(const AuditPlan& plan) {
  const Config& config = plan.config;
  std::string text = fmt::format("{}, stage {}, transport {}", format_count(plan.ranks, "rank"), config.engine.stage,
                                 config.comm.transport);
  if (config.parallel.pipeline > 1) text += fmt::format(", a pipeline of {}", config.parallel.pipeline);
  return text;
}

std::string steps_text(const std::vector<std::int64_t>& steps) {
  if (steps.size() == 1) return fmt::format("after step {}", steps.front());
  if (steps.size() <= 4) return fmt::format("after steps {}", fmt::join(steps, ", "));
  return fmt::format("after {} steps, {} to {}", steps.size(), steps.front(), steps.back());
}

std::string compared_text(const Audit& audit) {
  std::string text =
      fmt::format("losses, gradient norms, learning rates and samples of {}", format_count(audit.num_steps, "step"));
  if (audit.num_evaluations > 0) text += fmt::format("; {}", format_count(audit.num_evaluations, "evaluation"));
  text += audit.checkpoints.empty() ? "; no weights"
                                    : fmt::format("; weights and optimizer states {}", steps_text(audit.checkpoints));
  return text;
}

std::string line_of(const Difference& difference) {
  std::string text = fmt::format("step {}: {}", difference.step, difference.subject);
  if (!difference.recorded.empty() || !difference.found.empty())
    text += fmt::format(" {} recorded, {} found", difference.recorded, difference.found);
  if (!difference.detail.empty())
    text += difference.recorded.empty() && difference.found.empty() ? fmt::format(" {}", difference.detail)
                                                                    : fmt::format("; {}", difference.detail);
  return text;
}

}  // namespace

std::string to_text(const AuditPlan& plan, const Audit& audit, const Execution& execution) {
  std::string text = fmt::format(
      "{}: steps {}..{} executed again in {}\n  begin: {}{}\n  with: {}\n  compared: {}\n", plan.run.string(),
      plan.first, plan.last, format_seconds(execution.seconds), where_it_began(plan),
      plan.start == plan.first ? "" : fmt::format(", so from step {} on", plan.start), how(plan), compared_text(audit));
  std::vector<std::string> notes = audit.not_compared;
  const std::size_t shown = std::min(notes.size(), kMostNotes);
  for (std::size_t i = 0; i < shown; ++i) text += fmt::format("  not compared: {}\n", notes[i]);
  if (shown < notes.size()) text += fmt::format("  not compared: {} more (--json lists them)\n", notes.size() - shown);
  for (const std::string& note : plan.notes) text += fmt::format("  note: {}\n", note);
  if (!execution.folder.empty()) text += fmt::format("  the execution is kept: {}\n", execution.folder);
  if (audit.differences.empty()) {
    text += "equal: no difference\n";
  } else {
    text += fmt::format("DIFFERENT from step {} on:\n", audit.differences.front().step);
    for (std::size_t i = 0; i < std::min(audit.differences.size(), kMostDifferences); ++i)
      text += fmt::format("  {}\n", line_of(audit.differences[i]));
    if (audit.differences.size() > kMostDifferences)
      text += fmt::format(
          "  and {}, the last after step {}\n",
          format_count(static_cast<std::int64_t>(audit.differences.size() - kMostDifferences), "more difference"),
          audit.differences.back().step);
  }
  if (!audit.conclusion.empty()) text += fmt::format("{}\n", audit.conclusion);
  return text;
}

nlohmann::ordered_json to_json(const AuditPlan& plan, const Audit& audit, const Execution& execution) {
  nlohmann::ordered_json json{{"run", plan.run.string()},
                              {"equal", audit.differences.empty()},
                              {"first", plan.first},
                              {"last", plan.last},
                              {"start", plan.start},
                              {"start_from", where_it_began(plan)},
                              {"ranks", plan.ranks},
                              {"stage", plan.config.engine.stage},
                              {"transport", plan.config.comm.transport},
                              {"pipeline", plan.config.parallel.pipeline},
                              {"seconds", execution.seconds},
                              {"compared",
                               {{"steps", audit.num_steps},
                                {"evaluations", audit.num_evaluations},
                                {"states", audit.num_states},
                                {"saved_steps", audit.checkpoints}}}};
  json["differences"] = nlohmann::ordered_json::array();
  for (std::size_t i = 0; i < std::min(audit.differences.size(), kMostInJson); ++i) {
    const Difference& difference = audit.differences[i];
    json["differences"].push_back({{"step", difference.step},
                                   {"subject", difference.subject},
                                   {"recorded", difference.recorded},
                                   {"found", difference.found},
                                   {"detail", difference.detail}});
  }
  json["num_differences"] = audit.differences.size();
  json["conclusion"] = audit.conclusion;
  json["data_changed"] = audit.data;
  json["not_compared"] = audit.not_compared;
  json["notes"] = plan.notes;
  if (!execution.folder.empty()) json["folder"] = execution.folder;
  return json;
}

}  // namespace zero::cli
