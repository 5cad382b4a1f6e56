// The cores of a rank: contiguous, equal shares, so that caches and memory stay near.
//
//   share_of_cores({0, 1, 2, 3, 4}, 1, 2)   {2, 3}: two each, one is left over
//   share_of_cores({0, 1}, 0, 4)            {}: more ranks than cores share them all, unbound
#pragma once

#include <span>
#include <vector>

namespace zero {

// Local. The cores this process may run on, ascending: what taskset, a container or the batch system left of them.
std::vector<int> allowed_cores();

std::vector<int> share_of_cores(std::span<const int> cores, int local_rank, int local_world);

}  // namespace zero
