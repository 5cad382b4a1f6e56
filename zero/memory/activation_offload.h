// ActivationOffload: activations on the host or on disk, from the forward pass that stores them to the backward pass
// that wants them in the reverse order.
//
//   ActivationOffload activation_offload({.tier = Tier::kDisk, .disk = {"/nvme0"}}, ledger);
//   const ActivationOffload::Handle handle = activation_offload.offload(bytes);   // a copy is on its way; `bytes` may be used again
//   activation_offload.bring(handle, into);                          // as often as one likes
//   activation_offload.forget(handle);                               // its memory, or its place on disk, serves the next
//
// On the host a copy lies in memory that is kept between steps. On disk it goes through a block of memory, of which
// there are kBlocks: offload() waits for the kBlocks-th write before it, bring() begins to read the kAhead that were
// offloaded before the one it brings, and what still lies in a block is not read at all. Where a link stands between
// device and host, all of it crosses that, ahead too where it lies on the host; from disk, when it is brought.
//
// Activations of a device that the host cannot read (come_from()) are used in its lane kCompute, and the host waits for none
// of them, but for a disk's block. Each wait of a lane has a reason:
//
//   offload()   kCompute copies the bytes into a block of the device, so that operators may write them at once;
//               kDown comes after that copy; it brings them to pinned memory
//   ahead       kUp comes after the way down of the same bytes, and after the last use of the block that it fills
//   bring()     kCompute comes after the way up, and copies the block. From disk kUp fills `into`, after all of kCompute
//
// The newest kBlocks stay in their blocks, on the device; where they go on to a disk, one block is there.
//
// Offloaded activations take at most `most_bytes`: beyond them offload() throws, and offloads nothing.
// activation_offload_need() says how many bytes a known number of activations takes on each tier, so that budgets can
// be kept before anything is offloaded.
//
// Invariants: bring() gives the bytes that were offloaded, or throws. At most kBlocks blocks are held. Blocks are
// charged as staging, offloaded bytes as activation.
//
// After a failed read or write the bytes are lost: every later offload() and bring() throws the IoError, too. Local;
// one thread at a time.
#pragma once

#include <deque>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "zero/base/fatal_io.h"
#include "zero/device/device.h"
#include "zero/memory/activation_offload_values.h"
#include "zero/memory/block_pool.h"
#include "zero/memory/disk_places.h"
#include "zero/memory/lane_link.h"
#include "zero/memory/link.h"

namespace zero {

class ActivationOffload {
 public:
  using Handle = std::int64_t;  // rises from one offload() to the next
  static constexpr std::size_t kBlocks = 4;
  static constexpr int kAhead = 2;

  // Throws ConfigError ("zero.disk") where tier is kDisk and no folder is named. Touches no disk.
  ActivationOffload(ActivationOffloadOptions options, Ledger& ledger, DiskSeam seam = {});
  ActivationOffload(const ActivationOffload&) = delete;
  ActivationOffload& operator=(const ActivationOffload&) = delete;
  ~ActivationOffload();

  // Makes the first file, where the disk is used, for expected_bytes: ConfigError and IoError as DiskTier's.
  void open();

  // Records transfers to and from the disk from now on. To be called before open().
  void record(Timeline* timeline);
  // Activations are bytes of `device` from now on: before the first is offloaded. `device` outlives this. Also after
  // record(). Main memory is no such device: nothing changes.
  void come_from(Device& device);
  // Uses `link` in place of a link of its own, so that activations and other transfers take turns on it. Those of a device's
  // lanes do so anyway.
  void share_link(const Link& link);

  // At least one byte. Throws IoError, also of earlier writes; ConfigError ("zero.host_memory", "zero.disk_memory")
  // where the disk has no room for more, or most_bytes are taken; what a device throws. `bytes` of a device are those that
  // kCompute has made by now.
  Handle offload(std::span<const std::byte> bytes);
  // As many bytes as were offloaded. On a device they are there for what is queued in kCompute from now on. Throws IoError.
  void bring(Handle handle, std::span<std::byte> into);
  // An error of the disk is logged here, and thrown by the next offload() or bring().
  void forget(Handle handle);

  ActivationOffloadReport report() const;

 private:
  struct Offloaded {
    std::int64_t bytes = 0;
    std::byte* home = nullptr;      // on the host, if that is where it lies
    DiskPlace place{};              // on disk, if there
    std::byte* block = nullptr;     // a copy that is near: written from, read into, or brought up into
    bool arriving = false;          // the block is being filled
    Transfer link_transfer{};       // down the link
    Transfer moving{};              // between the block and where it came from or goes to
    LastUse of_home{}, of_block{};  // by lanes of a device
  };

  bool on_disk() const { return places_.has_value(); }
  bool device_is_apart() const { return !device_->host_readable(); }
  void require_room_on_host(std::int64_t bytes) const;
  void copy_to_host(Offloaded& offloaded, std::span<const std::byte> from);
  void write(Offloaded& offloaded, std::span<const std::byte> from);
  void copy_down(Offloaded& offloaded, std::byte* to, std::span<const std::byte> from);
  Transfer bring_down(Offloaded& offloaded, std::byte* to, std::byte* block, std::span<const std::byte> from);
  void bring_by_lanes(Offloaded& offloaded, std::span<std::byte> into);
  void tell_host_touches(const Access& access, std::string_view who);
  void notice_done();
  void fetch(Handle handle, Offloaded& offloaded);
  void fetch_before(Handle handle);
  void make_room();

  Ledger& ledger_;
  Device* device_;
  Timeline* timeline_ = nullptr;
  std::int64_t most_bytes_;
  std::int64_t expected_bytes_;
  BlockPool homes_;
  BlockPool blocks_;
  BlockPool stages_;                  // of a device, where blocks are the host's
  std::optional<DiskPlaces> places_;  // where the disk is used
  std::unique_ptr<Link> link_;        // null where none stands
  LaneLink* lane_link_ = nullptr;     // the same, of a device's lanes
  std::map<Handle, Offloaded> offloaded_;
  std::deque<Handle> near_;         // those with a block, the next to lose it first
  std::deque<Transfer> under_way_;  // in lanes; kept until they are seen done, so that nobody waits for them
  Handle next_ = 0;
  std::int64_t bytes_ = 0;
  std::int64_t peak_bytes_ = 0;
  FatalIo io_;
};

}  // namespace zero
