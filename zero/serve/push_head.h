// PushHead: what the head of the servers does beside its part as a server: it lets the events of workers count, one after
// another, so that all servers can do what follows from each before the next one.
//
//   PushHead head(shared, num_params, PushOrder(plan, workers), /*replayed=*/std::nullopt);
//   for (;;) {
//     while (const auto action = head.next(clock)) ...      // all servers carry it out, this one too
//     if (head.is_over()) break;
//     head.await_event();                                   // a push, a worker that leaves or is lost, one that comes back
//   }
//   head.dismiss();
//
// PushOrder says what follows from events; here is how they come about. Workers are heard (WorkerNews) and answered; a push
// is granted, taken by all servers, and counts when each has all of it. A worker that is lost leaves, where the plan allows
// that. A new process takes its place (zero/comm/replacements.h). In a replay all of this comes in the recorded order
// (ReplayedPushes), and whoever comes early waits.
//
// Local: the other servers hear of it as orders (ServerTalk). Only the thread that uses the run may call. Throws CommError
// where the run cannot go on, with the worker at fault; in a replay ConfigError where the two runs part.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <vector>

#include "zero/plan/push_order.h"
#include "zero/serve/push_layout.h"
#include "zero/serve/replayed_pushes.h"
#include "zero/serve/served_clock.h"
#include "zero/serve/server_talk.h"
#include "zero/serve/worker_news.h"
#include "zero/serve/worker_transfers.h"

namespace zero {

class PushHead {
 public:
  // What it shares with its server. All outlive it.
  struct Shared {
    Communicator& run;  // workers and servers; it has arrivals()
    const SyncPlan& plan;
    const PushLayout& layout;
    WorkerTransfers& transfers;
    ServerTalk& talk;
    std::vector<ServedWorker>& workers;                  // where it counts pushes
    const std::function<void(const PushEvent&)>& event;  // called with each event before it counts
  };
  // Listens to all workers. `num_params`: of the model. `order`: no event has come yet. `replayed`: the run repeats these events.
  PushHead(const Shared& shared, std::size_t num_params, PushOrder order, std::optional<ReplayedPushes> replayed);

  // As PushOrder has them.
  std::optional<PushAction> next(std::int64_t clock) { return order_.next(clock); }
  std::int64_t num_clocks() const { return order_.num_clocks(); }
  bool is_over() const { return order_.is_over(); }
  // Too few workers are there to go on, and one that was lost may come back.
  bool awaits_return() const;
  // Where no return is awaited: CommError if too few workers are there to go on.
  void require_enough() const;
  // Waits for the next event, and lets it count. It returns, too, when a push begins, which is no event; and when no lost
  // worker has come back for the run's timeout: from then on none is awaited.
  void await_event();

  // Sends it.
  void answer(int worker, const PushAnswer& answer);
  // Until every worker that is there has heard that the run is over.
  void dismiss();
  std::int64_t num_replaced() const { return num_replaced_; }  // workers that came back

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
  std::vector<bool> has_ended_;  // by worker: it left in good order
  std::int64_t num_replaced_ = 0;
  bool gave_up_ = false;  // replacements are not waited for any more
};

}  // namespace zero
