// add_factor_sums(): adds squares of scaled gradients to a sum per row and per column of their matrix.
//
//   add_factor_sums(span, gradient_scale, rows, columns, lock);      // spans of one matrix, by any number of threads
//
// It is Adafactor's first pass, and reads only gradients. For each element x = g * g, in fp32 as in torch, with g =
// gradient * gradient_scale. A column's terms are the x of its elements. A row's terms are sums of its x in one block
// of kSumBlock elements of the parameter. They use the tree of block_sum_of_squares(), with zeros for elements of other
// rows. Sums of terms are exact, so neither cuts, threads nor the instruction set change a bit. Local.
#pragma once

#include <mutex>
#include <span>

#include "zero/base/numbers/exact_sum.h"
#include "zero/optim/rule/update_span.h"

namespace zero {

// `span` begins at a multiple of kSumBlock in its parameter, and ends at such a multiple or at the parameter's end.
// Holds `lock` while it adds to rows or columns.
void add_factor_sums(const UpdateSpan& span, float gradient_scale, std::span<ExactSum> rows,
                     std::span<ExactSum> columns, std::mutex& lock);

}  // namespace zero
