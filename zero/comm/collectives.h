// Collectives: sums, gathers and broadcasts, written once over the movements of a Communicator.
//
// Collective, all of them. When the call returns results may be read, and inputs changed or gone: no drain() need follow.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "zero/comm/communicator.h"

namespace zero {

// data = sum over ranks, in rank order, fp32; the same bits on every rank. Any size.
void all_reduce(Communicator& comm, std::span<float> data, CommTag tag);

// What the communicator's movements of these names do, at once.
void all_gather(Communicator& comm, std::span<const std::byte> in, std::span<std::byte> out, CommTag tag);
void broadcast(Communicator& comm, std::span<std::byte> data, int root, CommTag tag);

// Each rank's value, in rank order.
std::vector<std::int64_t> all_gather_value(Communicator& comm, std::int64_t value, CommTag tag = {.control = true});
std::int64_t all_reduce_min(Communicator& comm, std::int64_t value, CommTag tag = {.control = true});
std::int64_t all_reduce_max(Communicator& comm, std::int64_t value, CommTag tag = {.control = true});

// Each rank's text, in rank order; they may differ in length.
std::vector<std::string> all_gather_text(Communicator& comm, std::string_view text, CommTag tag = {.control = true});
// Each rank's numbers, in rank order; they may differ in count.
std::vector<std::vector<std::int64_t>> all_gather_numbers(Communicator& comm, std::span<const std::int64_t> numbers,
                                                          CommTag tag = {.control = true});
// Rank 0's text, on every rank.
std::string broadcast_text(Communicator& comm, std::string_view text, CommTag tag = {.control = true});

}  // namespace zero
