#include "tests/support/device/recorded_device.h"

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <exception>
#include <utility>

#include <fmt/format.h>

#include "zero/base/error/check.h"
#include "zero/base/error/error.h"

namespace zero {
namespace {

std::string verb(bool reads, bool writes) {
  return reads && writes ? "changes" : writes ? "writes" : "reads";
}

std::string place(const DeviceOperation& operation) {
  return fmt::format("operation {} ({}) of {}", operation.number, operation.name, actor_name(operation.actor));
}

}  // namespace

struct RecordedDevice::Point {
  const RecordedDevice* device;
  Actor lane;
  VectorClock clock;
  std::uint64_t num_done;  // finished operations when the point was made
};

RecordedDevice::RecordedDevice(const Options& options)
    : options_(options), num_exceptions_(std::uncaught_exceptions()) {
  if (options.late) late_.emplace(*options.late);
}

RecordedDevice::~RecordedDevice() {
  if (std::uncaught_exceptions() > num_exceptions_) return;  // that exception matters more
  if (blocks_.size() > 0) fmt::print(stderr, "a recorded device ends before {} of its blocks\n", blocks_.size());
  if (num_seen_ < races_.size()) fmt::print(stderr, "a race that nobody saw: {}\n", races_[num_seen_].text);
  if (blocks_.size() > 0 || num_seen_ < races_.size()) std::abort();
}

const std::vector<Race>& RecordedDevice::races() const {
  num_seen_ = races_.size();
  return races_;
}

Allocation RecordedDevice::allocate(std::size_t bytes, bool pinned) {
  enter();
  if (bytes == 0) return {};
  const std::span<std::byte> block = blocks_.add(bytes, pinned);
  return {block.data(), block.size(), [this](std::byte* data, std::size_t) { give_back(data); }};
}

void RecordedDevice::give_back(const std::byte* data) {
  in_destructor_ = true;
  const std::span<std::byte> bytes = blocks_.find({data, 1})->bytes;
  const std::size_t num_races = races_.size();
  enter();
  const Access all = changes(bytes);
  note_done(begin(kHostActor, "memory is given back", {&all, 1})->number);
  if (late_ && races_.size() > num_races) late_->run_all();  // queued work may access it
  accesses_.forget(bytes);
  blocks_.remove(data);
  in_destructor_ = false;
}

Mark RecordedDevice::mark(Lane lane) {
  enter();
  return Mark(std::make_shared<const Point>(Point{this, actor_of(lane), now_[actor_of(lane)], num_done_}));
}

void RecordedDevice::wait(Lane lane, const Mark& mark) {
  enter();
  if (!mark.empty() && passes(actor_of(lane), point_of(mark))) now_[actor_of(lane)].merge(point_of(mark).clock);
}

bool RecordedDevice::done(const Mark& mark) {
  enter();
  if (mark.empty()) return true;
  const VectorClock& clock = point_of(mark).clock;
  if (options_.far_behind) {
    VectorClock with_mark = now_[kHostActor];
    with_mark.merge(clock);
    return with_mark == now_[kHostActor];
  }
  if (late_ && !late_->done(clock)) late_->run_one();
  if (late_ && !late_->done(clock)) return false;
  now_[kHostActor].merge(clock);
  return true;
}

void RecordedDevice::join(const Mark& mark) {
  enter();
  if (mark.empty() || !passes(kHostActor, point_of(mark))) return;
  if (late_) late_->run_until(point_of(mark).clock);
  now_[kHostActor].merge(point_of(mark).clock);
}

std::optional<std::uint64_t> RecordedDevice::passed_at(const Mark& mark) const {
  const Point& point = point_of(mark);
  std::uint64_t at = point.num_done;
  for (Actor actor = 0; actor < kNumActors; ++actor) {
    const std::uint64_t last = point.clock.of(actor);
    if (last == 0) continue;
    if (done_at_[last - 1] == 0) return {};
    at = std::max(at, done_at_[last - 1]);
  }
  return at;
}

std::optional<double> RecordedDevice::seconds_between(const Mark& earlier, const Mark& later) {
  enter();
  constexpr double kOperationSeconds = 1e-3;
  const std::optional<std::uint64_t> from = passed_at(earlier), to = passed_at(later);
  if (!from || !to) return {};
  return kOperationSeconds * (static_cast<double>(*to) - static_cast<double>(*from));
}

const RecordedDevice::Point& RecordedDevice::point_of(const Mark& mark) const {
  const Point& point = mark.as<Point>();
  ZERO_CHECK(point.device == this, "a mark of another device");
  return point;
}

bool RecordedDevice::passes(Actor waiting, const Point& point) {
  waits_.push_back(fmt::format("{} waits for {} behind operation {}", actor_name(waiting), actor_name(point.lane),
                               point.clock.of(point.lane)));
  return options_.dropped_wait != waits_.size() - 1;
}

void RecordedDevice::copy(Lane lane, std::span<std::byte> to, std::span<const std::byte> from) {
  ZERO_CHECK(to.size() == from.size(), "{} bytes are copied to {}", from.size(), to.size());
  ZERO_CHECK(to.empty() || to.data() + to.size() <= from.data() || from.data() + from.size() <= to.data(),
             "a copy between bytes that overlap");
  const std::array accesses{reads(from), writes(to)};
  const auto operation = begin(actor_of(lane), "copy", accesses);
  if (to.empty()) return note_done(operation->number);
  execute(*operation, [target = blocks_.own(to), source = blocks_.own(from), bytes = to.size()] {
    std::memcpy(target, source, bytes);
  });
}

void RecordedDevice::fill(Lane lane, std::span<std::byte> bytes, std::byte value) {
  const Access access = writes(bytes);
  const auto operation = begin(actor_of(lane), "fill", {&access, 1});
  if (bytes.empty()) return note_done(operation->number);
  execute(*operation, [target = blocks_.own(bytes), size = bytes.size(), value] {
    std::memset(target, std::to_integer<int>(value), size);
  });
}

void RecordedDevice::run(Lane lane, const KernelCall& call) {
  const auto operation = begin(actor_of(lane), fmt::format("kernel {}", call.kernel.name), call.accesses);
  execute(*operation, [this, operation, host = call.kernel.host, parts = parts_of(call.accesses),
                       arguments = std::vector<std::byte>(call.arguments.begin(), call.arguments.end())] {
    OpenedBytes opened(parts);
    host(arguments.data());
    check_named(*operation, opened.close());
  });
}

void RecordedDevice::touches(Lane lane, std::span<const Access> accesses, std::string_view who) {
  opened_by_ = begin(actor_of(lane), std::string(who), accesses);
  if (late_) late_->run_until(opened_by_->clock);
  note_done(opened_by_->number);
  opened_.emplace(parts_of(accesses));
}

void RecordedDevice::host_touches(std::span<const Access> accesses, std::string_view who) {
  std::vector<Access> watched;
  for (const Access& access : accesses) {
    const RecordedBlocks::Block* const block = blocks_.find(access.bytes);
    ZERO_CHECK(block == nullptr || !block->device, "the host itself touches {} ({})", blocks_.text(access.bytes), who);
    if (block != nullptr) watched.push_back(access);
  }
  if (watched.empty()) return enter();
  note_done(begin(kHostActor, std::string(who), watched)->number);
}

void RecordedDevice::enter() {
  if (opened_) {
    const std::byte* const unnamed = opened_->close();
    opened_.reset();
    check_named(*opened_by_, unnamed);
  }
  if (in_destructor_ || options_.on_race == OnRace::kList || num_seen_ == races_.size()) return;
  const std::string& first = races_[num_seen_].text;
  num_seen_ = races_.size();
  throw InternalError(first);
}

std::shared_ptr<const DeviceOperation> RecordedDevice::begin(Actor actor, std::string name,
                                                             std::span<const Access> accesses) {
  enter();
  for (const Access& access : accesses)
    ZERO_CHECK(access.bytes.empty() || blocks_.find(access.bytes) != nullptr,
               "{} of {} touches {}, which is neither device memory nor pinned memory of this device", name,
               actor_name(actor), blocks_.text(access.bytes));
  auto operation = std::make_shared<DeviceOperation>();
  operation->number = clocks_.size() + 1;
  operation->actor = actor;
  operation->name = std::move(name);
  operation->clock = now_[actor];
  operation->clock.merge(now_[kHostActor]);  // the host queues it
  operation->clock.see(actor, operation->number);
  for (const Access& access : accesses) check_order(*operation, access);
  for (const Access& access : accesses) accesses_.record(operation, access);
  now_[actor] = operation->clock;
  clocks_.push_back(operation->clock);
  done_at_.push_back(0);
  return operation;
}

void RecordedDevice::execute(const DeviceOperation& operation, Work work) {
  Work all = [this, number = operation.number, work = std::move(work)] {
    work();
    note_done(number);
  };
  if (late_) {
    late_->add(operation, std::move(all));
  } else {
    all();
  }
}

void RecordedDevice::check_order(const DeviceOperation& operation, const Access& access) {
  if (access.bytes.empty()) return;
  for (const Conflict& conflict : accesses_.conflicts(operation, access)) {
    const DeviceOperation& earlier = *conflict.earlier;
    const std::string waits = actor_name(operation.actor), passed = actor_name(earlier.actor);
    const std::uint64_t seen = operation.clock.of(earlier.actor);
    report({earlier.number, operation.number,
            fmt::format("a race on {}:\n  {} {} them\n  {} {} them\n  {}", blocks_.text(conflict.bytes), place(earlier),
                        verb(!conflict.earlier_writes, conflict.earlier_writes), place(operation),
                        verb(access.reads, access.writes),
                        seen == 0 ? fmt::format("{} has not waited for {}", waits, passed)
                                  : fmt::format("{} has waited for {} as far as operation {}", waits, passed, seen))});
  }
}

std::vector<OpenedBytes::Part> RecordedDevice::parts_of(std::span<const Access> accesses) const {
  std::vector<OpenedBytes::Part> parts;
  for (const Access& access : accesses) {
    const RecordedBlocks::Block* const block = access.bytes.empty() ? nullptr : blocks_.find(access.bytes);
    if (block != nullptr && block->device) parts.push_back({block->device.get(), access.bytes, access.writes});
  }
  return parts;
}

void RecordedDevice::check_named(const DeviceOperation& operation, const std::byte* unnamed) {
  if (unnamed == nullptr) return;
  report({operation.number, operation.number,
          fmt::format("{} wrote {}, which it does not name", place(operation), blocks_.text({unnamed, 1}))});
}

void RecordedDevice::report(Race race) {
  races_.push_back(std::move(race));
  if (options_.on_race == OnRace::kList || in_destructor_) return;
  num_seen_ = races_.size();
  throw InternalError(races_.back().text);
}

}  // namespace zero
