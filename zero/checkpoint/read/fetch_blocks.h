// fetch_blocks(): copies blocks of a kept checkpoint to launchers that lack them, from the machine that has them.
//
//   const Charge held = fetch_blocks(engine.resources(), launchers, memory, {kept, fetched}, reader);
//   ...load...                                           // `held` stays; then the launcher drops the folder `fetched`
//
// The blocks are those that `reader` expects, and the blocks of this rank's extras. They are stored under the names of
// their files in memory that the launcher holds, once for all of its ranks. A file has its whole size, but only these
// blocks take memory. Readers verify the blocks; fetch_blocks() does not.
//
// Collective. Throws IoError on every rank if no machine has a file, or a file cannot be read or written. Also throws
// it if a machine lacks memory for its blocks.
#pragma once

#include <string>

#include "zero/checkpoint/read/checkpoint_reader.h"
#include "zero/checkpoint/read/launchers.h"
#include "zero/comm/launcher/launcher_memory.h"
#include "zero/engine/options/engine_resources.h"
#include "zero/memory/account/charge.h"

namespace zero {

// Prefixes of names, without the last "/".
struct FetchFolders {
  std::string kept;     // the checkpoint
  std::string fetched;  // the copied blocks
};

Charge fetch_blocks(const EngineResources& engine, const Launchers& launchers, LauncherMemory& memory,
                    const FetchFolders& folders, const CheckpointReader& reader);

}  // namespace zero
