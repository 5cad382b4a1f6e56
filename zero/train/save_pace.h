// Can saves keep up? Judged before a run trains, while a longer `checkpoint.every` costs nothing yet.
//
//   const double seconds = estimate_save_seconds(comm, run_folder, bytes_of_all_ranks);
//   say(pace_note(policy, seconds, step_seconds));        // empty: training will not wait for saves
//
// A save that is still running when the next is due is waited for (run_checkpoints.h); this says so beforehand.
#pragma once

#include <filesystem>
#include <string>

#include "zero/comm/communicator.h"
#include "zero/train/run_checkpoints.h"

namespace zero {

// Collective. Seconds that writing a checkpoint of `bytes` takes: from kLeastBytes that each rank, all at once, writes
// as a save does into a file of `folder` without a name. 0 where that cannot be told (the save will say why), or
// where it is too little to matter: less than kLeastBytes a rank.
inline constexpr std::int64_t kLeastBytes = std::int64_t{16} << 20;
double estimate_save_seconds(Communicator& comm, const std::filesystem::path& folder, std::int64_t bytes);

// Local. `step_seconds`: what a step takes, or at least takes.
std::string pace_note(const CheckpointPolicy& policy, std::int64_t bytes, double save_seconds, double step_seconds);

}  // namespace zero
