// Parking: bytes that are put away in one order and wanted in the reverse order, on the host or on disk. What a forward
// pass leaves for its backward pass.
//
//   Parking parking({.tier = Tier::kDisk, .disk = {"/nvme0"}}, ledger);
//   const Parking::Ticket ticket = parking.park(bytes);   // a copy is on its way; `bytes` may be used again
//   parking.bring(ticket, into);                          // as often as one likes
//   parking.forget(ticket);                               // its memory, or its place on disk, serves the next
//
// On the host a copy lies in memory that is kept between steps. On disk it goes through a block of memory, of which
// there are kBlocks: park() waits for the kBlocks-th write before it, bring() begins to read the kAhead that were
// parked before the one it brings, and what still lies in a block is not read at all. Where a link stands between
// device and host, all of it crosses that, ahead too where it lies on the host; from disk, when it is brought.
//
// What is parked is held within `most_bytes`: beyond them park() throws, and parks nothing. parking_need() says what a
// known number of things takes on each tier, so that budgets can be kept before anything is parked.
//
// Invariants: bring() gives the bytes that were parked, or throws. At most kBlocks blocks are held. Blocks are charged
// as staging, what is parked as activation.
//
// What a failed read or write leaves behind is nothing to go on from: the IoError is thrown by every later park() and
// bring(), too. Local; one thread at a time.
#pragma once

#include <deque>
#include <exception>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "zero/memory/block_pool.h"
#include "zero/memory/disk_places.h"
#include "zero/memory/link.h"

namespace zero {

struct ParkingOptions {
  Tier tier = Tier::kHost;           // kHost or kDisk
  std::vector<std::string> disk;     // folders, one a disk; for kDisk
  bool checksums = false;            // what returns from disk is verified
  double link_bytes_per_second = 0;  // of a link between device and host; 0: there is none
  std::int64_t most_bytes = 0;       // that what is parked may take on its tier; 0: no limit
  std::int64_t expected_bytes = 0;   // that it will take there, where that is known: open() makes room for it on disk
};

// What parking takes on each tier at most, where `count` things of so many bytes each are parked at once; with blocks.
struct ParkingNeed {
  std::int64_t device = 0;
  std::int64_t host = 0;
  std::int64_t disk = 0;
};
ParkingNeed parking_need(const ParkingOptions& options, std::int64_t count, std::int64_t bytes);

struct ParkingReport {
  std::int64_t bytes = 0;       // parked now
  std::int64_t peak_bytes = 0;  // at most
  DiskTraffic disk;             // since the beginning
  LinkTraffic link;
  std::string disk_kind;  // "io_uring, O_DIRECT, 1 path"; empty: no disk is used
};

class Parking {
 public:
  using Ticket = std::int64_t;  // rises from one park() to the next
  static constexpr std::size_t kBlocks = 4;
  static constexpr int kAhead = 2;

  // Throws ConfigError ("zero.disk") where tier is kDisk and no folder is named. Touches no disk.
  Parking(ParkingOptions options, Ledger& ledger, DiskSeam seam = {});
  Parking(const Parking&) = delete;
  Parking& operator=(const Parking&) = delete;

  // Makes the first file, where the disk is used, for expected_bytes: ConfigError and IoError as DiskTier's.
  void open();

  // What goes to and from the disk is recorded there from now on. Before open().
  void record(Timeline* timeline);
  // Where a link stands, it is that one: what else crosses it and what is parked take turns.
  void share_link(const Link& link);

  // At least one byte. Throws IoError, also of earlier writes; ConfigError ("zero.host_memory", "zero.disk_memory")
  // where the disk has no room for more, or most_bytes are taken.
  Ticket park(std::span<const std::byte> bytes);
  // As many bytes as were parked. Throws IoError.
  void bring(Ticket ticket, std::span<std::byte> into);
  // What goes wrong on the disk is logged here, and thrown by the next park() or bring().
  void forget(Ticket ticket);

  ParkingReport report() const;

 private:
  struct Parked {
    std::int64_t bytes = 0;
    std::byte* home = nullptr;   // on the host, if that is where it lies
    DiskPlace place{};           // on disk, if there
    std::byte* block = nullptr;  // a copy that is near: written from, read into, or brought up into
    bool arriving = false;       // the block is being filled
    Transfer crossing{};         // down the link
    Transfer moving{};           // between the block and where it came from or goes to
  };

  template <typename Body>
  auto fatal_if_io_fails(Body body);
  bool on_disk() const { return places_.has_value(); }
  void require_room_on_host(std::int64_t bytes) const;
  void copy_to_host(Parked& parked, std::span<const std::byte> from);
  void write(Parked& parked, std::span<const std::byte> from);
  void copy_down(Parked& parked, std::byte* to, std::span<const std::byte> from);
  void fetch(Ticket ticket, Parked& parked);
  void fetch_before(Ticket ticket);
  void make_room();

  Ledger& ledger_;
  std::int64_t most_bytes_;
  std::int64_t expected_bytes_;
  BlockPool homes_;
  BlockPool blocks_;
  std::optional<DiskPlaces> places_;  // where the disk is used
  std::unique_ptr<Link> link_;        // null where none stands
  std::map<Ticket, Parked> parked_;
  std::deque<Ticket> near_;  // those with a block, the next to lose it first
  Ticket next_ = 0;
  std::int64_t bytes_ = 0;
  std::int64_t peak_bytes_ = 0;
  std::exception_ptr failed_;
};

}  // namespace zero
