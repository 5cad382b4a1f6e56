#include "app/report/files/tensorboard_log.h"

#include <string>
#include <vector>

#include "app/report/files/event.h"

namespace zero {
namespace {

// Indents each line by four spaces, which Markdown shows unchanged.
std::string as_code(std::string_view text) {
  std::string code = "    ";
  for (const char c : text) {
    code += c;
    if (c == '\n') code += "    ";
  }
  return code;
}

}  // namespace

TensorboardLog::TensorboardLog(const std::filesystem::path& folder, const TensorboardStart& start)
    : file_(folder, unix_seconds()) {
  // Needed for a new run also: readers do not take the first start that they see for a restart, and would purge
  // nothing.
  take_back(start.after_step);
  if (!start.config.empty())
    file_.add(text_event({.time = unix_seconds(), .step = start.after_step}, "configuration", as_code(start.config)));
  flush();
}

void TensorboardLog::add(const StepMetrics& m) {
  std::vector<Scalar> scalars{{"train/loss", m.loss}, {"train/lr", m.lr}, {"train/grad_norm", m.grad_norm}};
  if (m.loss_scale) scalars.push_back({"train/loss_scale", *m.loss_scale});
  scalars.push_back({m.has_tokens ? "speed/tokens_per_second" : "speed/rows_per_second", m.tokens / m.seconds});
  scalars.push_back({"speed/step_seconds", m.seconds});
  PerTier<std::string> tags;  // a scalar has only a view of its tag
  for (const Tier tier : kAllTiers) {
    tags[tier] = "memory/" + std::string(name_of(tier)) + "_bytes";
    scalars.push_back({tags[tier], static_cast<double>(m.memory[tier].total())});
  }
  file_.add(scalars_event({.time = m.time, .step = m.step}, scalars));
}

void TensorboardLog::add(const EvaluationMetrics& m) {
  std::vector<Scalar> scalars{{m.averaged ? "validation/val_loss_ema" : "validation/val_loss", m.val_loss}};
  if (m.accuracy)
    scalars.push_back({m.averaged ? "validation/val_accuracy_ema" : "validation/val_accuracy", *m.accuracy});
  if (m.perplexity)
    scalars.push_back({m.averaged ? "validation/val_perplexity_ema" : "validation/val_perplexity", *m.perplexity});
  file_.add(scalars_event({.time = m.time, .step = m.step}, scalars));
}

void TensorboardLog::take_back(std::int64_t step) {
  file_.add(start_event({.time = unix_seconds(), .step = step + 1}));
}

}  // namespace zero
