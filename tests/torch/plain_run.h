// The reference: the same training with only libtorch on one rank, without attach() and engine.
//
// Forward and backward pass are torch's own, and gradients are read from .grad(). The update rule works on copies of
// the parameters. Only two things are zero.cpp's: the rule, and the order of the sum of the global norm (a unit's flat
// range).
#pragma once

#include <cmath>

#include "zero/comm/rank_sum.h"
#include "zero/plan/units/partition.h"
#include "zero/torch/module/module_parameters.h"
#include "zero/torch/seam/tensor_type.h"

#include "tests/torch/training_run.h"

namespace zero::tests {

class PlainRun {
 public:
  PlainRun(const torch::nn::Module& module, const AttachOptions& options)
      : options_(options),
        parameters_(parameters_of(module, options.dtype)),
        units_(make_units(parameters_.specs, {})),
        rule_(make_update_rule(options.optimizer)),
        loss_scale_(options.loss_scale ? options.loss_scale->value : 1) {
    for (const torch::Tensor& tensor : parameters_.tensors) {
      states_.push_back(
          {tensor.detach().to(torch::kFloat32).clone(), torch::zeros(tensor.sizes()), torch::zeros(tensor.sizes())});
    }
  }

  // Multiplies the loss by the fixed loss scale.
  torch::Tensor scaled(const torch::Tensor& loss) const {
    return loss_scale_ == 1 ? loss : loss.to(torch::kFloat) * loss_scale_;
  }

  // Returns the gradient norm before clipping.
  double step(double lr) {
    const torch::NoGradGuard no_gradients;
    ExactSum sum_squares;
    for (const Unit& unit : units_) {
      if (unit.trainable) sum_squares.add(sum_squares_of(unit));
    }
    const double norm = std::sqrt(sum_squares.value()) / loss_scale_;
    const double clip = options_.clip > 0 ? std::min(1.0, options_.clip / (norm + 1e-6)) : 1.0;
    for (std::size_t param = 0; param < states_.size(); ++param) update(param, lr, clip / loss_scale_);
    return norm;
  }

  // In the order of names, in full precision.
  std::vector<torch::Tensor> parameters() const {
    std::vector<std::pair<std::string, torch::Tensor>> named;
    for (std::size_t param = 0; param < states_.size(); ++param)
      named.emplace_back(parameters_.specs[param].name, states_[param].master);
    std::sort(named.begin(), named.end(), [](const auto& a, const auto& b) { return a.first < b.first; });
    std::vector<torch::Tensor> values;
    for (auto& [name, value] : named) values.push_back(value);
    return values;
  }

 private:
  struct State {
    torch::Tensor master, first, second;
    std::int64_t steps = 0;
  };

  torch::Tensor gradient_of(std::size_t param) const {
    const torch::Tensor& gradient = parameters_.tensors[param].grad();
    if (!gradient.defined()) return gradient;
    return (gradient.is_sparse() ? gradient.to_dense() : gradient).contiguous();
  }

  ExactSum sum_squares_of(const Unit& unit) const {
    const torch::Tensor flat = torch::zeros({padded_numel(unit, 1)}, to_scalar_type(unit.dtype));
    for (const Slice& slice : unit.slices) {
      const torch::Tensor gradient = gradient_of(static_cast<std::size_t>(slice.param));
      if (gradient.defined()) flat.narrow(0, slice.offset, slice.numel).copy_(gradient.reshape({-1}));
    }
    return stats_of(static_cast<const std::byte*>(flat.const_data_ptr()), unit.dtype, flat.numel()).sum_squares;
  }

  void update(std::size_t param, double lr, double clip) {
    torch::Tensor tensor = parameters_.tensors[param];
    const torch::Tensor gradient = gradient_of(param);
    if (!gradient.defined()) return;
    State& state = states_[param];
    UpdateSpan span{.parameter = state.master.mutable_data_ptr<float>(),
                    .gradient = static_cast<const std::byte*>(gradient.const_data_ptr()),
                    .gradient_dtype = parameters_.specs[param].dtype,
                    .numel = state.master.numel()};
    if (!rule_->states().empty()) span.states[0] = state.first.mutable_data_ptr<float>();
    if (rule_->states().size() > 1) span.states[1] = state.second.mutable_data_ptr<float>();
    UpdateScalars scalars{.step = ++state.steps,
                          .lr = lr,
                          .gradient_scale = clip,
                          .weight_decay = tensor.dim() >= 2 ? weight_decay(options_.optimizer) : 0.0};
    std::vector<ExactSum> exact(static_cast<std::size_t>(rule_->num_sums()));
    rule_->add_sums(span, scalars, exact);
    std::vector<double> sums;
    for (const ExactSum& sum : exact) sums.push_back(sum.value());
    scalars.sums = sums;
    rule_->update(span, scalars);
    tensor.copy_(state.master);
    tensor.mutable_grad().reset();
  }

  AttachOptions options_;
  ModuleParameters parameters_;
  std::vector<Unit> units_;
  std::unique_ptr<UpdateRule> rule_;
  double loss_scale_ = 1;
  std::vector<State> states_;
};

// The plain version of train(1, ...). With several micro-batches the module must be fp32, because torch sums in the
// parameter's type.
inline RunResult train_plain(int num_steps, const AttachOptions& options, const MakeSubject& make, double lr = 1e-2) {
  torch::set_num_threads(1);
  torch::manual_seed(7);
  Subject subject = make();
  PlainRun plain(*subject.module, options);
  if (options.dtype) subject.module->to(to_scalar_type(*options.dtype));
  RunResult result;
  for (int step = 0; step < num_steps; ++step) {
    for (int micro = 0; micro < options.accumulate; ++micro) {
      torch::Tensor loss = subject.loss(step, micro, 0) / options.accumulate;
      plain.scaled(loss).backward();
      result.loss_bits.push_back(std::bit_cast<std::uint32_t>(loss.item().toFloat()));
    }
    result.grad_norms.push_back(plain.step(lr));
  }
  result.parameters = plain.parameters();
  for (const torch::Tensor& parameter : subject.module->parameters())
    result.given_back.push_back(parameter.detach().clone());
  return result;
}

}  // namespace zero::tests
