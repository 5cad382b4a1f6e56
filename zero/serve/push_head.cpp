#include "zero/serve/push_head.h"

#include <chrono>
#include <span>
#include <utility>

#include <fmt/format.h>

#include "zero/base/error/error.h"
#include "zero/base/error/log.h"
#include "zero/comm/board/arrivals.h"

namespace zero {

PushHead::PushHead(const Shared& shared, std::size_t num_params, PushOrder order,
                   std::optional<ReplayedPushes> replayed)
    : shared_(shared),
      order_(std::move(order)),
      news_(shared.run, shared.plan, order_, shared.transfers, shared.talk, mask_bytes(num_params)),
      replayed_(std::move(replayed)),
      has_ended_(static_cast<std::size_t>(shared.plan.num_workers(shared.run.world()))) {
  for (int worker = 0; worker < num_workers(); ++worker) news_.listen(worker);
}

void PushHead::require_enough() const {
  if (!order_.is_stuck()) return;
  throw CommError(-1, "push", fmt::format("too few workers are left for an update after clock {}", num_clocks()));
}

void PushHead::answer(int worker, const PushAnswer& answer) {
  send_message(shared_.run, std::as_bytes(std::span(&answer, 1)), shared_.plan.rank_of_worker(worker));
}

// ---- events -------------------------------------------------------------------------------------------------------

void PushHead::await_event() {
  if (replayed_) return replay_event();
  int back = -1, worker = -1;
  const auto something = [&] { return (back = returning()) >= 0 || (worker = news_.somebody()) >= 0; };
  const bool waits_for_one = awaits_return();
  const auto has_limit = [&] { return waits_for_one || news_.stands_still() || !order_.late().empty(); };
  while (!shared_.talk.await(something, has_limit() ? shared_.run.timeout() : std::chrono::milliseconds(0))) {
    if (!has_limit()) continue;  // a worker has read its weights meanwhile, and computes
    if (!waits_for_one) news_.name_late();
    gave_up_ = true;
    return;
  }
  if (back >= 0) return take_back(back);
  news_.ask_last(worker);
  take(worker, news_.of(worker));
}

void PushHead::take(int worker, News news) {
  switch (news) {
    case News::kNone:
      return;
    case News::kHeader:
      return grant(worker);
    case News::kWhole:
      return count_push(worker);
    case News::kBroken:
      forget_push(worker);
      return lose(worker);
    case News::kLost:
      return lose(worker);
  }
}

void PushHead::grant(int worker) {
  const PushHeader header = news_.header(worker);
  if (header.kind != PushHeader::Kind::kPush) has_ended_[static_cast<std::size_t>(worker)] = true;
  if (header.kind == PushHeader::Kind::kLeave) return leave(worker);
  news_.grant(worker);
  shared_.talk.tell({.kind = ServerOrder::Kind::kTakePush, .worker = worker, .header = header}, news_.mask(worker));
  shared_.transfers.take(worker, header, news_.mask(worker));
  answer(worker, {.kind = PushAnswer::Kind::kSend});
}

void PushHead::count_push(int worker) {
  const PushHeader header = news_.header(worker);
  news_.end_push(worker);
  shared_.transfers.count(worker);
  ServedWorker& counted = shared_.workers[static_cast<std::size_t>(worker)];
  ++counted.pushes;
  counted.pushed_bytes += shared_.layout.push_bytes();
  counted.waited_seconds += header.waited_seconds;
  shared_.event({.worker = worker, .clock = header.clock});
  order_.pushed(worker, header.clock);
  if (header.kind == PushHeader::Kind::kLastPush) return order_.left(worker);
  news_.listen(worker);
}

void PushHead::forget_push(int worker) {
  shared_.talk.forget_push(worker);
  news_.end_push(worker);
  has_ended_[static_cast<std::size_t>(worker)] = false;
}

void PushHead::lose(int worker) {
  const int rank = shared_.plan.rank_of_worker(worker);
  if (!shared_.plan.spares_workers())
    shared_.run.arrivals()->fail(rank, "push", "it left the run, and every clock needs it");
  ZERO_LOG(warn, "rank {} (worker {}) is lost: the run continues without it", rank, worker);
  leave(worker);
}

void PushHead::leave(int worker) {
  shared_.transfers.end_send(worker);
  shared_.event({.worker = worker, .clock = order_.clock(worker), .leaves = true});
  order_.left(worker);
}

// ---- the end ------------------------------------------------------------------------------------------------------

void PushHead::dismiss() {
  int next = -1, last = -1;
  const auto somebody = [&] {
    next = last = -1;
    for (int worker = 0; worker < num_workers(); ++worker) {
      if (!order_.is_here(worker)) continue;
      last = worker;
      if (may_dismiss(worker)) next = worker;
    }
    return next >= 0 || last < 0;
  };
  for (bool told = false;;) {
    if (!shared_.talk.await(somebody, shared_.run.timeout())) {
      if (!std::exchange(told, true))
        ZERO_LOG(warn, "the run has ended, and rank {} (worker {}) has not received that: servers wait for it",
                 shared_.plan.rank_of_worker(last), last);
      continue;
    }
    if (last < 0) return;
    dismiss(next);
  }
}

// Returns true if the worker can be dismissed now. A computing worker is told when its next push begins, and a worker
// within a push after that push. Nobody waits for a lost worker.
bool PushHead::may_dismiss(int worker) {
  return news_.of(worker) != News::kNone || !order_.computes(worker);
}

void PushHead::dismiss(int worker) {
  const News news = news_.of(worker);
  const bool is_gone = news == News::kLost || news == News::kBroken;
  const bool leaves = news == News::kHeader && news_.header(worker).kind == PushHeader::Kind::kLeave;
  const bool was_granted = news_.is_granted(worker);
  const bool was_last = was_granted && news_.header(worker).kind == PushHeader::Kind::kLastPush;
  if (was_granted) forget_push(worker);
  if (!is_gone && !leaves && !was_last) answer(worker, {.kind = PushAnswer::Kind::kOver});
  shared_.transfers.end_send(worker);
  order_.left(worker);
}

}  // namespace zero
