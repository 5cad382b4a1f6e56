#include "zero/torch/pipeline/joined_report.h"

#include "zero/base/error/check.h"

namespace zero {

EngineReport joined_report(const std::vector<EngineReport>& parts) {
  ZERO_CHECK(!parts.empty(), "a rank without engines");
  EngineReport whole = parts.front();
  for (std::size_t i = 1; i < parts.size(); ++i) {
    const EngineReport& part = parts[i];
    whole.memory += part.memory;
    whole.peak_memory += part.peak_memory;
    whole.peak_memory_bytes += part.peak_memory_bytes;
    whole.state_bytes += part.state_bytes;
    whole.sent_bytes_per_step += part.sent_bytes_per_step;
    whole.sent_by_codec += part.sent_by_codec;
    whole.received_bytes_per_step += part.received_bytes_per_step;
    whole.planned_sent_bytes += part.planned_sent_bytes;
    whole.state_formula_bytes += part.state_formula_bytes;
    whole.sent_formula_bytes += part.sent_formula_bytes;
    whole.num_parameters += part.num_parameters;
    whole.padding_bytes += part.padding_bytes;
    whole.replans += part.replans;
    whole.moved_bytes += part.moved_bytes;
    whole.trace_mismatches += part.trace_mismatches;
  }
  return whole;
}

}  // namespace zero
