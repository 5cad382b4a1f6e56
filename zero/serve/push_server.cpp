#include "zero/serve/push_server.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <utility>

#include <fmt/format.h>

#include "zero/base/bytes.h"
#include "zero/base/check.h"
#include "zero/base/error.h"
#include "zero/base/log.h"
#include "zero/comm/arrivals.h"
#include "zero/memory/host_memory.h"

namespace zero {
namespace {

template <typename T>
std::span<std::byte> bytes_of(T& value) {
  return std::as_writable_bytes(std::span(&value, 1));
}

RankSet set_of(const std::vector<int>& workers) {
  RankSet set = 0;
  for (const int worker : workers) set |= only(worker);
  return set;
}

std::vector<int> listed(RankSet set) {
  std::vector<int> workers;
  for (int worker = 0; worker < kMaxBoardRanks; ++worker)
    if ((set & only(worker)) != 0) workers.push_back(worker);
  return workers;
}

}  // namespace

PushHeader PushServer::Inbox::header() const {
  PushHeader header;
  std::memcpy(&header, message.data(), sizeof header);
  return header;
}

PushServer::PushServer(Engine& engine, Communicator& run, const EngineOptions& options)
    : engine_(engine),
      run_(run),
      plan_(options.sync),
      micro_batches_(options.average_micro_batches ? options.accumulate : 1),
      layout_(engine.units(), options),
      pushed_(layout_, run.rank(), plan_.num_workers(run.world()), engine.resources().ledger),
      versions_(engine, plan_.num_versions(), engine.resources().copy),
      sent_version_(static_cast<std::size_t>(num_workers()), -1),
      has_ended_(static_cast<std::size_t>(num_workers())),
      workers_(has_ended_.size()) {
  if (plan_.compensation > 0) pulled_.emplace(num_workers(), versions_.bytes_each(), engine.resources().ledger);
}

void PushServer::begin(std::int64_t clock) {
  versions_.keep(clock);
  num_clocks_ = clock;
  if (!is_head()) return;
  order_.emplace(plan_, num_workers(), clock, versions_.numbers().front());
  inboxes_.resize(static_cast<std::size_t>(num_workers()));
  for (int worker = 0; worker < num_workers(); ++worker) listen(worker);
}

// The worker's next push, whenever it comes.
void PushServer::listen(int worker) {
  Inbox& inbox = inboxes_[static_cast<std::size_t>(worker)];
  inbox.message.resize(sizeof(PushHeader) + mask_bytes(engine_.specs().size()));
  inbox.work = run_.receive(inbox.message, plan_.rank_of_worker(worker), {.control = true});
}

ServedClock PushServer::serve(std::int64_t clock, const UpdateRules& rules) {
  ServedClock served;
  const std::int64_t replaced_before = num_replaced_;
  is_head() ? lead(clock, rules, served) : follow(rules, served);
  served.replaced = num_replaced_ - replaced_before;
  served.workers = std::exchange(workers_, std::vector<ServedWorker>(workers_.size()));
  if (served.updates > 0) {
    const auto updates = static_cast<double>(served.updates);
    served.loss /= updates;
    served.mean_age /= updates;
  }
  return served;
}

void PushServer::lead(std::int64_t clock, const UpdateRules& rules, ServedClock& served) {
  for (;;) {
    while (const std::optional<PushAction> action = order_->next(clock)) {
      log_.action(*action);
      tell({.kind = ServerOrder::Kind::kCarryOut,
            .action = static_cast<std::int32_t>(action->kind),
            .workers = set_of(action->workers),
            .clock = action->clock,
            .version = action->version,
            .age = action->age});
      carry_out(*action, rules, served);
    }
    if (!awaits_return()) {  // while nobody is there, the clocks that all have done are not known
      num_clocks_ = order_->num_clocks();
      is_over_ = order_->is_over();
      if (num_clocks_ >= clock || is_over_) break;
      require_enough();
    }
    await_event();
  }
  tell({.kind = ServerOrder::Kind::kReturn, .is_over = is_over_ ? 1 : 0, .clock = num_clocks_});
}

void PushServer::follow(const UpdateRules& rules, ServedClock& served) {
  for (;;) {
    ServerOrder order;
    Work work = run_.receive(bytes_of(order), 0, {.control = true});
    await_message(run_, work, 0);
    switch (order.kind) {
      case ServerOrder::Kind::kTakePush: {
        std::vector<std::byte> mask(mask_bytes(engine_.specs().size()));
        run_.receive(mask, 0, {.control = true}).wait();
        all_have(receive_push(order.worker, order.header, mask));
        break;
      }
      case ServerOrder::Kind::kForgetPush:
        pushed_.drop_newest(order.worker);
        break;
      case ServerOrder::Kind::kCarryOut:
        carry_out({.kind = static_cast<PushAction::Kind>(order.action),
                   .workers = listed(order.workers),
                   .clock = order.clock,
                   .version = order.version,
                   .age = order.age},
                  rules, served);
        break;
      case ServerOrder::Kind::kTakeBack:
        if (order.has_new_process != 0) run_.arrivals()->replacements()->take_back(plan_.rank_of_worker(order.worker));
        start_anew(order.worker);
        all_have(true);
        break;
      case ServerOrder::Kind::kReturn:
        num_clocks_ = order.clock;
        is_over_ = order.is_over != 0;
        return;
    }
  }
}

void PushServer::tell(const ServerOrder& order, std::span<const std::byte> more) {
  for (int server = 1; server < plan_.servers; ++server) {
    send_message(run_, std::as_bytes(std::span(&order, 1)), server);
    if (!more.empty()) send_message(run_, more, server);
  }
}

// ---- pushes -------------------------------------------------------------------------------------------------------

// One at a time: what follows from an event is done before the next one counts.
void PushServer::await_event() {
  if (!turns_.empty()) return await_turn();
  Arrivals& arrivals = *run_.arrivals();
  int found = -1, back = -1;
  const auto something = [&] {
    if ((back = returning()) >= 0) return true;
    for (int i = 0; i < num_workers(); ++i) {
      const int worker = (first_asked_ + i) % num_workers();
      if (!order_->is_here(worker)) continue;
      if (!inboxes_[static_cast<std::size_t>(worker)].work.try_complete() &&
          !arrivals.lost(plan_.rank_of_worker(worker)))
        continue;
      found = worker;
      return true;
    }
    return false;
  };
  const std::vector<int> late = order_->late();
  const bool waits_for_one = awaits_return();
  const bool has_limit = waits_for_one || !late.empty();
  if (!arrivals.await(something, has_limit ? run_.timeout() : std::chrono::milliseconds(0))) {
    if (waits_for_one) {
      gave_up_ = true;
      return;
    }
    throw CommError(plan_.rank_of_worker(late.front()), fmt::format("push of clock {}", order_->num_clocks()),
                    fmt::format("it is not there after {} ms, and other workers wait for it", run_.timeout().count()));
  }
  if (back >= 0) return take_back(back);
  first_asked_ = (found + 1) % num_workers();
  inboxes_[static_cast<std::size_t>(found)].work.try_complete() ? take_push(found) : lose(found);
}

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
  if (!turns_.empty()) return std::ranges::any_of(turns_, &PushEvent::returns);
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
  all_have(true);
  replacements.take_back(rank);
  start_anew(worker);
  replacements.let_in(rank);
  ++num_replaced_;
  if (has_ended_[static_cast<std::size_t>(worker)]) return send_answer(worker, {.kind = PushAnswer::Kind::kOver});
  order_->returned(worker);
  log_.event({.worker = worker, .clock = order_->clock(worker), .returns = true});
  listen(worker);
  ZERO_LOG(warn, "rank {} (worker {}) is back in a new process: it goes on with clock {}", rank, worker,
           order_->clock(worker));
}

// It has none of the weights.
void PushServer::start_anew(int worker) {
  sent_version_[static_cast<std::size_t>(worker)] = -1;
}

// ---- replay -------------------------------------------------------------------------------------------------------

void PushServer::await_turn() {
  const PushEvent turn = turns_.front();
  turns_.pop_front();
  if (turn.returns) return replay_return(turn);
  const bool known = turn.worker >= 0 && turn.worker < num_workers() && order_->is_here(turn.worker);
  Inbox* const inbox = known ? &inboxes_[static_cast<std::size_t>(turn.worker)] : nullptr;
  const bool computes = known && order_->computes(turn.worker);
  if (computes) await_message(run_, inbox->work, plan_.rank_of_worker(turn.worker));
  if (!known || (computes && inbox->header().clock != turn.clock) || (!computes && !turn.leaves))
    throw ConfigError("--replay", fmt::format("worker {}, clock {}", turn.worker, turn.clock),
                      "this run has come to another event", "replay the log with the run's own configuration");
  turn.leaves ? replay_leave(turn) : take_push(turn.worker);
}

// One that is to come back stays: it drops what it has computed since.
void PushServer::replay_leave(const PushEvent& turn) {
  const int worker = turn.worker;
  Inbox& inbox = inboxes_[static_cast<std::size_t>(worker)];
  const bool computes = order_->computes(worker);
  const bool returns =
      std::ranges::any_of(turns_, [worker](const PushEvent& later) { return later.worker == worker && later.returns; });
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
  all_have(true);
  start_anew(turn.worker);
}

// ---- pushes, taken ------------------------------------------------------------------------------------------------

void PushServer::leave(int worker) {
  log_.event({.worker = worker, .clock = order_->clock(worker), .leaves = true});
  order_->left(worker);
}

void PushServer::take_push(int worker) {
  Inbox& inbox = inboxes_[static_cast<std::size_t>(worker)];
  inbox.work.wait();
  const PushHeader header = inbox.header();
  if (header.kind != PushHeader::Kind::kPush) has_ended_[static_cast<std::size_t>(worker)] = true;
  if (header.kind == PushHeader::Kind::kLeave) return leave(worker);
  const std::span<const std::byte> mask = std::span(inbox.message).subspan(sizeof header);
  tell({.kind = ServerOrder::Kind::kTakePush, .worker = worker, .header = header}, mask);
  send_answer(worker, {.kind = PushAnswer::Kind::kSend});
  if (!all_have(receive_push(worker, header, mask))) {
    tell({.kind = ServerOrder::Kind::kForgetPush, .worker = worker});
    pushed_.drop_newest(worker);
    has_ended_[static_cast<std::size_t>(worker)] = false;
    return lose(worker);
  }
  ServedWorker& counted = workers_[static_cast<std::size_t>(worker)];
  ++counted.pushes;
  counted.pushed_bytes += layout_.push_bytes();
  counted.waited_seconds += header.waited_seconds;
  log_.event({.worker = worker, .clock = header.clock});
  order_->pushed(worker, header.clock);
  if (header.kind == PushHeader::Kind::kLastPush) return order_->left(worker);
  listen(worker);
}

// False: the worker was lost before it had sent all of it.
bool PushServer::receive_push(int worker, const PushHeader& header, std::span<const std::byte> mask) {
  Arrivals& arrivals = *run_.arrivals();
  const int from = plan_.rank_of_worker(worker);
  std::byte* const push = pushed_.begin(worker, header, unpack_mask(mask, engine_.specs().size()));
  for (const Unit& unit : layout_.units()) {
    const std::span<std::byte> part = unit.trainable ? pushed_.part(push, unit) : std::span<std::byte>();
    if (part.empty()) continue;
    Work work = run_.receive(part, from, {.unit = unit.index});
    bool came = false;
    const bool in_time =
        arrivals.await([&] { return (came = work.try_complete()) || arrivals.lost(from); }, run_.timeout());
    if (!in_time) throw CommError(from, "push", "it has begun to send a gradient, and does not go on");
    if (!came && !work.try_complete()) return false;
    work.wait();
  }
  return true;
}

// Whether every server has the whole push: on the head; the others only say so.
bool PushServer::all_have(bool mine) {
  std::byte has{mine};
  if (!is_head()) {
    send_message(run_, bytes_of(has), 0);
    return mine;
  }
  for (int server = 1; server < plan_.servers; ++server) {
    run_.receive(bytes_of(has), server, {.control = true}).wait();
    mine = mine && has != std::byte{0};
  }
  return mine;
}

void PushServer::lose(int worker) {
  const int rank = plan_.rank_of_worker(worker);
  if (plan_.mode != SyncMode::kAsync && plan_.quorum == 0)
    throw CommError(rank, "push", "it left the run, and no clock is whole without it");
  ZERO_LOG(warn, "rank {} (worker {}) is lost: the run goes on without it", rank, worker);
  leave(worker);
}

void PushServer::require_enough() const {
  if (!order_->is_stuck()) return;
  throw CommError(-1, "push", fmt::format("too few workers are left for an update after clock {}", num_clocks_));
}

// ---- actions ------------------------------------------------------------------------------------------------------

void PushServer::carry_out(const PushAction& action, const UpdateRules& rules, ServedClock& served) {
  switch (action.kind) {
    case PushAction::Kind::kUpdate:
      return update(action, rules, served);
    case PushAction::Kind::kDrop:
      pushed_.drop_oldest(action.workers.front());
      ++served.dropped;
      ++workers_[static_cast<std::size_t>(action.workers.front())].dropped;
      return;
    case PushAction::Kind::kAnswer:
      return answer(action);
  }
}

void PushServer::update(const PushAction& action, const UpdateRules& rules, ServedClock& served) {
  double loss = 0;
  bool has_loss = true;
  for (const int worker : action.workers) {
    loss += pushed_.oldest(worker).loss;
    has_loss = has_loss && pushed_.oldest(worker).has_loss != 0;
  }
  loss /= static_cast<double>(action.workers.size());
  double lr = rules.lr ? rules.lr(action.clock) : pushed_.oldest(action.workers.front()).lr;
  if (plan_.mode == SyncMode::kAsync) lr /= std::pow(1.0 + static_cast<double>(action.age), plan_.stale_lr);
  compensate(action);
  const GivenGradients sum = pushed_.sum_of(action.workers, micro_batches_);
  const StepReport report = engine_.served().apply(sum, lr, has_loss ? rules.limits(loss) : StepLimits{});
  for (const int worker : action.workers) {
    pushed_.drop_oldest(worker);
    ServedWorker& counted = workers_[static_cast<std::size_t>(worker)];
    ++counted.applied;
    counted.sum_of_ages += action.age;
    counted.most_age = std::max(counted.most_age, action.age);
  }
  run_.drain();  // a worker may still read the version that goes
  versions_.keep(action.version + 1);
  last_ = report;
  if (!served.report.skipped) served.report = report;
  served.loss = (served.updates == 0 ? 0 : served.loss) + loss;
  ++served.updates;
  served.mean_age += static_cast<double>(action.age);
  served.most_age = std::max(served.most_age, action.age);
}

// A push is the mean gradient times its number of micro-batches, and the rule is one of the mean.
void PushServer::compensate(const PushAction& action) {
  if (!pulled_ || action.age == 0) return;
  const auto lambda = static_cast<float>(plan_.compensation / micro_batches_);
  for (const int worker : action.workers) {
    for (const Unit& unit : layout_.units()) {
      if (!unit.trainable) continue;
      const std::span<std::byte> gradient = pushed_.oldest_part(worker, unit);
      const DType dtype = layout_.gradient_dtype(unit);
      zero::compensate(gradient.data(), dtype, versions_.shard(action.version, unit.index).data(),
                       versions_.part(pulled_->of(worker), unit.index).data(), unit.dtype,
                       static_cast<std::int64_t>(gradient.size() / size_of(dtype)), lambda);
    }
  }
}

void PushServer::answer(const PushAction& action) {
  const int worker = action.workers.front();
  std::int64_t& sent = sent_version_[static_cast<std::size_t>(worker)];
  const bool first = sent < 0, changed = sent != action.version;
  sent = action.version;
  if (is_head())
    send_answer(worker, {.kind = PushAnswer::Kind::kBegin,
                         .weights = !changed ? PushAnswer::Weights::kNone
                                    : first  ? PushAnswer::Weights::kAll
                                             : PushAnswer::Weights::kTrained,
                         .clock = action.clock,
                         .version = action.version,
                         .updates = last_.step,
                         .grad_norm = last_.grad_norm,
                         .loss = last_.loss,
                         .skipped = last_.skipped ? 1 : 0,
                         .reason = static_cast<std::int32_t>(last_.reason),
                         .configuration = configuration_});
  if (changed) send_weights(worker, action.version, first);
  if (changed && pulled_) pulled_->keep(worker, versions_.kept(action.version));
}

void PushServer::send_answer(int worker, const PushAnswer& answer) {
  send_message(run_, std::as_bytes(std::span(&answer, 1)), plan_.rank_of_worker(worker));
}

void PushServer::send_weights(int worker, std::int64_t version, bool all) {
  std::vector<std::vector<std::byte>> frozen;  // until they are read
  const int to = plan_.rank_of_worker(worker);
  for (const Unit& unit : layout_.units()) {
    const auto bytes = static_cast<std::size_t>(layout_.weight_bytes(unit, run_.rank()));
    if (bytes == 0 || (!all && !unit.trainable)) continue;
    std::span<const std::byte> shard;
    if (unit.trainable) {
      shard = versions_.shard(version, unit.index);
    } else {
      std::vector<std::byte>& copy =
          frozen.emplace_back(static_cast<std::size_t>(shard_numel(unit, plan_.servers)) * size_of(unit.dtype));
      engine_.served().read_parameter_shard(unit.index, copy.data());
      shard = copy;
    }
    run_.send(shard.first(bytes), to, {.unit = unit.index}).wait();
  }
  if (!frozen.empty()) run_.drain();
}

// A worker that computes comes with its push, and is told then. Nobody waits for one that is lost.
void PushServer::dismiss() {
  if (!is_head()) {
    ServedClock nothing;
    return follow({}, nothing);
  }
  Arrivals& arrivals = *run_.arrivals();
  for (int worker = 0; worker < num_workers(); ++worker) {
    if (!order_->is_here(worker)) continue;
    const int rank = plan_.rank_of_worker(worker);
    Inbox& inbox = inboxes_[static_cast<std::size_t>(worker)];
    bool leaves = false;
    if (order_->computes(worker)) {
      bool came = false;
      arrivals.await([&] { return (came = inbox.work.try_complete()) || arrivals.lost(rank); });
      if (came) inbox.work.wait();
      leaves = came && inbox.header().kind == PushHeader::Kind::kLeave;
    }
    if (!leaves && !arrivals.lost(rank)) send_answer(worker, {.kind = PushAnswer::Kind::kOver});
    order_->left(worker);
  }
  is_over_ = true;
  tell({.kind = ServerOrder::Kind::kReturn, .is_over = 1, .clock = num_clocks_});
}

}  // namespace zero
