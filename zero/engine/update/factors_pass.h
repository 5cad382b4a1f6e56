// FactorsPass: updates states of rows and columns (FactorRule, Adafactor) before the update of their matrices. It reads
// the gradients of this rank once, unit by unit.
//
//   FactorsPass factors(rule, state, values, tiles, comm, ledger, device_sums);
//   factors.run(units);                            // then values.scalars_of(param).factors
//
// Rounded sums of rows and columns are copied up in kUp, and kUpdate waits for that. Collective.
#pragma once

#include <span>

#include "zero/comm/communicator.h"
#include "zero/engine/reduce/device_sums.h"
#include "zero/engine/update/update_tiles.h"

namespace zero {

class FactorSums;

class FactorsPass {
 public:
  // `device_sums`: null if the host can read the device. All must outlive it.
  FactorsPass(const UpdateRule& rule, ShardedState& state, StepValues& values, UpdateTiles& tiles, Communicator& comm,
              Ledger& ledger, DeviceSums* device_sums)
      : rule_(rule),
        state_(state),
        values_(values),
        tiles_(tiles),
        comm_(comm),
        ledger_(ledger),
        device_sums_(device_sums) {}

  // No-op if the rule has no factors.
  void run(std::span<const int> units);

 private:
  void add_squares(const Unit& unit, FactorSums& sums);
  void update_unit(const Unit& unit, FactorSums& sums);
  void take_to_host(std::span<const int> units);

  const UpdateRule& rule_;
  ShardedState& state_;
  StepValues& values_;
  UpdateTiles& tiles_;
  Communicator& comm_;
  Ledger& ledger_;
  DeviceSums* device_sums_;
};

}  // namespace zero
