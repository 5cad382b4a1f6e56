#include "zero/serve/worker_news.h"

#include <algorithm>
#include <cstring>

#include <fmt/format.h>

#include "zero/base/error/error.h"
#include "zero/comm/board/arrivals.h"

namespace zero {

WorkerNews::WorkerNews(Communicator& run, const SyncPlan& plan, const PushOrder& order,
                       const WorkerTransfers& transfers, ServerTalk& talk, std::size_t mask_bytes)
    : run_(run),
      plan_(plan),
      order_(order),
      transfers_(transfers),
      talk_(talk),
      mask_bytes_(mask_bytes),
      inboxes_(static_cast<std::size_t>(plan.num_workers(run.world()))) {}

void WorkerNews::listen(int worker) {
  Inbox& inbox = at(worker);
  inbox.message.resize(sizeof(PushHeader) + mask_bytes_);
  inbox.work = run_.receive(inbox.message, plan_.rank_of_worker(worker), {.control = true});
}

News WorkerNews::of(int worker) {
  if (!order_.is_here(worker)) return News::kNone;
  if (is_granted(worker)) {
    const PushState here = transfers_.push(worker), elsewhere = talk_.push_elsewhere(worker);
    if (here == PushState::kBroken || elsewhere == PushState::kBroken) return News::kBroken;
    return here == PushState::kWhole && elsewhere == PushState::kWhole ? News::kWhole : News::kNone;
  }
  const bool lost =
      // Asked before try_complete(): a header that the worker sent before its loss still counts.
      run_.arrivals()->lost(plan_.rank_of_worker(worker));
  if (at(worker).work.try_complete()) return News::kHeader;
  return lost ? News::kLost : News::kNone;
}

int WorkerNews::somebody() {
  const int workers = static_cast<int>(inboxes_.size());
  for (int i = 0; i < workers; ++i) {
    const int worker = (first_asked_ + i) % workers;
    if (of(worker) != News::kNone) return worker;
  }
  return -1;
}

void WorkerNews::await_header(int worker) {
  Work& work = at(worker).work;
  const int rank = plan_.rank_of_worker(worker);
  const auto has_come = [&] { return work.try_complete() || run_.arrivals()->lost(rank); };
  while (!talk_.await(has_come, run_.timeout())) require_running(run_, rank, "push");
  await_message(run_, work, rank);
}

PushHeader WorkerNews::header(int worker) {
  Inbox& inbox = at(worker);
  inbox.work.wait();
  PushHeader header;
  std::memcpy(&header, inbox.message.data(), sizeof header);
  return header;
}

std::span<const std::byte> WorkerNews::mask(int worker) const {
  return std::span(inboxes_[static_cast<std::size_t>(worker)].message).subspan(sizeof(PushHeader));
}

// Returns true if the worker is in the middle of a push, or of reading its weights.
bool WorkerNews::is_within(int worker) const {
  return order_.computes(worker) && (is_granted(worker) || transfers_.sends_to(worker));
}

bool WorkerNews::stands_still() const {
  bool somebody = false;
  for (int worker = 0; worker < std::ssize(inboxes_); ++worker) {
    if (order_.computes(worker) && !is_within(worker)) return false;
    somebody = somebody || is_within(worker);
  }
  return somebody;
}

// A worker may also be late because it waits for a server.
void WorkerNews::name_late() const {
  for (int server = 1; server < plan_.servers; ++server) require_running(run_, server, "order");
  std::vector<int> late = order_.late();
  if (late.empty())
    for (int worker = 0; worker < std::ssize(inboxes_); ++worker)
      if (is_within(worker)) late.push_back(worker);
  const auto within = std::ranges::find_if(late, [this](int worker) { return is_within(worker); });
  const int worker = within == late.end() ? late.front() : *within;
  const int rank = plan_.rank_of_worker(worker);
  const std::string operation = fmt::format("push of clock {}", order_.clock(worker));
  const auto timeout = run_.timeout().count();
  std::string state = run_.arrivals()->known_state(rank);
  if (!state.empty()) state.insert(0, "; ");
  if (is_granted(worker))
    run_.arrivals()->fail(
        rank, operation, fmt::format("it began to send a gradient, and has not continued for {} ms{}", timeout, state));
  if (within != late.end())
    run_.arrivals()->fail(
        rank, operation, fmt::format("it has not continued to read the weights before it for {} ms{}", timeout, state));
  run_.arrivals()->fail(rank, operation,
                        fmt::format("it is absent after {} ms, and other workers wait for it{}", timeout, state));
}

}  // namespace zero
