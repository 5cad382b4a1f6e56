// OrthogonalRule: an update rule for matrices as a user would write one. A matrix steps along its momentum, whose rows
// are made orthonormal one after the other (Gram-Schmidt). If there are fewer columns than rows, the columns are. Other
// parameters step along their gradients.
#pragma once

#include <algorithm>
#include <cmath>

#include "zero/optim/rule/update_rule.h"

namespace zero {

class OrthogonalRule final : public UpdateRule, public MatrixRule {
 public:
  // `spare`: floats of workspace that the rule declares but does not use. `of`: parameters that have the momentum; only
  // matrices use it.
  explicit OrthogonalRule(std::int64_t spare = 0, StateOf of = StateOf::kMatrices) : spare_(spare), of_(of) {}
  std::string_view name() const override { return "orthogonal"; }
  std::vector<StateSpec> states() const override { return {{.name = "momentum", .of = of_}}; }
  const MatrixRule* matrices() const override { return this; }

  std::int64_t workspace_numel(const MatrixShape& matrix) const override {
    return std::max(matrix.rows, matrix.columns) + spare_;
  }
  double completion_flops(const MatrixShape& matrix) const override {
    const auto [few, many] = std::minmax({static_cast<double>(matrix.rows), static_cast<double>(matrix.columns)});
    return 2 * few * few * many;
  }
  void direct(const UpdateSpan& span, const UpdateScalars& scalars) const override {
    for (std::int64_t i = 0; i < span.numel; ++i) {
      float& momentum = span.states[0][i];
      momentum = 0.9F * momentum + static_cast<float>(scalars.gradient_scale) * span.gradient_at(i);
      span.parameter[i] = momentum;
    }
  }
  void complete(float* directions, const MatrixShape& matrix, std::span<float> workspace,
                ThreadTeam& /*team*/) const override {
    const auto [few, many] = std::minmax({matrix.rows, matrix.columns});
    const bool wide = few == matrix.rows;
    const std::int64_t next_row = wide ? many : 1, next = wide ? 1 : few;
    float* const own = workspace.data();
    for (std::int64_t row = 0; row < few; ++row) {
      float* const place = directions + row * next_row;
      for (std::int64_t i = 0; i < many; ++i) own[i] = place[i * next];
      for (std::int64_t before = 0; before < row; ++before) {
        const float* const other = directions + before * next_row;
        float product = 0;
        for (std::int64_t i = 0; i < many; ++i) product += own[i] * other[i * next];
        for (std::int64_t i = 0; i < many; ++i) own[i] -= product * other[i * next];
      }
      float squares = 0;
      for (std::int64_t i = 0; i < many; ++i) squares += own[i] * own[i];
      for (std::int64_t i = 0; i < many; ++i) place[i * next] = own[i] / (std::sqrt(squares) + 1e-7F);
    }
  }
  void update(const UpdateSpan& span, const UpdateScalars& scalars) const override {
    for (std::int64_t i = 0; i < span.numel; ++i)
      span.parameter[i] -= static_cast<float>(scalars.lr * scalars.gradient_scale) * span.gradient_at(i);
    span.write_low_precision();
  }

 private:
  std::int64_t spare_;
  StateOf of_;
};

}  // namespace zero
