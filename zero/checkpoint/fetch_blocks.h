// fetch_blocks(): what ranks want of a kept checkpoint, and their own launcher has not, comes from the machine that has it.
//
//   const Charge held = fetch_blocks(engine.resources(), launchers, memory, {kept, fetched}, reader);
//   ...load...                                           // `held` stays; then the launcher lets go of the folder `fetched`
//
// The blocks that `reader` expects, and those of this rank's extras, are put under the names of their files into memory
// that the launcher holds, once for all of its ranks. Only these blocks take memory; a file has its whole size. They are
// not verified here: whoever reads them does.
//
// Collective. Throws IoError, on every rank, where no machine has a file, where one has no memory for what it wants, or
// where one cannot be read or written.
#pragma once

#include <string>

#include "zero/checkpoint/checkpoint_reader.h"
#include "zero/checkpoint/launchers.h"
#include "zero/engine/engine_resources.h"
#include "zero/launcher_memory/launcher_memory.h"
#include "zero/memory/charge.h"

namespace zero {

// Prefixes of names, without the last "/".
struct FetchFolders {
  std::string kept;     // the checkpoint
  std::string fetched;  // of what comes
};

Charge fetch_blocks(const EngineResources& engine, const Launchers& launchers, LauncherMemory& memory,
                    const FetchFolders& folders, const CheckpointReader& reader);

}  // namespace zero
