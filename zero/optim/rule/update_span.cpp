#include "zero/optim/rule/update_span.h"

namespace zero {

std::vector<Access> UpdateSpan::accesses() const {
  const auto count = static_cast<std::size_t>(numel);
  const std::size_t num_scales = (count + kCodeBlock - 1) / kCodeBlock;
  std::vector<Access> all{changes(std::span(parameter, count))};
  if (gradient != nullptr) all.push_back(gradient_access());
  for (float* const state : states)
    if (state != nullptr) all.push_back(changes(std::span(state, count)));
  for (const CodedState& state : coded) {
    if (state.codes == nullptr) continue;
    all.push_back(changes(std::span(state.codes, count)));
    all.push_back(changes(std::span(state.scales, num_scales)));
  }
  if (low_precision != nullptr) all.push_back(writes(std::span(low_precision, count * size_of(low_precision_dtype))));
  return all;
}

std::vector<Access> UpdateSpan::read_accesses() const {
  UpdateSpan read = *this;
  read.low_precision = nullptr;
  std::vector<Access> all = read.accesses();
  for (Access& access : all) access.writes = false;
  return all;
}

Access UpdateSpan::gradient_access() const {
  return reads(std::span(gradient, static_cast<std::size_t>(numel) * size_of(gradient_dtype)));
}

UpdateSpan UpdateSpan::part(std::int64_t begin, std::int64_t count) const {
  UpdateSpan part = *this;
  if (parameter != nullptr) part.parameter += begin;
  if (gradient != nullptr) part.gradient += begin * static_cast<std::int64_t>(size_of(gradient_dtype));
  for (float*& state : part.states) {
    if (state != nullptr) state += begin;
  }
  for (CodedState& state : part.coded) state = state.from(begin);
  if (low_precision != nullptr) part.low_precision += begin * static_cast<std::int64_t>(size_of(low_precision_dtype));
  if (average != nullptr) part.average += begin;
  part.numel = count;
  part.first += begin;
  return part;
}

}  // namespace zero
