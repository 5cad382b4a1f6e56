#include "zero/plan/served/push_order.h"

#include <algorithm>
#include <limits>

#include "zero/base/error/check.h"

namespace zero {

PushOrder::PushOrder(const SyncPlan& plan, int workers, std::int64_t clock, std::int64_t oldest)
    : plan_(plan),
      workers_(static_cast<std::size_t>(workers)),
      version_(clock),
      oldest_(oldest),
      all_done_(clock),
      num_here_(workers) {
  ZERO_CHECK(0 <= oldest && oldest <= clock, "versions from {} at clock {}", oldest, clock);
  for (Worker& worker : workers_) worker.clock = clock;
}

void PushOrder::pushed(int worker, std::int64_t clock) {
  Worker& who = at(worker);
  ZERO_CHECK(who.here && !who.waits && who.clock == clock, "worker {} pushes clock {} in clock {}", worker, clock,
             who.clock);
  who.pushes.push_back(clock);
  who.read.push_back(who.version);
  ++who.clock;
  who.waits = true;
  arrived_.push_back(worker);
  note_progress();
}

void PushOrder::left(int worker) {
  ZERO_CHECK(at(worker).here, "worker {} leaves twice", worker);
  note_progress();  // an update may have happened since the last event, and no worker may be left after this one
  at(worker).here = false;
  at(worker).waits = false;
  --num_here_;
  note_progress();
}

void PushOrder::returned(int worker) {
  Worker& who = at(worker);
  ZERO_CHECK(!who.here, "worker {} returns, but it did not leave", worker);
  note_progress();
  who.here = true;
  who.waits = true;
  ++num_here_;
  who.clock = std::max(who.clock, applies_each() ? all_done_ : version_);
}

void PushOrder::note_progress() {
  if (num_here_ > 0) all_done_ = std::max(all_done_, slowest());
}

std::optional<PushAction> PushOrder::next(std::int64_t until) {
  if (auto action = drop()) return action;
  if (auto action = update(until)) return action;
  return answer();
}

bool PushOrder::has_push(int worker, std::int64_t clock) const {
  return !at(worker).pushes.empty() && at(worker).pushes.front() == clock;
}

// Moves the worker's oldest push into an action.
void PushOrder::take(int worker, PushAction& action) {
  Worker& who = at(worker);
  action.workers.push_back(worker);
  action.clock = who.pushes.front();
  action.age = std::max(action.age, version_ - who.read.front());
  who.pushes.pop_front();
  who.read.pop_front();
  arrived_.erase(std::ranges::find(arrived_, worker));
}

// Drops a push whose clock was updated without it.
std::optional<PushAction> PushOrder::drop() {
  if (applies_each()) return std::nullopt;
  for (const int worker : arrived_) {
    if (at(worker).pushes.front() >= version_) continue;
    PushAction action{.kind = PushAction::Kind::kDrop, .version = version_};
    take(worker, action);
    return action;
  }
  return std::nullopt;
}

std::optional<PushAction> PushOrder::update(std::int64_t until) {
  if (!applies_each() && version_ >= until) return std::nullopt;
  std::vector<int> first;
  for (const int worker : arrived_) {
    const bool counted = std::ranges::find(first, worker) != first.end();  // a worker may have several pushes here
    if (!counted && (applies_each() || has_push(worker, version_))) first.push_back(worker);
    if (std::ssize(first) == (applies_each() ? 1 : num_needed())) break;
  }
  if (std::ssize(first) < (applies_each() ? 1 : num_needed())) return std::nullopt;
  std::ranges::sort(first);
  PushAction action{.kind = PushAction::Kind::kUpdate, .version = version_};
  for (const int worker : first) take(worker, action);
  ++version_;
  return action;
}

// Returns the lowest clock that a present worker has not had applied yet.
std::int64_t PushOrder::slowest() const {
  std::int64_t slowest = std::numeric_limits<std::int64_t>::max();
  for (const Worker& worker : workers_)
    if (worker.here) slowest = std::min(slowest, worker.pushes.empty() ? worker.clock : worker.pushes.front());
  return slowest;
}

bool PushOrder::may_begin(const Worker& worker) const {
  return (applies_each() ? slowest() : version_) >= worker.clock - plan_.staleness;
}

std::optional<PushAction> PushOrder::answer() {
  for (int worker = 0; worker < std::ssize(workers_); ++worker) {
    Worker& who = at(worker);
    if (!who.waits || !may_begin(who)) continue;
    who.waits = false;
    // A late worker continues with the newest clock.
    if (!applies_each()) who.clock = std::max(who.clock, version_);
    who.version = applies_each() ? version_ : std::max(oldest_, who.clock - plan_.staleness);
    return PushAction{
        .kind = PushAction::Kind::kAnswer, .workers = {worker}, .clock = who.clock, .version = who.version};
  }
  return std::nullopt;
}

std::int64_t PushOrder::num_clocks() const {
  if (!applies_each()) return version_;
  std::int64_t furthest = 0;
  for (const Worker& worker : workers_) furthest = std::max(furthest, worker.clock);
  return is_over() ? furthest : slowest();
}

bool PushOrder::somebody_waits() const {
  return std::ranges::any_of(workers_, [](const Worker& worker) { return worker.here && worker.waits; });
}

std::vector<int> PushOrder::late() const {
  std::vector<int> late;
  if (!somebody_waits()) return late;
  const std::int64_t awaited = applies_each() ? slowest() : version_;
  for (int worker = 0; worker < std::ssize(workers_); ++worker) {
    const Worker& who = at(worker);
    if (who.here && !who.waits && who.pushes.empty() && who.clock <= awaited) late.push_back(worker);
  }
  return late;
}

bool PushOrder::can_go_on() const {
  if (applies_each()) return num_here_ > 0;
  int able = 0;
  for (int worker = 0; worker < std::ssize(workers_); ++worker)
    if (at(worker).here || has_push(worker, version_)) ++able;
  return able >= num_needed();
}

}  // namespace zero
