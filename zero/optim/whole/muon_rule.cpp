#include "zero/optim/whole/muon_rule.h"

#include <array>
#include <vector>

#include <fmt/format.h>

#include "zero/base/error/check.h"
#include "zero/base/error/error.h"
#include "zero/base/numbers/number_range.h"
#include "zero/optim/elementwise/adam_kernel.h"
#include "zero/optim/rule/rule_checks.h"
#include "zero/optim/whole/muon_kernel.h"
#include "zero/optim/whole/newton_schulz.h"

namespace zero {
namespace {

class MuonRule final : public UpdateRule, public MatrixRule {
 public:
  explicit MuonRule(const MuonOptions& options)
      : options_(options), adamw_scale_(options.adamw.lr == 0 ? 1 : options.adamw.lr / options.lr) {}
  std::string_view name() const override { return MuonOptions::kRow.name; }
  std::vector<StateSpec> states() const override {
    return {{.name = "momentum_buffer", .of = StateOf::kMatrices},
            {.name = "exp_avg", .of = StateOf::kOthers},
            {.name = "exp_avg_sq", .of = StateOf::kOthers}};
  }
  const MatrixRule* matrices() const override { return this; }
  // both updating kernels use update_elements(), which updates the average
  bool keeps_average() const override { return true; }

  void direct(const UpdateSpan& span, const UpdateScalars& scalars) const override {
    ZERO_CHECK(span.numel == 0 || (span.parameter != nullptr && span.gradient != nullptr && span.states[0] != nullptr),
               "muon: a direction without memory");
    muon_direct(span, muon_direction_constants(options_, scalars));
  }
  void complete(float* directions, const MatrixShape& matrix, std::span<float> workspace,
                ThreadTeam& team) const override {
    newton_schulz({.steps = options_.steps}, directions, matrix.rows, matrix.columns, workspace, team);
  }
  void queue_directions(Device& device, Lane lane, std::span<const SpanUpdate> updates) const override {
    queue_slices<MuonDirectionConstants>(device, lane, kMuonDirect, updates, [this](const UpdateScalars& scalars) {
      return muon_direction_constants(options_, scalars);
    });
  }
  void queue_completion(Device& device, Lane lane, float* directions, const MatrixShape& matrix,
                        std::span<float> workspace) const override {
    queue_newton_schulz(device, lane, {.steps = options_.steps}, directions, matrix.rows, matrix.columns, workspace);
  }
  std::int64_t workspace_numel(const MatrixShape& matrix) const override {
    return newton_schulz_numel(matrix.rows, matrix.columns);
  }
  double completion_flops(const MatrixShape& matrix) const override {
    return newton_schulz_flops(matrix.rows, matrix.columns, options_.steps);
  }

  void update(const UpdateSpan& span, const UpdateScalars& scalars) const override {
    ZERO_CHECK(scalars.step >= 1, "steps are counted from 1, not from {}", scalars.step);
    ZERO_CHECK(span.numel == 0 || (span.parameter != nullptr && span.gradient != nullptr), "muon without memory");
    if (scalars.matrix.rows > 0) return muon_step(span, muon_step_constants(options_, scalars));
    const SpanUpdate adamw = by_adamw({span, scalars});
    adam_update(adamw.span, adam_constants(options_.adamw, adamw.scalars));
  }
  void queue(Device& device, Lane lane, std::span<const SpanUpdate> updates) const override {
    std::vector<SpanUpdate> of_matrices, others;
    for (const SpanUpdate& update : updates) {
      if (update.scalars.matrix.rows > 0) {
        of_matrices.push_back(update);
      } else {
        others.push_back(by_adamw(update));
      }
    }
    queue_slices<MuonStepConstants>(device, lane, kMuonStep, of_matrices, [this](const UpdateScalars& scalars) {
      return muon_step_constants(options_, scalars);
    });
    queue_slices<AdamConstants>(device, lane, kAdam, others, [this](const UpdateScalars& scalars) {
      return adam_constants(options_.adamw, scalars);
    });
  }

 private:
  // Converts the update of a parameter that is no matrix: AdamW's states, in AdamW's order, and AdamW's learning rate.
  SpanUpdate by_adamw(SpanUpdate update) const {
    const std::array<float*, kMostStates> states = update.span.states;
    ZERO_CHECK(update.span.numel == 0 || (states[1] != nullptr && states[2] != nullptr), "muon without moments");
    update.span.states = {states[1], states[2]};
    update.scalars.lr *= adamw_scale_;
    return update;
  }

  MuonOptions options_;
  double adamw_scale_;  // AdamW's learning rate over that of matrices; learning-rate schedules keep this ratio
};

}  // namespace

MuonOptions MuonOptions::from(const RuleKeys& keys) {
  return {.lr = keys.lr,
          .momentum = keys.momentum,
          .nesterov = keys.nesterov,
          .scale = value_of(kMuonScales, "optimizer.muon_scale", keys.muon_scale),
          .weight_decay = keys.weight_decay,
          .adamw = {.lr = keys.adamw_lr, .beta1 = keys.betas[0], .beta2 = keys.betas[1], .eps = keys.eps}};
}

std::unique_ptr<UpdateRule> make_rule(const MuonOptions& options) {
  require_lr_and_decay(options.lr, options.weight_decay, "use for example 0.02");
  if (options.lr == 0 && options.adamw.lr != 0)
    throw ConfigError("optimizer.lr", "0", "AdamW's learning rate is kept as a multiple of it", "use more than 0");
  require_momentum(options.momentum, "use for example 0.95");
  if (options.steps < 1 || options.steps >= 100)
    throw ConfigError("optimizer.steps", fmt::format("{}", options.steps), "Newton-Schulz needs 1 to 99 steps",
                      "use 5");
  require_number("optimizer.adamw_lr", options.adamw.lr, kAtLeastZero, "use for example 1e-3, or 0 for optimizer.lr");
  require_betas(options.adamw.beta1, options.adamw.beta2, "use for example [0.9, 0.95]");
  require_eps(options.adamw.eps);
  return std::make_unique<MuonRule>(options);
}

}  // namespace zero
