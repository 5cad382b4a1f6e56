// Of PushServer: workers that come back, and runs that are replayed.
#include <algorithm>

#include <fmt/format.h>

#include "zero/base/error.h"
#include "zero/base/log.h"
#include "zero/comm/arrivals.h"
#include "zero/serve/push_server.h"

namespace zero {

// ---- workers that come back ---------------------------------------------------------------------------------------

// A worker whose new process waits; -1: none.
int PushServer::returning() const {
  Replacements* const replacements = run_.arrivals()->replacements();
  if (replacements == nullptr) return -1;
  RankSet lost = 0;
  for (int worker = 0; worker < num_workers(); ++worker)
    if (!order_->is_here(worker)) lost |= only(plan_.rank_of_worker(worker));
  const int rank = lost == 0 ? -1 : replacements->waiting(lost);
  return rank < 0 ? -1 : plan_.worker_of(rank);
}

// A replayed run knows who does.
bool PushServer::may_return() const {
  if (turns_) return std::ranges::any_of(*turns_, &PushEvent::returns);
  Replacements* const replacements = run_.arrivals()->replacements();
  if (replacements == nullptr || gave_up_ || num_replaced_ >= replacements->most()) return false;
  for (int worker = 0; worker < num_workers(); ++worker)
    if (!order_->is_here(worker) && !has_ended_[static_cast<std::size_t>(worker)]) return true;
  return false;
}

// Too few are there, and one that was lost may come back. Where one has come to its end the run has, too.
bool PushServer::awaits_return() const {
  const bool somebody_ended = std::ranges::find(has_ended_, true) != has_ended_.end();
  return ((order_->is_over() && !somebody_ended) || order_->is_stuck()) && may_return();
}

void PushServer::take_back(int worker) {
  Replacements& replacements = *run_.arrivals()->replacements();
  const int rank = plan_.rank_of_worker(worker);
  replacements.introduce(rank, first_ranks(plan_.servers) & ~only(0));
  tell({.kind = ServerOrder::Kind::kTakeBack, .worker = worker, .has_new_process = 1});
  await_done(run_.timeout());
  start_anew(worker);
  replacements.take_back(rank);
  replacements.let_in(rank);
  ++num_replaced_;
  if (has_ended_[static_cast<std::size_t>(worker)]) return send_answer(worker, {.kind = PushAnswer::Kind::kOver});
  order_->returned(worker);
  log_.event({.worker = worker, .clock = order_->clock(worker), .returns = true});
  listen(worker);
  ZERO_LOG(warn, "rank {} (worker {}) is back in a new process: it goes on with clock {}", rank, worker,
           order_->clock(worker));
}

// It has none of the weights, and its predecessor reads nothing any more.
void PushServer::start_anew(int worker) {
  transfers_.end_send(worker);
  sent_version_[static_cast<std::size_t>(worker)] = -1;
}

// ---- replay -------------------------------------------------------------------------------------------------------

void PushServer::await_turn() {
  if (turns_->empty())
    throw ConfigError("--replay", fmt::format("clock {}", num_clocks_),
                      "all events of the log have come, and the run is not over",
                      "replay the whole log, with the run's own configuration");
  const PushEvent turn = turns_->front();
  turns_->pop_front();
  if (turn.returns) return replay_return(turn);
  const bool known = turn.worker >= 0 && turn.worker < num_workers() && order_->is_here(turn.worker);
  Inbox* const inbox = known ? &inboxes_[static_cast<std::size_t>(turn.worker)] : nullptr;
  const bool computes = known && order_->computes(turn.worker);
  if (computes) {
    const int rank = plan_.rank_of_worker(turn.worker);
    await([&] { return inbox->work.try_complete() || run_.arrivals()->lost(rank); });
    await_message(run_, inbox->work, rank);
  }
  if (!known || (computes && inbox->header().clock != turn.clock) || (!computes && !turn.leaves))
    throw ConfigError("--replay", fmt::format("worker {}, clock {}", turn.worker, turn.clock),
                      "this run has come to another event", "replay the log with the run's own configuration");
  turn.leaves ? replay_leave(turn) : replay_push(turn.worker);
}

// It is taken when its turn has come, and no other is meanwhile.
void PushServer::replay_push(int worker) {
  grant(worker);
  if (!order_->is_here(worker)) return;  // it left
  if (!await([&] { return news_of(worker) != News::kNone; }, run_.timeout())) name_late();
  take(worker, news_of(worker));
}

// One that is to come back stays: it drops what it has computed since.
void PushServer::replay_leave(const PushEvent& turn) {
  const int worker = turn.worker;
  Inbox& inbox = inboxes_[static_cast<std::size_t>(worker)];
  const bool computes = order_->computes(worker);
  const bool returns = std::ranges::any_of(
      *turns_, [worker](const PushEvent& later) { return later.worker == worker && later.returns; });
  if (returns && computes) {
    send_answer(worker, {.kind = PushAnswer::Kind::kAgain});
    listen(worker);
  } else if (!returns && (!computes || inbox.header().kind != PushHeader::Kind::kLeave)) {
    send_answer(worker, {.kind = PushAnswer::Kind::kOver});
  }
  leave(worker);
}

void PushServer::replay_return(const PushEvent& turn) {
  const bool known = turn.worker >= 0 && turn.worker < num_workers() && !order_->is_here(turn.worker);
  if (known) order_->returned(turn.worker);
  if (!known || order_->clock(turn.worker) != turn.clock)
    throw ConfigError("--replay", fmt::format("worker {} returns to clock {}", turn.worker, turn.clock),
                      "this run has come to another event", "replay the log with the run's own configuration");
  log_.event(turn);
  tell({.kind = ServerOrder::Kind::kTakeBack, .worker = turn.worker});
  await_done(run_.timeout());
  start_anew(turn.worker);
}

}  // namespace zero
