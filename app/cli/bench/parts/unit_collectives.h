// UnitCollectives: the gather and the sum of one unit on a device, and their copies, to be measured.
//
//   UnitCollectives unit(comm, device, /*bytes=*/32 << 20, /*linked=*/false);
//   unit.gather();  unit.sum();                 // each returns when the bytes have arrived
//   unit.gather_copies();  unit.sum_copies();   // the same bytes to pinned memory and back, without other ranks
//
// gather() and sum() work as in a run on that device. On main memory the transport reads and writes the unit in place.
// If the host cannot read the device's memory, the bytes are copied through pinned memory, or with `linked` sent from
// GPU to GPU over NCCL. Constructor, gather() and sum() are Collective; the copies are Local. Throws CommError, and
// ConfigError if memory is short or, with key "comm.transport", if devices cannot be linked.
#pragma once

#include <cstdint>
#include <memory>

#include "zero/comm/communicator.h"
#include "zero/device/device.h"
#include "zero/engine/wire/engine_comms.h"
#include "zero/memory/account/ledger.h"

namespace zero::cli {

class UnitCollectives {
 public:
  // `bytes`: size of the whole unit in fp32, a multiple of 64 for each rank. `comm` and `device` outlive this object.
  UnitCollectives(Communicator& comm, Device& device, std::int64_t bytes, bool linked);
  ~UnitCollectives();

  void gather();
  void sum();
  void gather_copies();
  void sum_copies();

  // Returns the way of the bytes between ranks: "in place", "through the host" or "nccl".
  std::string_view way() const { return way_; }
  std::span<std::byte> whole() const { return whole_.bytes(); }
  std::span<std::byte> shard() const { return shard_.bytes(); }

 private:
  void come_and_go(std::span<std::byte> down, std::span<std::byte> up);

  Device& device_;
  Ledger ledger_;
  EngineComms comms_;
  std::string_view way_;
  std::unique_ptr<Communicator> between_devices_;  // null: the transport uses the device's memory
  Communicator& units_;
  Allocation whole_, shard_;    // on the device
  Allocation whole_down_, up_;  // pinned, for the copies
};

}  // namespace zero::cli
