// EngineResources: the parts of an engine that other users on the same rank share, such as saves and offloaded
// activations.
//
//   const EngineResources resources = engine.resources();
//   Charge image(resources.ledger, Tier::kHost, MemoryTag::kStaging, bytes);
//
// They are references into the engine, which must outlive their users. Local.
#pragma once

#include "zero/comm/communicator.h"
#include "zero/engine/options/options.h"
#include "zero/memory/account/ledger.h"
#include "zero/memory/link/link.h"
#include "zero/memory/memory_watch.h"
#include "zero/plan/units/mesh.h"

namespace zero {

struct EngineResources {
  Communicator& comm;  // of the run
  Communicator& copy;  // of the ranks that hold one copy of the model, which own and gather a unit's shards
  const Mesh& mesh;
  Ledger& ledger;
  const AttachOptions& options;
  const MemoryWatch::Source& read_memory;  // reader of this machine's free memory
  const Link* link = nullptr;              // between device and host; null: no link
  int local_world = 1;                     // ranks that share this machine's memory
};

}  // namespace zero
