#include "app/train/watch/health_event.h"

#include <cmath>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

namespace zero {
namespace {

using Json = nlohmann::ordered_json;

std::string_view name_of(HealthAction action) {
  switch (action) {
    case HealthAction::kSkip:
      return "skipped";
    case HealthAction::kRewind:
      return "rewound";
    case HealthAction::kStop:
      return "stopped";
    case HealthAction::kIgnore:
      break;
  }
  return "ignored";
}

}  // namespace

HealthEvent event_of(HealthAction action, std::int64_t step, const StepReport& report, const StepLimits& limits) {
  HealthEvent event{.action = action,
                    .step = step,
                    .reason = std::string(name_of(report.reason)),
                    .detail = report.bad_parameter,
                    .loss = report.loss,
                    .grad_norm = report.grad_norm};
  if (report.reason == SkipReason::kLossSpike) event.limit = limits.max_loss;
  if (report.reason == SkipReason::kNormSpike) event.limit = limits.max_grad_norm;
  return event;
}

std::string cause(const HealthEvent& event) {
  if (event.reason == zero::name_of(SkipReason::kLossSpike))
    return fmt::format("loss {:.6g}, beyond {:.6g}", event.loss, event.limit);
  if (event.reason == zero::name_of(SkipReason::kNormSpike))
    return fmt::format("gradient norm {:.6g}, beyond {:.6g}", event.grad_norm, event.limit);
  if (event.reason != zero::name_of(SkipReason::kNonFinite)) return event.detail;
  return event.detail.empty() ? "the loss is not finite"
                              : fmt::format("the gradient of {} is not finite", event.detail);
}

std::string describe(const HealthEvent& event) {
  std::string text = fmt::format("step {}: {}", event.step, cause(event));
  if (event.action == HealthAction::kSkip) return text + ": skipped";
  if (event.action == HealthAction::kStop) return text + ": stopped";
  return text + fmt::format(": continuing after step {} with sample {}", event.back_to, event.samples);
}

std::string last_words(const HealthEvent& event, std::string_view why, std::int64_t saved) {
  const std::string place =
      saved < 0 ? "Nothing is saved."
                : fmt::format("The last checkpoint is of step {}: the same command continues from there.", saved);
  const std::string_view remedy =
      event.action == HealthAction::kRewind
          ? "Check the data after that step (health.rewind_batches leaves out more), or the machine."
      : event.reason == kReplicasDiffer ? "Memory or a wire changed a bit: check the machine of that rank. With "
                                          "health.on_corruption = \"rewind\" the run continues by itself."
                                        : "Check the data of this step, or lower the learning rate. With health.spike "
                                          "or health.non_finite = \"rewind\" the run continues with other data.";
  return fmt::format("step {}: {}{}\n  {}\n  {}", event.step, cause(event), why, place, remedy);
}

std::string to_json_line(const HealthEvent& event) {
  const auto number = [](double value) { return std::isfinite(value) ? Json(value) : Json(); };
  const bool rewound = event.action == HealthAction::kRewind;
  Json json{{"t", std::round(event.time * 1e3) / 1e3},
            {"step", rewound ? event.back_to : event.step},
            {"event", name_of(event.action)},
            {"reason", event.reason}};
  if (rewound) {
    json["from"] = event.step;
    json["samples"] = event.samples;
  }
  if (!event.detail.empty()) json["detail"] = event.detail;
  json["loss"] = number(event.loss);
  json["grad_norm"] = number(event.grad_norm);
  json["limit"] = number(event.limit);
  return json.dump(-1, ' ', false, Json::error_handler_t::replace);
}

}  // namespace zero
