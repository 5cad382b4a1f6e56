// PushHead: the head's control of workers. It counts their events one by one, and decides the servers' next action.
//
//   PushHead head(shared, num_params, PushOrder(plan, workers), /*replayed=*/std::nullopt);
//   for (;;) {
//     while (const auto action = head.next(clock)) ...      // all servers carry it out, the head also
//     if (head.is_over()) break;
//     head.await_event();                                   // a worker pushes, leaves, is lost or returns
//   }
//   head.dismiss();
//
// All servers finish the actions that follow from an event (PushOrder) before the next event counts. A push is granted,
// then taken by all servers, and counts when each has all of it. A lost worker leaves if the plan allows it, and a new
// process can replace it. In a replay, events count in the recorded order (ReplayedPushes), and early workers wait.
// Local: the other servers get orders (ServerTalk). Only the thread that uses the run may call. Throws CommError with
// the worker at fault if the run cannot continue, and ConfigError if a replay differs from the recorded run.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <vector>

#include "zero/plan/served/push_order.h"
#include "zero/serve/push_layout.h"
#include "zero/serve/replayed_pushes.h"
#include "zero/serve/served_clock.h"
#include "zero/serve/server_talk.h"
#include "zero/serve/worker_news.h"
#include "zero/serve/worker_transfers.h"

namespace zero {

class PushHead {
 public:
  // Objects that the head shares with its server. All outlive the head.
  struct Shared {
    Communicator& run;  // workers and servers; it has arrivals()
    const SyncPlan& plan;
    const PushLayout& layout;
    WorkerTransfers& transfers;
    ServerTalk& talk;
    std::vector<ServedWorker>& workers;                  // counts of pushes, by worker
    const std::function<void(const PushEvent&)>& event;  // called with each event before it counts
  };
  // Listens to all workers. `num_params`: parameters of the model. `order`: it has seen no event yet. `replayed`:
  // events that the run repeats.
  PushHead(const Shared& shared, std::size_t num_params, PushOrder order, std::optional<ReplayedPushes> replayed);

  // Return the same as the functions of PushOrder.
  std::optional<PushAction> next(std::int64_t clock) { return order_.next(clock); }
  std::int64_t num_clocks() const { return order_.num_clocks(); }
  bool is_over() const { return order_.is_over(); }
  // Returns true if too few workers are left to continue, and a lost worker may return.
  bool awaits_return() const;
  // Throws CommError if too few workers are left to continue. Called if no return is awaited.
  void require_enough() const;
  // Waits for the next event, and counts it. Also returns when a push begins, which is no event. Also returns if no
  // lost worker has returned within the run's timeout; from then on, no return is awaited.
  void await_event();

  // Sends `answer` to the worker.
  void answer(int worker, const PushAnswer& answer);
  // Tells every remaining worker that the run is over, and waits until all have left.
  void dismiss();
  std::int64_t num_replaced() const { return num_replaced_; }  // workers that returned

 private:
  void take(int worker, News news);
  void grant(int worker);
  void count_push(int worker);
  void forget_push(int worker);
  void lose(int worker);
  void leave(int worker);
  bool may_dismiss(int worker);
  void dismiss(int worker);

  int returning() const;
  bool may_return() const;
  void take_back(int worker);
  void replay_event();
  void replay_push(int worker);
  void replay_leave(int worker);
  void replay_return(const PushEvent& event);

  int num_workers() const { return static_cast<int>(has_ended_.size()); }

  Shared shared_;
  PushOrder order_;
  WorkerNews news_;
  std::optional<ReplayedPushes> replayed_;
  std::vector<bool> has_ended_;  // by worker: true after it left in good order
  std::int64_t num_replaced_ = 0;
  bool gave_up_ = false;  // true: the head no longer waits for replacements
};

}  // namespace zero
