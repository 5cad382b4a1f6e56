// RecordedDevice: a device for tests that finds races. The host cannot access its memory, which is main memory.
//
//   RecordedDevice device;                              // a race throws InternalError
//   RecordedDevice device({.on_race = OnRace::kList});  // device.races() lists all races
//   RecordedDevice device({.late = seed});              // queued work runs late, in a random legal order
//   RecordedDevice device({.far_behind = true});        // nothing is done before the host waits for it
//
// Each operation is checked against all earlier ones on the same bytes. A race: two operations access a byte, one of
// them writes, and no lane, wait(), join() or successful done() orders them. Its text names both, their lanes and the
// bytes. Freeing memory and host_touches() are operations of the host, so a join must order them after all lanes' uses
// of the bytes.
//
// Local; one thread at a time, and all host threads count as one. It must outlive its allocations.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "zero/device/device.h"

#include "tests/support/device/access_map.h"
#include "tests/support/device/late_queue.h"
#include "tests/support/device/opened_bytes.h"
#include "tests/support/device/recorded_blocks.h"

namespace zero {

enum class OnRace { kThrow, kList };

// A race of two operations, by their numbers, from 1 in the order of queueing. Equal numbers: the operation wrote bytes
// that it does not name.
struct Race {
  std::uint64_t earlier, later;
  std::string text;
};

// Device memory is sealed: a host access faults (SIGSEGV; EFAULT in a system call). While a kernel's host code runs,
// only the pages with bytes that its call names are open, and read-only bytes are only readable. Other bytes in these
// pages are 0xFF meanwhile, and writes to them are reported. touches() opens its bytes until the next call of this
// device, for code that simulates work of the lane. Not found: host accesses to pinned memory without host_touches(),
// and a kernel's unnamed accesses to pinned memory.
//
// The clock counts work: each finished operation takes a millisecond, and nothing else takes time. So marks have the
// same times in each run.
//
// The destructor ends the process with a message if an allocation still exists, or if a race was neither thrown nor
// listed. Destructors do not throw, so a race at freeing memory is thrown by the next call.
class RecordedDevice : public Device {
 public:
  struct Options {
    OnRace on_race = OnRace::kThrow;
    std::optional<std::uint64_t> late;        // seed of the order; none: operations run at once
    std::optional<std::size_t> dropped_wait;  // this wait() or join(), counted from 0, has no effect
    bool far_behind = false;                  // done() is true only for work that the host has waited for
  };
  RecordedDevice() : RecordedDevice(Options{}) {}
  explicit RecordedDevice(const Options& options);
  ~RecordedDevice() override;

  const std::vector<Race>& races() const;
  // Describes each wait() and join() with a nonempty mark. See dropped_waits.h.
  const std::vector<std::string>& waits() const { return waits_; }
  // Returns the operations before each operation. Two runs with equal clocks have equal order.
  const std::vector<VectorClock>& clocks() const { return clocks_; }

  std::string_view name() const override { return "recorded"; }
  bool host_readable() const override { return false; }
  [[nodiscard]] Allocation allocate(std::size_t bytes) override { return allocate(bytes, false); }
  [[nodiscard]] Allocation allocate_pinned(std::size_t bytes) override { return allocate(bytes, true); }

  [[nodiscard]] Mark mark(Lane lane) override;
  void wait(Lane lane, const Mark& mark) override;
  bool done(const Mark& mark) override;  // each call runs some work if work is late
  void join(const Mark& mark) override;
  std::optional<double> seconds_between(const Mark& earlier, const Mark& later) override;

  void copy(Lane lane, std::span<std::byte> to, std::span<const std::byte> from) override;
  void fill(Lane lane, std::span<std::byte> bytes, std::byte value) override;
  void run(Lane lane, const KernelCall& call) override;
  void touches(Lane lane, std::span<const Access> accesses, std::string_view who) override;
  void host_touches(std::span<const Access> accesses, std::string_view who) override;

 private:
  struct Point;
  using Work = std::function<void()>;

  Allocation allocate(std::size_t bytes, bool pinned);
  void give_back(const std::byte* data);
  const Point& point_of(const Mark& mark) const;
  bool passes(Actor waiting, const Point& point);  // false for the dropped wait

  // Begins every call: closes the bytes of touches(), and throws the race that a destructor found.
  void enter();
  std::shared_ptr<const DeviceOperation> begin(Actor actor, std::string name, std::span<const Access> accesses);
  void execute(const DeviceOperation& operation, Work work);
  void note_done(std::uint64_t number) { done_at_[number - 1] = ++num_done_; }
  // Returns how many operations were done when the lane passed the mark; nothing if it has not passed it.
  std::optional<std::uint64_t> passed_at(const Mark& mark) const;
  void check_order(const DeviceOperation& operation, const Access& access);
  std::vector<OpenedBytes::Part> parts_of(std::span<const Access> accesses) const;
  void check_named(const DeviceOperation& operation, const std::byte* unnamed);
  void report(Race race);

  Options options_;
  RecordedBlocks blocks_;
  AccessMap accesses_;
  std::array<VectorClock, kNumActors> now_;
  std::optional<LateQueue> late_;
  std::vector<VectorClock> clocks_;
  // By operation: its position in the order of completion; 0: not done.
  std::vector<std::uint64_t> done_at_;
  std::uint64_t num_done_ = 0;
  std::vector<std::string> waits_;

  std::optional<OpenedBytes> opened_;
  std::shared_ptr<const DeviceOperation> opened_by_;

  std::vector<Race> races_;
  mutable std::size_t num_seen_ = 0;  // number of races_ that were thrown or listed
  bool in_destructor_ = false;        // whether an allocation's destructor is running
  int num_exceptions_;
};

}  // namespace zero
