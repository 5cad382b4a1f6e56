// Flight records by the environment's variables: gives a communicator its ring.
//
//   ZERO_FLIGHT_DIR                 folder for rank-NNNNN.json on a failure; overrides the program's own
//   TORCH_NCCL_TRACE_BUFFER_SIZE    number of collectives that are kept (PyTorch's name); 0: none. Default: 1,024
//
// Local, no side effects: reads only through `environment`. Throws ConfigError for an invalid number.
#pragma once

#include <filesystem>
#include <memory>
#include <string>
#include <string_view>

#include "zero/comm/rendezvous/detect_ranks.h"
#include "zero/comm/transport/recorded_communicator.h"

namespace zero {

std::size_t flight_capacity(const GetEnvironment& environment);
// Returns ZERO_FLIGHT_DIR, or `otherwise`.
std::filesystem::path flight_folder(const GetEnvironment& environment, const std::filesystem::path& otherwise = {});

// Allocates the ring's memory: zeroed pages of this process; nothing for a capacity of 0. Throws std::bad_alloc.
Allocation flight_memory(std::size_t capacity);
// Does the same. If the launcher keeps memory for its ranks (zero/comm/launcher/launcher_memory.h), it also holds
// this memory, as "flight/rank-00003".
Allocation flight_memory(std::size_t capacity, int rank, const GetEnvironment& environment);

// Takes `communicator`, and returns it recorded, with ZERO_FLIGHT_DIR as its folder. Returns nothing, and leaves
// `communicator`, if there is nothing to record: a single rank, or a capacity of 0. `run`: the same name on all ranks
// of the run.
std::unique_ptr<RecordedCommunicator> record_flight(std::unique_ptr<Communicator>& communicator, const std::string& run,
                                                    const GetEnvironment& environment);

}  // namespace zero
