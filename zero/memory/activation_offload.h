// ActivationOffload: keeps activations on the host or on disk from the forward pass until the backward pass.
//
//   ActivationOffload activation_offload({.tier = Tier::kDisk, .disk = {"/nvme0"}}, ledger);
//   const ActivationOffload::Handle handle = activation_offload.offload(bytes);   // copies; `bytes` may be reused
//   activation_offload.bring(handle, into);                          // any number of times
//   activation_offload.forget(handle);                               // frees its memory, or its place on disk
//
// Host copies use memory that is kept between steps. Disk copies pass through blocks of memory, at most kBlocks. The
// backward pass wants activations in reverse order, so bring() also fetches the kAhead ones offloaded before.
// Invariants: bring() returns the offloaded bytes, or throws. Blocks are charged as staging, offloaded bytes as
// activation. activation_offload_need() predicts the bytes on each tier. After a failed read or write the bytes are
// lost, and every later offload() and bring() also throws the IoError. Local; one thread at a time.
#pragma once

#include <deque>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "zero/base/files/fatal_io.h"
#include "zero/device/device.h"
#include "zero/memory/activation_offload_values.h"
#include "zero/memory/disk/block_pool.h"
#include "zero/memory/disk/disk_places.h"
#include "zero/memory/link/lane_link.h"
#include "zero/memory/link/link.h"

namespace zero {

// A copy to disk waits for the kBlocks-th write before it. bring() copies from a block if the block still has the
// bytes. If a link connects device and host, all copies cross it: from the host also ahead, from disk when they are
// brought.
//
// Activations of a device that the host cannot read (come_from()) are used in its lane kCompute. The host waits only
// for disk blocks. Each wait of a lane has a reason:
//
//   offload()   kCompute copies the bytes into a block of the device, so operators may overwrite them at once;
//               kDown waits for that copy, and copies the block to pinned memory
//   ahead       kUp waits for the copy of the same bytes to the host, and for the last use of the block that it fills
//   bring()     kCompute waits for the copy to the device, and copies the block. From disk kUp fills `into`,
//               after all work of kCompute
//
// The newest kBlocks activations stay in their blocks on the device. If they go on to a disk, one block is there.
class ActivationOffload {
 public:
  using Handle = std::int64_t;  // increases with each offload()
  static constexpr std::size_t kBlocks = 4;
  static constexpr int kAhead = 2;

  // Throws ConfigError ("zero.disk") if the tier is kDisk and no folder is named. Does not access the disk.
  ActivationOffload(ActivationOffloadOptions options, Ledger& ledger, DiskSeam seam = {});
  ActivationOffload(const ActivationOffload&) = delete;
  ActivationOffload& operator=(const ActivationOffload&) = delete;
  ~ActivationOffload();

  // Creates the first file, for expected_bytes, if the disk is used. Throws DiskTier's ConfigError and IoError.
  void open();

  // Records transfers to and from the disk. Call it before open().
  void record(Timeline* timeline);
  // Takes activations from `device`, which must outlive this object. Call it before the first offload(); it may be
  // called after record(). Has no effect if the host can read the device's memory.
  void come_from(Device& device);
  // Shares `link` with other transfers, which then take turns. A device's lanes share their link anyway.
  void share_link(const Link& link);

  // Copies `bytes`, at least one. On a device the copy has the bytes as kCompute's queued work leaves them. Throws
  // IoError, also of earlier writes; ConfigError under the budget of the tier, such as "zero.host_memory", if the disk
  // is full or most_bytes are exceeded; and the device's errors. If it throws, nothing is offloaded.
  Handle offload(std::span<const std::byte> bytes);
  // Copies the bytes back; the size must be equal. On a device, work queued later in kCompute sees them. Throws
  // IoError.
  void bring(Handle handle, std::span<std::byte> into);
  // Frees the copy. A disk error is logged here, and thrown by the next offload() or bring().
  void forget(Handle handle);

  ActivationOffloadReport report() const;

 private:
  struct Offloaded {
    std::int64_t bytes = 0;
    std::byte* home = nullptr;  // copy on the host, if any
    DiskPlace place{};          // copy on disk, if any
    // nearby copy: written to disk from here, read from disk into it, or copied to the device into it
    std::byte* block = nullptr;
    bool arriving = false;          // the block is being filled
    Transfer link_transfer{};       // to the host
    Transfer moving{};              // between the block and the disk or the host
    LastUse of_home{}, of_block{};  // last uses by lanes of a device
  };

  bool on_disk() const { return places_.has_value(); }
  bool device_is_apart() const { return !device_->host_readable(); }
  void require_room(std::int64_t bytes) const;
  void copy_to_host(Offloaded& offloaded, std::span<const std::byte> from);
  void write(Offloaded& offloaded, std::span<const std::byte> from);
  void copy_down(Offloaded& offloaded, std::byte* to, std::span<const std::byte> from);
  Transfer bring_down(Offloaded& offloaded, std::byte* to, std::byte* block, std::span<const std::byte> from);
  void bring_by_lanes(Offloaded& offloaded, std::span<std::byte> into);
  void note_host_access(const Access& access, std::string_view who);
  void notice_done();
  void fetch(Handle handle, Offloaded& offloaded);
  void fetch_before(Handle handle);
  void make_room();

  Ledger& ledger_;
  Device* device_;
  Timeline* timeline_ = nullptr;
  std::int64_t most_bytes_;
  std::int64_t expected_bytes_;
  Tier tier_;        // of the options
  BlockPool homes_;  // not used with the disk
  BlockPool blocks_;
  BlockPool stages_;                  // blocks of a device if blocks_ is on the host
  std::optional<DiskPlaces> places_;  // only if the disk is used
  std::unique_ptr<Link> link_;        // null: no link
  LaneLink* lane_link_ = nullptr;     // link_, if it belongs to a device's lanes
  std::map<Handle, Offloaded> offloaded_;
  std::deque<Handle> near_;         // handles with a block; the first one loses its block next
  std::deque<Transfer> under_way_;  // transfers in lanes; kept until they are done, so no destructor waits for them
  Handle next_ = 0;
  std::int64_t bytes_ = 0;
  std::int64_t peak_bytes_ = 0;
  FatalIo io_;
};

}  // namespace zero
