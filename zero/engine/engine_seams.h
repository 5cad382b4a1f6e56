// EngineSeams: what a test puts in an engine's way, and what a runner such as `zero train` knows better than the engine.
// A user's program has no need of it.
//
//   change_seams(options.offload).rates = rates;             // of this copy of the options alone
//   OffloadOptions offload{.disk = {folder}, .seams = seams({.disk_seam = &faulty})};
//   seams_of(offload).disk_seam
//
// Values only. Local.
#pragma once

#include <cstdint>
#include <memory>

#include "zero/engine/options.h"
#include "zero/plan/step_model.h"

namespace zero {

struct DiskSeam;
class LinkClock;

struct EngineSeams {
  std::int64_t activation_bytes = 0;  // of a rank's activations on the host, where host_memory is kAuto
  // What this machine gives a rank, where that is known from before; without update_numel it is probed, where it is
  // needed for a choice or, with `probes`, always.
  TierRates rates;
  bool probes = false;
  // What the model computes, where that is known before it runs. Else states are placed as if it were nothing, and once
  // more when a few steps have shown it.
  StepProfile profile;
  // What stands between the disk and the kernel, of the engine and of its probes; outlives them. Null: nothing.
  const DiskSeam* disk_seam = nullptr;
  // The time on the link; outlives the engine. Null: the machine's.
  const LinkClock* link_clock = nullptr;
};

inline std::shared_ptr<const EngineSeams> seams(EngineSeams given) {
  return std::make_shared<const EngineSeams>(std::move(given));
}

inline const EngineSeams& seams_of(const OffloadOptions& offload) {
  static const EngineSeams none;
  return offload.seams == nullptr ? none : *offload.seams;
}

// Those of `offload`, to be changed; copies of it that were made before keep theirs.
inline EngineSeams& change_seams(OffloadOptions& offload) {
  auto changed = std::make_shared<EngineSeams>(seams_of(offload));
  offload.seams = changed;
  return *changed;
}

}  // namespace zero
