// SumsPass: sums over whole parameters before their update, for rules such as LAMB. It reads all gradients and states
// of this rank once, and writes none.
//
//   SumsPass sums(rule, state, values, tiles, comm, device_sums);
//   sums.run(ranges);                              // then values.scalars_of(param).sums
//
// Sums are exact, so bits depend on no cut. On a device that the host cannot read, kernels add in kUpdate, after the
// gradients' copy up (kUp), and the host waits for them (DeviceSums). Collective.
#pragma once

#include <vector>

#include "zero/comm/communicator.h"
#include "zero/engine/reduce/device_sums.h"
#include "zero/engine/update/update_tiles.h"

namespace zero {

class SumsPass {
 public:
  // `device_sums`: null if the host can read the device. All must outlive it.
  SumsPass(const UpdateRule& rule, ShardedState& state, StepValues& values, UpdateTiles& tiles, Communicator& comm,
           DeviceSums* device_sums)
      : rule_(rule), state_(state), values_(values), tiles_(tiles), comm_(comm), device_sums_(device_sums) {}

  // `ranges`: the units of the step, with their update ranges.
  void run(std::vector<TileRange> ranges);

 private:
  const UpdateRule& rule_;
  ShardedState& state_;
  StepValues& values_;
  UpdateTiles& tiles_;
  Communicator& comm_;
  DeviceSums* device_sums_;
};

}  // namespace zero
