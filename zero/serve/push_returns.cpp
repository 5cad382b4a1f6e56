// The part of PushHead for workers that return, and for replays.
#include <algorithm>

#include "zero/base/error/log.h"
#include "zero/comm/board/arrivals.h"
#include "zero/serve/push_head.h"

namespace zero {

// ---- workers that return -------------------------------------------------------------------------------------------

// Returns a lost worker whose new process waits; -1: none.
int PushHead::returning() const {
  Replacements* const replacements = shared_.run.arrivals()->replacements();
  if (replacements == nullptr) return -1;
  RankSet lost = 0;
  for (int worker = 0; worker < num_workers(); ++worker)
    if (!order_.is_here(worker)) lost |= only(shared_.plan.rank_of_worker(worker));
  const int rank = lost == 0 ? -1 : replacements->waiting(lost);
  return rank < 0 ? -1 : shared_.plan.worker_of(rank);
}

// Returns true if a lost worker may return. A replay knows from its events whether one does.
bool PushHead::may_return() const {
  if (replayed_) return replayed_->somebody_returns();
  Replacements* const replacements = shared_.run.arrivals()->replacements();
  if (replacements == nullptr || gave_up_ || num_replaced_ >= replacements->most()) return false;
  for (int worker = 0; worker < num_workers(); ++worker)
    if (!order_.is_here(worker) && !has_ended_[static_cast<std::size_t>(worker)]) return true;
  return false;
}

// If a worker left in good order, it reached the end of the run. Then the run is over, and no return is awaited.
bool PushHead::awaits_return() const {
  const bool somebody_ended = std::ranges::find(has_ended_, true) != has_ended_.end();
  return ((order_.is_over() && !somebody_ended) || order_.is_stuck()) && may_return();
}

void PushHead::take_back(int worker) {
  Replacements& replacements = *shared_.run.arrivals()->replacements();
  const int rank = shared_.plan.rank_of_worker(worker);
  replacements.introduce(rank, first_ranks(shared_.plan.servers) & ~only(0));
  shared_.talk.tell({.kind = ServerOrder::Kind::kTakeBack, .worker = worker, .has_new_process = 1});
  shared_.talk.await_done(shared_.run.timeout());
  shared_.transfers.start_anew(worker);
  replacements.take_back(rank);
  replacements.let_in(rank);
  ++num_replaced_;
  if (has_ended_[static_cast<std::size_t>(worker)]) return answer(worker, {.kind = PushAnswer::Kind::kOver});
  order_.returned(worker);
  shared_.event({.worker = worker, .clock = order_.clock(worker), .returns = true});
  news_.listen(worker);
  ZERO_LOG(warn, "rank {} (worker {}) is back in a new process: it continues with clock {}", rank, worker,
           order_.clock(worker));
}

// ---- replay -------------------------------------------------------------------------------------------------------

void PushHead::replay_event() {
  const PushEvent event = replayed_->next(order_);
  if (event.returns) return replay_return(event);
  if (order_.computes(event.worker)) {
    news_.await_header(event.worker);
    replayed_->require_clock(event, news_.header(event.worker).clock);
  }
  event.leaves ? replay_leave(event.worker) : replay_push(event.worker);
}

// Takes the push of the worker whose turn it is. No other push is taken meanwhile.
void PushHead::replay_push(int worker) {
  grant(worker);
  if (!order_.is_here(worker)) return;  // it left
  if (!shared_.talk.await([&] { return news_.of(worker) != News::kNone; }, shared_.run.timeout())) news_.name_late();
  take(worker, news_.of(worker));
}

// A worker that returns later in the log stays in this run: it only drops the gradient that it has computed since.
void PushHead::replay_leave(int worker) {
  const bool computes = order_.computes(worker);
  const bool returns = replayed_->returns(worker);
  if (returns && computes) {
    answer(worker, {.kind = PushAnswer::Kind::kAgain});
    news_.listen(worker);
  } else if (!returns && (!computes || news_.header(worker).kind != PushHeader::Kind::kLeave)) {
    answer(worker, {.kind = PushAnswer::Kind::kOver});
  }
  leave(worker);
}

void PushHead::replay_return(const PushEvent& event) {
  order_.returned(event.worker);
  replayed_->require_clock(event, order_.clock(event.worker));
  shared_.event(event);
  shared_.talk.tell({.kind = ServerOrder::Kind::kTakeBack, .worker = event.worker});
  shared_.talk.await_done(shared_.run.timeout());
  shared_.transfers.start_anew(event.worker);
}

}  // namespace zero
