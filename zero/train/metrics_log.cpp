#include "zero/train/metrics_log.h"

#include <chrono>
#include <cmath>
#include <iterator>
#include <system_error>

#include <fmt/format.h>

#include "zero/base/error.h"

namespace zero {
namespace {

// JSON has no infinity and no NaN.
std::string number(double value) {
  return std::isfinite(value) ? fmt::format("{}", value) : "null";
}

}  // namespace

double unix_seconds() {
  return std::chrono::duration<double>(std::chrono::system_clock::now().time_since_epoch()).count();
}

std::string to_json_line(const StepMetrics& m) {
  fmt::memory_buffer line;
  const auto out = std::back_inserter(line);
  fmt::format_to(out,
                 R"({{"t": {:.3f}, "step": {}, "loss": {}, "lr": {}, "grad_norm": {}, "tokens_per_second": {}, )"
                 R"("step_seconds": {}, "phase_seconds": {{"forward": {}, "backward": {}, "reduce": {}, "gather": {}, )"
                 R"("update": {}, "wait": {}}}, "memory_bytes": {{)",
                 m.time, m.step, number(m.loss), number(m.lr), number(m.grad_norm), number(m.tokens / m.seconds),
                 number(m.seconds), number(m.forward), number(m.backward), number(m.phases.reduce),
                 number(m.phases.gather), number(m.phases.update), number(m.phases.wait));
  for (const MemoryTag tag : kAllMemoryTags) fmt::format_to(out, R"("{}": {}, )", name_of(tag), m.memory[tag]);
  fmt::format_to(out, R"("total": {}}}, "sent_bytes": {}}})", m.memory.total(), m.sent_bytes);
  return fmt::to_string(line);
}

std::string to_json_line(const EvaluationMetrics& m) {
  return fmt::format(R"({{"t": {:.3f}, "step": {}, "val_loss": {}, "eval_seconds": {}}})", m.time, m.step,
                     number(m.val_loss), number(m.seconds));
}

void MetricsLog::flush() {
  if (pending_.empty()) return;
  std::error_code error;
  const std::uintmax_t before = std::filesystem::file_size(path_, error);
  try {
    file_.append(pending_);
  } catch (const IoError&) {
    if (!error) std::filesystem::resize_file(path_, before, error);  // no half of a line
    throw;
  }
  pending_.clear();
}

}  // namespace zero
