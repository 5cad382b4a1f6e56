// share_of_cores(): the cores of a rank, as contiguous, equal shares, so caches and memory are near.
//
//   share_of_cores({0, 1, 2, 3, 4}, 1, 2)   {2, 3}: two each, one core is left over
//   share_of_cores({0, 1}, 0, 4)            {}: more ranks than cores share all cores, unbound
//
// Local.
#pragma once

#include <span>
#include <vector>

namespace zero {

// Returns the cores on which this process may run, ascending: the cores that taskset, a container or the batch system
// allow.
std::vector<int> allowed_cores();

std::vector<int> share_of_cores(std::span<const int> cores, int local_rank, int local_world);

}  // namespace zero
