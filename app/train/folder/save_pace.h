// pace_note(): whether saves keep up, estimated before a run trains, while a longer `checkpoint.every` costs nothing yet.
//
//   const double seconds = estimate_save_seconds(comm, run_folder, bytes_of_all_ranks);
//   say(pace_note(policy, bytes_of_all_ranks, seconds, step_seconds));        // empty: nothing speaks against it
//
// A save that is still running when the next is due is waited for (run_checkpoints.h); this says beforehand that it may
// come to that. A disk with a cache of its own, or one that others use, does as it likes.
#pragma once

#include <filesystem>
#include <string>

#include "zero/comm/communicator.h"

#include "app/train/folder/run_checkpoints.h"

namespace zero {

// Collective; before states are there: it takes 36 MiB of memory for a moment. Seconds that writing a checkpoint of
// `bytes` takes: from kLeastBytes that each rank, all at once, writes as a save does, but for the syncs at its end,
// into a file without a name of the nearest folder above `folder` that is there. 0 where that cannot be told (the save
// will say why), or where it is too little to matter: less than kLeastBytes a rank. However slow a disk is, ranks that
// wait for it ask each other meanwhile.
inline constexpr std::int64_t kLeastBytes = std::int64_t{16} << 20;
double estimate_save_seconds(Communicator& comm, const std::filesystem::path& folder, std::int64_t bytes);

// Local. `step_seconds`: what a step takes at least.
std::string pace_note(const CheckpointPolicy& policy, std::int64_t bytes, double save_seconds, double step_seconds);

}  // namespace zero
