// The arithmetic of collectives, written once over the movements of a Communicator.
//
// Collective, all of them; results may be read when the call returns.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "zero/comm/communicator.h"

namespace zero {

// data = sum over ranks, in rank order, fp32; the same bits on every rank. Any size.
void all_reduce(Communicator& comm, std::span<float> data, CommTag tag);

// Each rank's value, in rank order.
std::vector<std::int64_t> all_gather_value(Communicator& comm, std::int64_t value, CommTag tag = {.control = true});
std::int64_t all_reduce_min(Communicator& comm, std::int64_t value, CommTag tag = {.control = true});
std::int64_t all_reduce_max(Communicator& comm, std::int64_t value, CommTag tag = {.control = true});

}  // namespace zero
