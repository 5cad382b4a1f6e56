// leaves_gradients(): returns whether any rank has gradients of a step that are not dropped.
//
//   if (leaves_gradients(comm, dropped, arrivals.present())) reducer.drop(dropped);     // else the step begins again
//
// `dropped`, `present`: by parameter. Collective, and a barrier: when it returns, every rank has finished its begun
// sums. Throws ConfigError on every rank if the ranks drop different gradients.
#pragma once

#include <vector>

#include "zero/comm/communicator.h"

namespace zero {

bool leaves_gradients(Communicator& comm, const std::vector<bool>& dropped, const std::vector<bool>& present);

}  // namespace zero
