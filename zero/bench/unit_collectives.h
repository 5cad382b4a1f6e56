// UnitCollectives: the gather and the sum of one unit that lies on a device, as a run there makes them, and the copies that such a
// gather and sum need through the host, to be measured.
//
//   UnitCollectives unit(comm, device, /*bytes=*/32 << 20, /*linked=*/false);
//   unit.gather();  unit.sum();                 // each returns when the bytes are there
//   unit.gather_copies();  unit.sum_copies();   // the same bytes down to pinned memory and up again, between no ranks
//
// On main memory the transport takes the unit as it is; on a device that the host cannot read its bytes go through pinned memory,
// or, linked, from GPU to GPU over NCCL. Constructor, gather() and sum() are Collective, the copies Local. Throws CommError, and
// ConfigError where memory is short and, under "comm.transport", where devices cannot be linked.
#pragma once

#include <cstdint>
#include <memory>

#include "zero/comm/communicator.h"
#include "zero/device/device.h"
#include "zero/engine/engine_comms.h"
#include "zero/memory/ledger.h"

namespace zero::cli {

class UnitCollectives {
 public:
  // `bytes`: of the whole unit, in fp32; a multiple of 64 for each rank. `comm` and `device` outlive it.
  UnitCollectives(Communicator& comm, Device& device, std::int64_t bytes, bool linked);
  ~UnitCollectives();

  void gather();
  void sum();
  void gather_copies();
  void sum_copies();

  // How bytes cross: "in place", "through the host", "nccl".
  std::string_view way() const { return way_; }
  std::span<std::byte> whole() const { return whole_.bytes(); }
  std::span<std::byte> shard() const { return shard_.bytes(); }

 private:
  void come_and_go(std::span<std::byte> down, std::span<std::byte> up);

  Device& device_;
  Ledger ledger_;
  EngineComms comms_;
  std::string_view way_;
  std::unique_ptr<Communicator> between_devices_;  // null: the transport takes the device's memory
  Communicator& units_;
  Allocation whole_, shard_;    // on the device
  Allocation whole_down_, up_;  // pinned, of the copies
};

}  // namespace zero::cli
