// Adafactor: a mean square of each row and each column of a matrix in place of one of each element (adafactor_kernel.h).
// Matrices are parameters with two or more dimensions: rows are the first dimension, columns all others together. Every
// other parameter has a mean square of each element.
//
//   auto rule = make_adafactor_rule({.lr = 1e-2});
//   rule->states()             // "variance", of others than matrices
//   rule->factors()->...       // row_var and col_var of a matrix, before update(); see FactorRule
//
// A step wants two sums over each parameter, add_sums(): of its squares, and of those of its direction. Local.
#pragma once

#include <memory>

#include "zero/optim/update_rule.h"

namespace zero {

// Throws nothing: make_update_rule() has looked at the options.
std::unique_ptr<UpdateRule> make_adafactor_rule(const AdafactorOptions& options);

}  // namespace zero
