// add_factor_sums(): squares of scaled gradients, added to a sum for each row and each column of their matrix. Adafactor's
// first pass; it reads gradients alone.
//
//   add_factor_sums(span, gradient_scale, rows, columns, lock);      // spans of one matrix, by any number of threads
//
// For each element: x = g * g, in fp32 as torch has it, with g = gradient * gradient_scale. A column's terms are x of each
// of its elements. A row's terms are sums of the x that lie in one row and one block of kSumBlock elements of the parameter,
// in the tree of block_sum_of_squares() with zeros for elements of other rows. Sums of terms are exact, so that
// neither cuts nor threads nor the instruction set change a bit. Local.
#pragma once

#include <mutex>
#include <span>

#include "zero/base/exact_sum.h"
#include "zero/optim/update_span.h"

namespace zero {

// `span` begins at a multiple of kSumBlock in its parameter, and ends there or at the parameter's end. `lock` is held while
// something is added to rows or columns.
void add_factor_sums(const UpdateSpan& span, float gradient_scale, std::span<ExactSum> rows,
                     std::span<ExactSum> columns, std::mutex& lock);

}  // namespace zero
