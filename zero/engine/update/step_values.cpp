#include "zero/engine/update/step_values.h"

#include <algorithm>

namespace zero {

StepValues::StepValues(const std::vector<Unit>& units, const std::vector<ParamSpec>& specs,
                       const AttachOptions& options, int num_sums)
    : matrices_(specs.size()),
      steps_(specs.size(), 0),
      present_(specs.size(), false),
      num_sums_(static_cast<std::size_t>(num_sums)) {
  for (const ParamSpec& spec : specs) {
    values_.push_back(values_of(options, spec));
    numels_.push_back(spec.numel());
  }
  for (const Unit& unit : units) {
    for (const Slice& slice : unit.slices)
      matrices_[static_cast<std::size_t>(slice.param)] = {slice.rows, slice.columns()};
  }
}

void StepValues::begin_step(const std::vector<bool>& present, double scale, const StepRates& rates) {
  scale_ = scale;
  rates_ = rates;
  present_ = present;
  for (std::size_t param = 0; param < present.size(); ++param) steps_[param] += present[param] ? 1 : 0;
}

bool StepValues::any_present(const Unit& unit) const {
  return std::ranges::any_of(unit.slices,
                             [this](const Slice& slice) { return present_[static_cast<std::size_t>(slice.param)]; });
}

void StepValues::begin_factors() {
  factors_.assign(steps_.size(), {});
  factors_there_ = factors_;
}

UpdateScalars StepValues::scalars_of(std::size_t param, bool on_host) const {
  const std::vector<Factors>& factors = on_host ? factors_ : factors_there_;
  const ParameterValues& values = values_[param];
  const auto group = static_cast<std::size_t>(values.group);
  const bool grouped = values.group >= 0;
  return {
      .step = steps_[param],
      .lr = grouped && !rates_.by_group.empty() ? rates_.by_group[group] : rates_.lr * values.lr_scale,
      .gradient_scale = scale_,
      .weight_decay = grouped && !rates_.decay_by_group.empty() ? rates_.decay_by_group[group] : values.weight_decay,
      .sums = sums_.empty() ? std::span<const double>{} : std::span(sums_).subspan(param * num_sums_, num_sums_),
      .matrix = matrices_[param],
      .factors = factors.empty() ? Factors{} : factors[param],
      .numel = numels_[param]};
}

}  // namespace zero
