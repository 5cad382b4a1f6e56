// PushOrder: what the head of the servers does next, as workers push gradients, leave or are lost. Values in, values out:
// no threads, no clock, no messages.
//
//   PushOrder order(plan, workers);
//   order.pushed(0, 17);                          // worker 0's gradient of clock 17 is here, whole
//   while (const auto action = order.next()) ...  // carry it out: update, or answer a worker
//   if (order.is_over()) ...                      // all workers have left
//
// The weights have one version after each update, and all servers take the same actions in the same order. So every
// version is one of the whole model, and staleness is decided here alone. Of an update of several gradients the workers
// are in ascending order: the sum does not depend on who came first.
//
// A worker is answered with the clock that it begins and the version that it reads. At first every worker waits for such
// an answer. With kSync and kStale version v is what the updates of all clocks below v have made; with kAsync an update
// is a worker's own.
#pragma once

#include <cstdint>
#include <deque>
#include <limits>
#include <optional>
#include <vector>

#include "zero/plan/sync_plan.h"

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
  std::int64_t version = 0;  // kUpdate: that it is applied to
  std::int64_t age = 0;      // kUpdate: updates since the weights that the oldest of these gradients was computed with
  bool operator==(const PushAction&) const = default;
};

// What has happened to a worker: a push of `clock`, that it leaves in `clock`, or that it is there again and goes on with
// `clock`. A run is a function of the order of these.
struct PushEvent {
  int worker = 0;
  std::int64_t clock = 0;
  bool leaves = false;
  bool returns = false;
  bool operator==(const PushEvent&) const = default;
};

class PushOrder {
 public:
  // Every worker begins with `clock`; `oldest` <= clock is the first version that servers have (of a new run 0 both).
  PushOrder(const SyncPlan& plan, int workers, std::int64_t clock = 0, std::int64_t oldest = 0);

  // Events. Of a worker that has been answered with `clock`, and has not left.
  void pushed(int worker, std::int64_t clock);
  // It pushes no more. What it has pushed counts.
  void left(int worker);
  // A new process is there for a worker that has left. It waits for an answer, and goes on with the clock that its
  // predecessor was in, or where the others have done that clock, with the first that not all of them have done (a quorum:
  // the newest). So no clock has two gradients of one worker, num_clocks() never falls, and workers part by no more clocks
  // than before.
  void returned(int worker);

  // Carried out before the next is asked for. Empty: there is nothing to do before another event. With kSync and kStale no
  // clock from `until` on is updated.
  std::optional<PushAction> next(std::int64_t until = std::numeric_limits<std::int64_t>::max());

  std::int64_t version() const { return version_; }
  // Clocks of which every worker that is there has done its part: the steps of the run.
  std::int64_t num_clocks() const;
  bool is_over() const { return num_here_ == 0; }
  bool is_here(int worker) const { return at(worker).here; }
  // That it computes, or will begin.
  std::int64_t clock(int worker) const { return at(worker).clock; }
  // It was answered, and has not pushed since.
  bool computes(int worker) const { return at(worker).here && !at(worker).waits; }
  // Workers that others wait for; empty where nobody waits.
  std::vector<int> late() const;
  // Enough workers are left for another update.
  bool can_go_on() const;
  // There are not, and some that are there wait for one. Others may still leave, too.
  bool is_stuck() const { return somebody_waits() && !can_go_on(); }

 private:
  struct Worker {
    bool here = true;
    bool waits = true;                // for an answer
    std::int64_t clock = 0;           // that it computes, or will begin
    std::int64_t version = 0;         // that it computes with
    std::deque<std::int64_t> pushes;  // clocks, in order; not applied yet
    std::deque<std::int64_t> read;    // the versions that they were computed with
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
  std::deque<int> arrived_;  // workers, a push each, in the order in which these came
  std::int64_t version_;
  std::int64_t oldest_;
  std::int64_t all_done_;  // the most clocks that all who were there had done
  int num_here_;
};

}  // namespace zero
