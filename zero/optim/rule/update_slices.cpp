#include "zero/optim/rule/update_slices.h"

#include "zero/base/error/check.h"

namespace zero {

void throw_full(std::size_t most) {
  ZERO_CHECK(false, "a call has more than {} slices", most);
  __builtin_unreachable();
}

}  // namespace zero
