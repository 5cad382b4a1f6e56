// Collectives: sums, gathers and broadcasts, written once on top of the operations of a Communicator.
//
// Collective, all functions. When a call returns, its results may be read, and its inputs may change or be freed: no
// drain() is needed.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "zero/comm/communicator.h"

namespace zero {

// Sums `data` over ranks, in rank order and fp32: the same bits on every rank. Any size.
void all_reduce(Communicator& comm, std::span<float> data, CommTag tag);

// Run the communicator's operations of these names, and wait for them.
void all_gather(Communicator& comm, std::span<const std::byte> in, std::span<std::byte> out, CommTag tag);
void broadcast(Communicator& comm, std::span<std::byte> data, int root, CommTag tag);

// Returns each rank's value, in rank order.
std::vector<std::int64_t> all_gather_value(Communicator& comm, std::int64_t value, CommTag tag = {.control = true});
std::int64_t all_reduce_min(Communicator& comm, std::int64_t value, CommTag tag = {.control = true});
std::int64_t all_reduce_max(Communicator& comm, std::int64_t value, CommTag tag = {.control = true});

// Returns each rank's text, in rank order; texts may differ in length.
std::vector<std::string> all_gather_text(Communicator& comm, std::string_view text, CommTag tag = {.control = true});
// Returns each rank's numbers, in rank order; they may differ in count.
std::vector<std::vector<std::int64_t>> all_gather_numbers(Communicator& comm, std::span<const std::int64_t> numbers,
                                                          CommTag tag = {.control = true});
// Returns rank 0's text on every rank.
std::string broadcast_text(Communicator& comm, std::string_view text, CommTag tag = {.control = true});

}  // namespace zero
