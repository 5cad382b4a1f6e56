// SgdBody, MomentumBody, AdamBody, LionBody, LambBody: bodies of the elementwise rules; also MuonDirectionBody,
// MuonStepBody.
//
//   with_body(constants, slice, [&](const auto& rule) { rule(element); });     // rule.kStates, rule.gradient_scale()
//
// They have the arithmetic of zero/optim/elementwise/sgd_kernel.h, adam_kernel.h, lion_kernel.h, lamb_kernel.h and
// muon_kernel.h: the operations of Highway's kernels one by one, with the same bits. A NaN is NaN everywhere, but its
// bits depend on the processor. Local.
#pragma once

#include "zero/optim/elementwise/adam_kernel.h"
#include "zero/optim/elementwise/lion_kernel.h"
#include "zero/optim/elementwise/sgd_kernel.h"
#include "zero/optim/whole/lamb_kernel.h"
#include "zero/optim/whole/muon_kernel.h"

#include "plugins/cuda/bodies/slice.h"

namespace zero::bodies {

struct SgdBody {
  static constexpr int kStates = 0;
  SgdConstants c;
  ZERO_BODY float gradient_scale() const { return c.gradient_scale; }
  ZERO_BODY void operator()(Element& e) const {
    const float g = add(e.g, mul(c.weight_decay, e.p));
    e.p = add(e.p, mul(c.minus_lr, g));
  }
};

struct MomentumBody {
  static constexpr int kStates = 1;
  SgdConstants c;
  ZERO_BODY float gradient_scale() const { return c.gradient_scale; }
  ZERO_BODY void operator()(Element& e) const {
    float g = add(e.g, mul(c.weight_decay, e.p));
    e.first = c.first_step ? g : add(mul(e.first, c.momentum), g);
    g = c.nesterov ? add(g, mul(e.first, c.momentum)) : e.first;
    e.p = add(e.p, mul(c.minus_lr, g));
  }
};

struct AdamBody {
  static constexpr int kStates = 2;
  AdamConstants c;
  ZERO_BODY float gradient_scale() const { return c.gradient_scale; }
  ZERO_BODY void update_moments(float g, float& m, float& v) const {
    m = add(c.lerp_from_gradient != 0 ? g : m, mul(c.lerp_factor, sub(g, m)));
    v = add(mul(v, c.beta2), mul(mul(c.one_minus_beta2, g), g));
  }
  // Updates the parameter with the new moments.
  ZERO_BODY void update_parameter(float& p, float m, float v) const {
    p = mul(p, c.decay);
    const float denominator = add(div(root(v), c.bias), c.eps);
    p = add(p, div(mul(c.minus_step_size, m), denominator));
  }
  ZERO_BODY void operator()(Element& e) const {
    if (c.coupled_decay != 0) e.g = add(e.g, mul(c.coupled_decay, e.p));
    update_moments(e.g, e.first, e.second);
    update_parameter(e.p, e.first, e.second);
  }
};

struct LionBody {
  static constexpr int kStates = 1;
  LionConstants c;
  ZERO_BODY float gradient_scale() const { return c.gradient_scale; }
  ZERO_BODY void operator()(Element& e) const {
    const float direction = add(mul(e.first, c.beta1), mul(e.g, c.one_minus_beta1));
    const float sign = direction > 0 ? 1.0F : direction < 0 ? -1.0F : direction;  // a NaN stays NaN
    e.p = add(mul(e.p, c.decay), mul(c.minus_lr, sign));
    e.first = add(mul(e.first, c.beta2), mul(e.g, c.one_minus_beta2));
  }
};

struct LambBody {
  static constexpr int kStates = 2;
  LambConstants c;
  ZERO_BODY float gradient_scale() const { return c.gradient_scale; }
  // Updates the moments, and returns the direction.
  ZERO_BODY float direction(Element& e) const {
    e.first = add(mul(e.first, c.beta1), mul(e.g, c.one_minus_beta1));
    e.second = add(mul(e.second, c.beta2), mul(mul(c.one_minus_beta2, e.g), e.g));
    const float adam = div(mul(e.first, c.unbias), add(root(e.second), c.eps));
    return add(adam, mul(c.weight_decay, e.p));
  }
  ZERO_BODY void operator()(Element& e) const {
    const float u = direction(e);
    e.p = add(e.p, mul(c.minus_lr, u));
  }
};

ZERO_BODY float lerp(float from, float to, const Lerp& by) {
  return add(by.from_end != 0 ? to : from, mul(by.factor, sub(to, from)));
}

// Writes the direction to the parameter.
struct MuonDirectionBody {
  static constexpr int kStates = 1;
  MuonDirectionConstants c;
  ZERO_BODY float gradient_scale() const { return c.gradient_scale; }
  ZERO_BODY void operator()(Element& e) const {
    e.first = lerp(e.first, e.g, c.momentum);
    e.p = c.looks_ahead ? lerp(e.g, e.first, c.nesterov) : e.first;
  }
};

struct MuonStepBody {
  static constexpr int kStates = 0;
  MuonStepConstants c;
  ZERO_BODY float gradient_scale() const { return 1; }
  ZERO_BODY void operator()(Element& e) const { e.p = add(mul(e.p, c.decay), mul(c.minus_lr, e.g)); }
};

template <typename Use>
ZERO_BODY void with_body(const SgdConstants& c, const Slice& slice, Use use) {
  if (slice.first == nullptr) {
    use(SgdBody{c});
  } else {
    use(MomentumBody{c});
  }
}
template <typename Use>
ZERO_BODY void with_body(const AdamConstants& c, const Slice& /*slice*/, Use use) {
  use(AdamBody{c});
}
template <typename Use>
ZERO_BODY void with_body(const LionConstants& c, const Slice& /*slice*/, Use use) {
  use(LionBody{c});
}
template <typename Use>
ZERO_BODY void with_body(const LambConstants& c, const Slice& /*slice*/, Use use) {
  use(LambBody{c});
}
template <typename Use>
ZERO_BODY void with_body(const MuonDirectionConstants& c, const Slice& /*slice*/, Use use) {
  use(MuonDirectionBody{c});
}
template <typename Use>
ZERO_BODY void with_body(const MuonStepConstants& c, const Slice& /*slice*/, Use use) {
  use(MuonStepBody{c});
}

}  // namespace zero::bodies
