// StepValues: the numbers of a step, by parameter, that its update computes with.
//
//   StepValues values(units, specs, options, rule.num_sums());
//   values.begin_step(present, scale, rates);              // counts a step of every present parameter
//   values.set_sums(std::move(sums));                      // a rule with sums over whole parameters (LAMB)
//   rule.update(span, values.scalars_of(param));
//
// Each parameter belongs to one group (weight decay, learning rate) and counts its own steps. Local.
#pragma once

#include <cstdint>
#include <vector>

#include "zero/engine/options/options.h"
#include "zero/engine/options/step_report.h"
#include "zero/optim/rule/update_span.h"
#include "zero/plan/units/unit.h"

namespace zero {

class StepValues {
 public:
  // `num_sums`: of each parameter.
  StepValues(const std::vector<Unit>& units, const std::vector<ParamSpec>& specs, const AttachOptions& options,
             int num_sums);

  // `present`: parameters with a gradient on any rank. `scale` multiplies gradients.
  void begin_step(const std::vector<bool>& present, double scale, const StepRates& rates);
  // Makes parameters present without a step.
  void set_present(std::vector<bool> present) { present_ = std::move(present); }
  void set_all_present() { present_.assign(present_.size(), true); }
  const std::vector<bool>& present() const { return present_; }
  bool is_present(std::size_t param) const { return present_[param]; }
  // Returns whether the unit has a present parameter.
  bool any_present(const Unit& unit) const;

  // Returns the number of updates of each parameter.
  const std::vector<std::int64_t>& steps() const { return steps_; }
  void set_steps(std::vector<std::int64_t> steps) { steps_ = std::move(steps); }

  // Sums over whole parameters, `num_sums` by parameter. Empty: none yet.
  void set_sums(std::vector<double> sums) { sums_ = std::move(sums); }
  // Clears the states of rows and columns of every parameter.
  void begin_factors();
  void set_factors(std::size_t param, Factors factors) { factors_[param] = factors; }
  // On a device that the host cannot read: their addresses there. Factors of set_factors() are then on the host.
  void set_factors_there(std::size_t param, Factors factors) { factors_there_[param] = factors; }
  const Factors& factors_there(std::size_t param) const { return factors_there_[param]; }

  // `on_host`: for the host's code.
  UpdateScalars scalars_of(std::size_t param, bool on_host = true) const;

 private:
  std::vector<ParameterValues> values_;  // by parameter, as the other vectors
  std::vector<MatrixShape> matrices_;
  std::vector<std::int64_t> numels_;
  std::vector<std::int64_t> steps_;
  std::vector<bool> present_;
  std::size_t num_sums_;
  std::vector<double> sums_;
  std::vector<Factors> factors_, factors_there_;  // empty without a FactorRule
  double scale_ = 1;
  StepRates rates_;
};

}  // namespace zero
