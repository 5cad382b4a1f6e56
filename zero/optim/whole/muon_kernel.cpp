#include "zero/optim/whole/muon_kernel.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "zero/optim/whole/muon_kernel.cpp"
#include <algorithm>
#include <cmath>

#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include "zero/optim/lanes/elementwise-inl.h"

HWY_BEFORE_NAMESPACE();
namespace zero::HWY_NAMESPACE {

template <class D, class V>
HWY_INLINE V lerp_lanes(D d, V from, V to, const Lerp& lerp) {
  const auto from_end = hn::Ne(hn::Set(d, lerp.from_end), hn::Zero(d));
  return hn::Add(hn::IfThenElse(from_end, to, from), hn::Mul(hn::Set(d, lerp.factor), hn::Sub(to, from)));
}

// Writes the direction to the parameter's memory.
template <bool kLooksAhead>
struct MuonDirection {
  static constexpr int kStates = 1;
  MuonDirectionConstants c;

  template <class D, class V>
  HWY_INLINE void operator()(D d, V g, V& direction, V& m, V&) const {
    m = lerp_lanes(d, m, g, c.momentum);
    direction = kLooksAhead ? lerp_lanes(d, g, m, c.nesterov) : m;
  }
};

struct MuonStep {
  static constexpr int kStates = 0;
  MuonStepConstants c;

  template <class D, class V>
  HWY_INLINE void operator()(D d, V direction, V& p, V&, V&) const {
    p = hn::Mul(p, hn::Set(d, c.decay));
    p = hn::Add(p, hn::Mul(hn::Set(d, c.minus_lr), direction));
  }
};

void muon_direct_target(const UpdateSpan& span, const MuonDirectionConstants& c) {
  if (c.looks_ahead) {
    update_elements(span, c.gradient_scale, MuonDirection<true>{c});
  } else {
    update_elements(span, c.gradient_scale, MuonDirection<false>{c});
  }
}

void muon_step_target(const UpdateSpan& span, const MuonStepConstants& c) {
  update_elements(span, 1, MuonStep{c});
}

}  // namespace zero::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace zero {

HWY_EXPORT(muon_direct_target);
HWY_EXPORT(muon_step_target);

void muon_direct(const UpdateSpan& span, const MuonDirectionConstants& constants) {
  HWY_DYNAMIC_DISPATCH(muon_direct_target)(span, constants);
}

void muon_step(const UpdateSpan& span, const MuonStepConstants& constants) {
  HWY_DYNAMIC_DISPATCH(muon_step_target)(span, constants);
}

namespace {

Lerp lerp_by(double weight) {
  return {.from_end = weight < 0.5 ? 0.0F : 1.0F, .factor = static_cast<float>(weight < 0.5 ? weight : weight - 1)};
}

double scale_of(MuonScale scale, const MatrixShape& matrix) {
  const auto rows = static_cast<double>(matrix.rows), columns = static_cast<double>(matrix.columns);
  return scale == MuonScale::kOriginal ? std::sqrt(std::max(1.0, rows / columns))
                                       : 0.2 * std::sqrt(std::max(rows, columns));
}

}  // namespace

MuonDirectionConstants muon_direction_constants(const MuonOptions& options, const UpdateScalars& scalars) {
  return {.gradient_scale = static_cast<float>(scalars.gradient_scale),
          .momentum = lerp_by(1 - options.momentum),
          .nesterov = lerp_by(options.momentum),
          .looks_ahead = options.nesterov};
}

MuonStepConstants muon_step_constants(const MuonOptions& options, const UpdateScalars& scalars) {
  return {.decay = static_cast<float>(1 - scalars.lr * scalars.weight_decay),
          .minus_lr = static_cast<float>(-scalars.lr * scale_of(options.scale, scalars.matrix))};
}

const Kernel kMuonDirect =
    kernel_of<MuonDirectionArguments, &update_each<MuonDirectionConstants, &muon_direct>>("muon_direct");

const Kernel kMuonStep = kernel_of<MuonStepArguments, &update_each<MuonStepConstants, &muon_step>>("muon_step");

}  // namespace zero
#endif  // HWY_ONCE
