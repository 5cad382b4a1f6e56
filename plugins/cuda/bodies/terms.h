// quarter_terms(), whole_term(): the trees that turn the squares of kSumBlock elements into terms of an exact sum.
//
//   quarter_terms(square, exchange)     // in lanes 0 to 3: the four terms
//   quarter_term<2>(values)             // the third of them, in a thread that has all sixteen values
//   whole_term(square, exchange)        // in lane 0: the single term
//
// A reduction's statistics have four terms per block (zero/comm/rank_sum.h), a rule's sums one
// (zero/base/numbers/exact_sum.h). Sixteen lanes have one element each. `exchange(value, 8)` returns the value of the
// lane whose number differs in bit 8. On a device a lane is a thread; a test uses arrays as values. Local.
#pragma once

#include "zero/base/numbers/exact_sum.h"

#include "plugins/cuda/bodies/rounded.h"

namespace zero::bodies {

ZERO_BODY double square_of(float x) {
  return mul(static_cast<double>(x), static_cast<double>(x));
}

template <typename Value, typename Exchange>
ZERO_BODY Value quarter_terms(Value squares, Exchange exchange) {
  const Value pairs = add(squares, exchange(squares, 8));
  return add(pairs, exchange(pairs, 4));
}

// `which` is a constant, so the values stay in registers.
template <int which>
ZERO_BODY double quarter_term(const float (&values)[kSumBlock]) {
  const double pair = add(square_of(values[which]), square_of(values[which + 8]));
  return add(pair, add(square_of(values[which + 4]), square_of(values[which + 12])));
}

template <typename Value, typename Exchange>
ZERO_BODY Value whole_term(Value squares, Exchange exchange) {
  const Value quarters = quarter_terms(squares, exchange);
  const Value halves = add(quarters, exchange(quarters, 2));
  return add(halves, exchange(halves, 1));
}

}  // namespace zero::bodies
