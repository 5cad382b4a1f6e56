// pace_note(): warns before a run trains if saves will not keep up, when `checkpoint.every` can still be changed.
//
//   const double seconds = estimate_save_seconds(comm, run_folder, bytes_of_all_ranks);
//   say(pace_note(policy, bytes_of_all_ranks, seconds, step_seconds));        // empty: saves keep up
//
// If a save is still running when the next is due, training waits for it (run_checkpoints.h). The estimate may be wrong
// for a disk with a cache of its own, or a disk that others use.
#pragma once

#include <filesystem>
#include <string>

#include "zero/comm/communicator.h"

#include "app/train/folder/run_checkpoints.h"

namespace zero {

// Collective. Returns the seconds that writing a checkpoint of `bytes` takes. Call it before states are allocated: it
// needs 36 MiB of memory for a short time.
//
// All ranks write kLeastBytes at the same time, as a save does, but without the syncs at its end. Each writes into an
// unnamed file in the nearest existing parent of `folder`. The result is 0 if this fails (the save will report why), or
// if each rank has less than kLeastBytes. Ranks that wait for a slow disk call collectives meanwhile, so no timeout
// ends them.
inline constexpr std::int64_t kLeastBytes = std::int64_t{16} << 20;
double estimate_save_seconds(Communicator& comm, const std::filesystem::path& folder, std::int64_t bytes);

// Local. `step_seconds`: lower bound of a step's time.
std::string pace_note(const CheckpointPolicy& policy, std::int64_t bytes, double save_seconds, double step_seconds);

}  // namespace zero
