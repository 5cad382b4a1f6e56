// leaves_gradients(): whether a step has gradients on any rank beside those that are dropped.
//
//   if (leaves_gradients(comm, dropped, arrivals.present())) reducer.drop(dropped);     // else the step begins anew
//
// `dropped`, `present`: by parameter. Collective, and a barrier: when it returns, every rank has made the sums that it had
// begun. Throws ConfigError, on every rank, if the ranks drop different ones.
#pragma once

#include <vector>

#include "zero/comm/communicator.h"

namespace zero {

bool leaves_gradients(Communicator& comm, const std::vector<bool>& dropped, const std::vector<bool>& present);

}  // namespace zero
