#include "zero/torch/pipeline/joined_report.h"

#include "zero/base/error/check.h"

namespace zero {
namespace {

void add(SecondaryReport& whole, const SecondaryReport& part) {
  whole.sent_bytes_per_step += part.sent_bytes_per_step;
  whole.planned_sent_bytes += part.planned_sent_bytes;
  whole.sent_between_groups += part.sent_between_groups;
  whole.planned_sent_between_groups += part.planned_sent_between_groups;
}

void add(CopiesReport& whole, const CopiesReport& part) {
  whole.sent_bytes_per_step += part.sent_bytes_per_step;
  whole.planned_sent_bytes += part.planned_sent_bytes;
  whole.sent_formula_bytes += part.sent_formula_bytes;
}

}  // namespace

EngineReport joined_report(const std::vector<EngineReport>& parts) {
  ZERO_CHECK(!parts.empty(), "a rank without engines");
  EngineReport whole = parts.front();
  for (std::size_t i = 1; i < parts.size(); ++i) {
    const EngineReport& part = parts[i];
    whole.memory += part.memory;
    whole.peak_memory += part.peak_memory;
    whole.peak_memory_bytes += part.peak_memory_bytes;
    whole.state_bytes += part.state_bytes;
    for (const Tier tier : kRequestTiers)
      whole.requests_per_step[tier] = whole.requests_per_step[tier] + part.requests_per_step[tier];
    whole.link_per_step = whole.link_per_step + part.link_per_step;
    whole.updated_meanwhile_seconds += part.updated_meanwhile_seconds;
    add(whole.copies, part.copies);
    add(whole.secondary, part.secondary);
    whole.sent_bytes_per_step += part.sent_bytes_per_step;
    whole.sent_by_codec += part.sent_by_codec;
    whole.received_bytes_per_step += part.received_bytes_per_step;
    whole.planned_sent_bytes += part.planned_sent_bytes;
    whole.state_formula_bytes += part.state_formula_bytes;
    whole.sent_formula_bytes += part.sent_formula_bytes;
    whole.num_parameters += part.num_parameters;
    whole.padding_bytes += part.padding_bytes;
    whole.movable = whole.movable || part.movable;
    whole.replans += part.replans;
    whole.moved_bytes += part.moved_bytes;
    whole.trace_mismatches += part.trace_mismatches;
  }
  return whole;
}

}  // namespace zero
