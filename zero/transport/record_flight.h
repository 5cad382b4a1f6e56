// Flight records by the environment's variables: gives a communicator its ring.
//
//   ZERO_FLIGHT_DIR                 the folder for rank-NNNNN.json on trouble; goes before the program's own
//   TORCH_NCCL_TRACE_BUFFER_SIZE    how many collectives are kept (PyTorch's name); 0: none. Default: 1,024
//
// Local, no side effects: reads through `environment` alone. Throws ConfigError for a number that is none.
#pragma once

#include <filesystem>
#include <memory>
#include <string>
#include <string_view>

#include "zero/comm/recorded_communicator.h"
#include "zero/rendezvous/detect_ranks.h"

namespace zero {

std::size_t flight_capacity(const GetEnvironment& environment);
// ZERO_FLIGHT_DIR, or `otherwise`.
std::filesystem::path flight_folder(const GetEnvironment& environment, const std::filesystem::path& otherwise = {});

// The ring's memory: zeroed pages of this process; nothing for a capacity of 0. Throws std::bad_alloc.
Allocation flight_memory(std::size_t capacity);
// The same, which the launcher holds, too, where it keeps memory for its ranks (zero/launcher_memory/launcher_memory.h), as "flight/rank-00003".
Allocation flight_memory(std::size_t capacity, int rank, const GetEnvironment& environment);

// `communicator`, recorded, with ZERO_FLIGHT_DIR for its folder. Nothing, and `communicator` stays, where there is
// nothing to record: one rank alone, or a capacity of 0. `run`: a name that all its ranks have.
std::unique_ptr<RecordedCommunicator> record_flight(std::unique_ptr<Communicator>& communicator, const std::string& run,
                                                    const GetEnvironment& environment);

}  // namespace zero
