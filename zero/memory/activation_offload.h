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
#include "zero/memory/activation_offload_values.h"
#include "zero/memory/block_pool.h"
#include "zero/memory/disk_places.h"
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

  // Makes the first file, where the disk is used, for expected_bytes: ConfigError and IoError as DiskTier's.
  void open();

  // Records transfers to and from the disk from now on. To be called before open().
  void record(Timeline* timeline);
  // Uses `link` in place of a link of its own, so that activations and other transfers take turns on it.
  void share_link(const Link& link);

  // At least one byte. Throws IoError, also of earlier writes; ConfigError ("zero.host_memory", "zero.disk_memory")
  // where the disk has no room for more, or most_bytes are taken.
  Handle offload(std::span<const std::byte> bytes);
  // As many bytes as were offloaded. Throws IoError.
  void bring(Handle handle, std::span<std::byte> into);
  // An error of the disk is logged here, and thrown by the next offload() or bring().
  void forget(Handle handle);

  ActivationOffloadReport report() const;

 private:
  struct Offloaded {
    std::int64_t bytes = 0;
    std::byte* home = nullptr;   // on the host, if that is where it lies
    DiskPlace place{};           // on disk, if there
    std::byte* block = nullptr;  // a copy that is near: written from, read into, or brought up into
    bool arriving = false;       // the block is being filled
    Transfer link_transfer{};    // down the link
    Transfer moving{};           // between the block and where it came from or goes to
  };

  bool on_disk() const { return places_.has_value(); }
  void require_room_on_host(std::int64_t bytes) const;
  void copy_to_host(Offloaded& offloaded, std::span<const std::byte> from);
  void write(Offloaded& offloaded, std::span<const std::byte> from);
  void copy_down(Offloaded& offloaded, std::byte* to, std::span<const std::byte> from);
  void fetch(Handle handle, Offloaded& offloaded);
  void fetch_before(Handle handle);
  void make_room();

  Ledger& ledger_;
  std::int64_t most_bytes_;
  std::int64_t expected_bytes_;
  BlockPool homes_;
  BlockPool blocks_;
  std::optional<DiskPlaces> places_;  // where the disk is used
  std::unique_ptr<Link> link_;        // null where none stands
  std::map<Handle, Offloaded> offloaded_;
  std::deque<Handle> near_;  // those with a block, the next to lose it first
  Handle next_ = 0;
  std::int64_t bytes_ = 0;
  std::int64_t peak_bytes_ = 0;
  FatalIo io_;
};

}  // namespace zero
