// EngineResources: what an engine works with and shares with those that work beside it on the same rank, such as saves and
// offloaded activations.
//
//   const EngineResources resources = engine.resources();
//   Charge image(resources.ledger, Tier::kHost, MemoryTag::kStaging, bytes);
//
// References into the engine, which outlives them. Local.
#pragma once

#include "zero/comm/communicator.h"
#include "zero/engine/options/options.h"
#include "zero/memory/account/ledger.h"
#include "zero/memory/link/link.h"
#include "zero/memory/memory_monitor.h"
#include "zero/plan/units/mesh.h"

namespace zero {

struct EngineResources {
  Communicator& comm;  // of the run
  Communicator& copy;  // of the ranks that hold the model once: a unit's shards are theirs, and gathered over them
  const Mesh& mesh;
  Ledger& ledger;
  const EngineOptions& options;
  const MemoryMonitor::Source& read_memory;  // what is free on this machine
  const Link* link = nullptr;                // between device and host; null where none stands
};

}  // namespace zero
