// RecordedDevice: a device for tests that finds races. Its memory is main memory that the host cannot touch, and every
// operation is checked against all earlier ones that touch the same bytes.
//
//   RecordedDevice device;                              // an operation that nothing orders throws InternalError
//   RecordedDevice device({.on_race = OnRace::kList});  // device.races() lists all of them
//   RecordedDevice device({.late = seed});              // queued work runs late, in a random legal order
//   RecordedDevice device({.far_behind = true});        // nothing is done before the host waits for it
//
// A race: two operations touch a byte, one of them writes, and neither comes after the other by lanes, wait(), join(), or
// done() that said true. Its text names both, their lanes, and the bytes. Giving memory back, and host_touches(), are
// operations of the host: they must come after, by a join, all uses that lanes make of these bytes.
//
// Device memory is sealed: the host faults where it touches it (SIGSEGV; within a system call EFAULT). While a kernel's
// host code runs, the pages with the bytes that its call names are open, and it faults at others; bytes that it only reads
// are open to reads alone. Bytes beside the named ones in a page hold 0xFF meanwhile, and a write there is reported.
// touches() opens its bytes until the next call of this device, for code that stands for work of the lane. Not found:
// host accesses to pinned memory that host_touches() does not tell of, and a kernel's unnamed accesses to pinned memory.
//
// Its clock counts work: each operation that is done takes a millisecond, and nothing else takes any time. So times of marks
// are the same in each run.
//
// Local; one thread at a time, and all threads of the host count as one. It outlives what it handed out: its destructor
// ends the process with a text where that is not so, and where a race is left that was neither thrown nor listed (one of
// memory given back, since destructors do not throw: the next call throws it).
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "zero/device/access_map.h"
#include "zero/device/device.h"
#include "zero/device/late_queue.h"
#include "zero/device/opened_bytes.h"
#include "zero/device/recorded_blocks.h"

namespace zero {

enum class OnRace { kThrow, kList };

// Numbers of operations, from 1 as they were queued. The same twice: it wrote bytes that it does not name.
struct Race {
  std::uint64_t earlier, later;
  std::string text;
};

class RecordedDevice final : public Device {
 public:
  struct Options {
    OnRace on_race = OnRace::kThrow;
    std::optional<std::uint64_t> late;        // seed of the order; without one, operations run at once
    std::optional<std::size_t> dropped_wait;  // this wait() or join(), counted from 0, does nothing
    bool far_behind = false;                  // done() says true of nothing but what the host has waited for
  };
  RecordedDevice() : RecordedDevice(Options{}) {}
  explicit RecordedDevice(const Options& options);
  ~RecordedDevice() override;

  const std::vector<Race>& races() const;
  // Each wait() and join() with a mark that is not empty, in words. See dropped_waits.h.
  const std::vector<std::string>& waits() const { return waits_; }
  // What came before each operation. Two runs of a program with equal clocks are in equal order.
  const std::vector<VectorClock>& clocks() const { return clocks_; }

  std::string_view name() const override { return "recorded"; }
  bool host_readable() const override { return false; }
  [[nodiscard]] Allocation allocate(std::size_t bytes) override { return allocate(bytes, false); }
  [[nodiscard]] Allocation allocate_pinned(std::size_t bytes) override { return allocate(bytes, true); }

  [[nodiscard]] Mark mark(Lane lane) override;
  void wait(Lane lane, const Mark& mark) override;
  bool done(const Mark& mark) override;  // where work is late, each call does some
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
  bool passes(Actor waiting, const Point& point);  // false for the wait that is dropped

  // What every call does first: closes what touches() opened, and throws what a destructor found.
  void enter();
  std::shared_ptr<const DeviceOperation> begin(Actor actor, std::string name, std::span<const Access> accesses);
  void execute(const DeviceOperation& operation, Work work);
  void note_done(std::uint64_t number) { done_at_[number - 1] = ++num_done_; }
  // How many operations were done when the lane passed it; nothing: it has not.
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
  // By operation: how many were done when it was; 0: it is not done.
  std::vector<std::uint64_t> done_at_;
  std::uint64_t num_done_ = 0;
  std::vector<std::string> waits_;

  std::optional<OpenedBytes> opened_;
  std::shared_ptr<const DeviceOperation> opened_by_;

  std::vector<Race> races_;
  mutable std::size_t num_seen_ = 0;  // of races_: thrown or listed
  bool in_destructor_ = false;        // of an allocation
  int num_exceptions_;
};

}  // namespace zero
