// Muon: matrices take steps along directions whose singular values are about 1 (muon_kernel.h); every other parameter is
// AdamW's (adam_kernel.h), with a learning rate of its own.
//
//   auto rule = make_muon_rule({.lr = 0.02, .adamw = {.lr = 1e-3}});
//   rule->states()             // "momentum_buffer" of matrices; "exp_avg", "exp_avg_sq" of others
//   rule->matrices()->...      // what happens to a matrix before update(); see MatrixRule
//
// Local.
#pragma once

#include <memory>

#include "zero/optim/update_rule.h"

namespace zero {

// Throws nothing: make_update_rule() has looked at the options.
std::unique_ptr<UpdateRule> make_muon_rule(const MuonOptions& options);

}  // namespace zero
