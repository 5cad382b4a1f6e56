// PushOrder: decides the next action of the head of the servers, as workers push gradients, leave or are lost.
//
//   PushOrder order(plan, workers);
//   order.pushed(0, 17);                          // worker 0's gradient of clock 17 has arrived completely
//   while (const auto action = order.next()) ...  // carry it out: update, or answer a worker
//   if (order.is_over()) ...                      // all workers have left
//
// Each update makes a new version of the weights, and all servers take the same actions in the same order. So every
// version is one of the whole model, and only this class decides about staleness. An update of several gradients lists
// its workers in ascending order, so the sum does not depend on the order of arrival.
//
// An answer tells a worker which clock it begins and which version it reads. At first every worker waits for an answer.
// With kSync and kStale, version v includes the updates of all clocks below v. With kAsync each gradient is an update.
// Values only: no threads, no clock, no messages.
#pragma once

#include <cstdint>
#include <deque>
#include <limits>
#include <optional>
#include <vector>

#include "zero/plan/served/sync_plan.h"

namespace zero {

struct PushAction {
  enum class Kind : std::uint8_t {
    kUpdate,  // the gradients of `workers`, of `clock`, make the next version
    kDrop,    // the gradient of workers[0], of `clock`, came too late for its update
    kAnswer,  // workers[0] begins `clock`, with the weights of `version`
  };
  Kind kind = Kind::kUpdate;
  std::vector<int> workers;
  std::int64_t clock = 0;
  std::int64_t version = 0;  // kUpdate: the version that the update is applied to
  std::int64_t age = 0;      // kUpdate: updates since the oldest version that these gradients were computed with
  bool operator==(const PushAction&) const = default;
};

// An event of a worker: it pushed the gradient of `clock`, it leaves in `clock`, or its replacement continues with
// `clock`. A run is a function of the order of these events.
struct PushEvent {
  int worker = 0;
  std::int64_t clock = 0;
  bool leaves = false;
  bool returns = false;
  bool operator==(const PushEvent&) const = default;
};

class PushOrder {
 public:
  // Every worker begins with `clock`. `oldest` <= clock is the oldest version that the servers have. In a new run both
  // are 0.
  PushOrder(const SyncPlan& plan, int workers, std::int64_t clock = 0, std::int64_t oldest = 0);

  // Events. pushed(): the worker was answered with `clock`, and has not left.
  void pushed(int worker, std::int64_t clock);
  // The worker will push no more. Its pushes so far still count.
  void left(int worker);
  // A new process replaces a worker that has left. It waits for an answer, and continues with its predecessor's clock.
  // If the others have done that clock, it continues with the first clock that not all have done (with a quorum: the
  // newest). So no clock has two gradients of one worker, num_clocks() never falls, and workers are no more clocks
  // apart than before.
  void returned(int worker);

  // Returns the next action, which must be carried out before the next call. Nothing: no action before another event.
  // With kSync and kStale, clocks from `until` on are not updated.
  std::optional<PushAction> next(std::int64_t until = std::numeric_limits<std::int64_t>::max());

  std::int64_t version() const { return version_; }
  // Returns the number of clocks whose part every present worker has done: the steps of the run.
  std::int64_t num_clocks() const;
  bool is_over() const { return num_here_ == 0; }
  bool is_here(int worker) const { return at(worker).here; }
  // Returns the clock that the worker computes, or will begin.
  std::int64_t clock(int worker) const { return at(worker).clock; }
  // Returns whether the worker was answered, and has not pushed since.
  bool computes(int worker) const { return at(worker).here && !at(worker).waits; }
  // Returns the workers that others wait for; empty if no worker waits.
  std::vector<int> late() const;
  // Returns whether enough workers are left for another update.
  bool can_go_on() const;
  // Returns whether too few workers are left, and some of those wait for an update. More workers may still leave.
  bool is_stuck() const { return somebody_waits() && !can_go_on(); }

 private:
  struct Worker {
    bool here = true;
    bool waits = true;                // for an answer
    std::int64_t clock = 0;           // the clock that it computes, or will begin
    std::int64_t version = 0;         // the version that it computes with
    std::deque<std::int64_t> pushes;  // clocks that are not applied yet, in order
    std::deque<std::int64_t> read;    // versions that the pushes were computed with
  };

  bool applies_each() const { return plan_.mode == SyncMode::kAsync; }
  bool somebody_waits() const;
  int num_needed() const { return plan_.quorum > 0 ? plan_.quorum : static_cast<int>(workers_.size()); }
  Worker& at(int worker) { return workers_[static_cast<std::size_t>(worker)]; }
  const Worker& at(int worker) const { return workers_[static_cast<std::size_t>(worker)]; }
  bool has_push(int worker, std::int64_t clock) const;
  std::int64_t slowest() const;
  bool may_begin(const Worker& worker) const;
  void take(int worker, PushAction& action);
  std::optional<PushAction> drop();
  std::optional<PushAction> update(std::int64_t until);
  std::optional<PushAction> answer();
  void note_progress();

  SyncPlan plan_;
  std::vector<Worker> workers_;
  std::deque<int> arrived_;  // a worker for each push, in the order of arrival
  std::int64_t version_;
  std::int64_t oldest_;
  std::int64_t all_done_;  // the most clocks that all workers present at that time had done
  int num_here_;
};

}  // namespace zero
