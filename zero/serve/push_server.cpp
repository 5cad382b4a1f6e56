#include "zero/serve/push_server.h"

#include <algorithm>
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

constexpr const char* kNoRoom =
    "workers read more older versions of the weights than there is room for, and none of them goes on";

template <typename T>
std::span<std::byte> bytes_of(T& value) {
  return std::as_writable_bytes(std::span(&value, 1));
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
      layout_(engine.specs(), options),
      pushed_(layout_, run.rank(), plan_.num_workers(run.world()), engine.resources().ledger),
      versions_(engine, plan_, num_workers(), engine.resources().copy),
      transfers_(engine, run, plan_, layout_, pushed_, versions_),
      reported_(static_cast<std::size_t>(num_workers())),
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
  granted_.resize(inboxes_.size());
  desks_.resize(static_cast<std::size_t>(plan_.servers));
  for (int worker = 0; worker < num_workers(); ++worker) listen(worker);
  for (int server = 1; server < plan_.servers; ++server) listen_to_server(server);
}

ServedClock PushServer::serve(std::int64_t clock, const UpdateRules& rules) {
  ServedClock served;
  const std::int64_t replaced_before = num_replaced_;
  is_head() ? lead(clock, rules, served) : follow(rules, served);
  served.replaced = num_replaced_ - replaced_before;
  served.workers = std::exchange(workers_, std::vector<ServedWorker>(workers_.size()));
  if (served.num_judged() > 0) served.loss /= static_cast<double>(served.num_judged());
  if (served.updates > 0) served.mean_age /= static_cast<double>(served.updates);
  return served;
}

void PushServer::lead(std::int64_t clock, const UpdateRules& rules, ServedClock& served) {
  for (;;) {
    while (const std::optional<PushAction> action = order_->next(clock)) {
      log_.action(*action);
      if (action->kind == PushAction::Kind::kUpdate) make_room();
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
    await([&] { return work.try_complete() || run_.arrivals()->lost(0); });
    await_message(run_, work, 0);
    if (order.kind == ServerOrder::Kind::kReturn) {
      num_clocks_ = order.clock;
      is_over_ = order.is_over != 0;
      return;
    }
    carry_out_order(order, rules, served);
  }
}

void PushServer::carry_out_order(const ServerOrder& order, const UpdateRules& rules, ServedClock& served) {
  switch (order.kind) {
    case ServerOrder::Kind::kTakePush: {
      std::vector<std::byte> mask(mask_bytes(engine_.specs().size()));
      run_.receive(mask, 0, {.control = true}).wait();
      transfers_.count(order.worker);  // the one before: the worker was answered since
      return transfers_.take(order.worker, order.header, mask);
    }
    case ServerOrder::Kind::kForgetPush:
      settle_push(order.worker);
      return transfers_.forget(order.worker);
    case ServerOrder::Kind::kMakeRoom:
      return report(await([&] { return versions_.has_room(); }, run_.timeout())
                        ? ServerReport{.kind = ServerReport::Kind::kDone}
                        : ServerReport{.kind = ServerReport::Kind::kStuck, .worker = versions_.readers().front()});
    case ServerOrder::Kind::kCarryOut:
      return carry_out({.kind = static_cast<PushAction::Kind>(order.action),
                        .workers = members_of(order.workers),
                        .clock = order.clock,
                        .version = order.version,
                        .age = order.age},
                       rules, served);
    case ServerOrder::Kind::kTakeBack:
      start_anew(order.worker);
      if (order.has_new_process != 0) run_.arrivals()->replacements()->take_back(plan_.rank_of_worker(order.worker));
      return report({.kind = ServerReport::Kind::kDone});
    case ServerOrder::Kind::kReturn:
      return;
  }
}

// A mask stays as it is until all servers have the push, or the worker is lost.
void PushServer::tell(const ServerOrder& order, std::span<const std::byte> more) {
  for (int server = 1; server < plan_.servers; ++server) {
    send_message(run_, std::as_bytes(std::span(&order, 1)), server);
    if (!more.empty()) run_.send(more, server, {.control = true}).wait();
    run_.arrivals()->unread(server);  // over messages: those that are done may go
  }
}

// ---- waiting ------------------------------------------------------------------------------------------------------

bool PushServer::await(const std::function<bool()>& ready, std::chrono::milliseconds limit) {
  for (;;) {
    go_on();
    if (ready()) return true;
    if (!run_.arrivals()->await([&] { return ready() || has_report() || transfers_.can_advance(); }, limit))
      return false;
  }
}

void PushServer::go_on() {
  transfers_.advance();
  is_head() ? hear_reports() : report_pushes();
}

void PushServer::report_pushes() {
  for (int worker = 0; worker < num_workers(); ++worker) {
    std::int64_t& reported = reported_[static_cast<std::size_t>(worker)];
    const PushState push = transfers_.push(worker);
    if (push == PushState::kUnderWay || reported == transfers_.push_number(worker)) continue;
    reported = transfers_.push_number(worker);
    report({.kind = ServerReport::Kind::kPush,
            .worker = worker,
            .whole = push == PushState::kWhole ? 1 : 0,
            .number = reported});
  }
}

void PushServer::report(const ServerReport& report) {
  send_message(run_, std::as_bytes(std::span(&report, 1)), 0);
  run_.arrivals()->unread(0);
}

void PushServer::listen_to_server(int server) {
  Desk& desk = desks_[static_cast<std::size_t>(server)];
  desk.work = run_.receive(bytes_of(desk.report), server, {.control = true});
}

bool PushServer::has_report() {
  for (int server = 1; server < std::ssize(desks_); ++server)
    if (desks_[static_cast<std::size_t>(server)].work.try_complete()) return true;
  return false;
}

void PushServer::hear_reports() {
  for (int server = 1; server < std::ssize(desks_); ++server) {
    Desk& desk = desks_[static_cast<std::size_t>(server)];
    while (desk.work.try_complete()) {
      desk.work.wait();
      const ServerReport report = desk.report;
      listen_to_server(server);
      hear(server, report);
    }
  }
}

void PushServer::hear(int server, const ServerReport& report) {
  switch (report.kind) {
    case ServerReport::Kind::kDone:
      desks_[static_cast<std::size_t>(server)].done = true;
      return;
    case ServerReport::Kind::kStuck:
      throw CommError(plan_.rank_of_worker(report.worker), "weights", kNoRoom);
    case ServerReport::Kind::kPush: {
      Granted& granted = granted_[static_cast<std::size_t>(report.worker)];
      if (!granted.under_way || report.number != transfers_.push_number(report.worker)) return;  // it is forgotten
      (report.whole != 0 ? granted.num_whole : granted.num_broken) += 1;
      return;
    }
  }
}

void PushServer::await_done(std::chrono::milliseconds limit) {
  for (int server = 1; server < plan_.servers; ++server) {
    Desk& desk = desks_[static_cast<std::size_t>(server)];
    if (!await([&] { return desk.done; }, limit))
      throw CommError(
          server, "order",
          fmt::format("server {} has not carried out the head's order within {} ms", server, limit.count()));
    desk.done = false;
  }
}

// For the version that an update makes, on all servers. While they wait for it all are here, so that a worker that reads
// gets the parts of each.
void PushServer::make_room() {
  if (plan_.num_spared(num_workers()) <= plan_.num_older_versions(num_workers())) return;  // there always is
  tell({.kind = ServerOrder::Kind::kMakeRoom});
  if (!await([this] { return versions_.has_room(); }, run_.timeout()))
    throw CommError(plan_.rank_of_worker(versions_.readers().front()), "weights", kNoRoom);
  await_done(2 * run_.timeout());  // the others name the worker
}

// ---- events -------------------------------------------------------------------------------------------------------

// One at a time: what follows from an event is done before the next one counts. That a push begins is none.
void PushServer::await_event() {
  if (turns_) return await_turn();
  int back = -1, worker = -1;
  const auto something = [&] { return (back = returning()) >= 0 || (worker = worker_with_news()) >= 0; };
  const bool waits_for_one = awaits_return();
  const auto has_limit = [&] { return waits_for_one || stands_still() || !order_->late().empty(); };
  while (!await(something, has_limit() ? run_.timeout() : std::chrono::milliseconds(0))) {
    if (!has_limit()) continue;  // one that was within its weights has begun to compute meanwhile
    if (!waits_for_one) name_late();
    gave_up_ = true;
    return;
  }
  if (back >= 0) return take_back(back);
  first_asked_ = (worker + 1) % num_workers();
  take(worker, news_of(worker));
}

PushServer::News PushServer::news_of(int worker) {
  if (!order_->is_here(worker)) return News::kNone;
  const Granted& granted = granted_[static_cast<std::size_t>(worker)];
  if (granted.under_way) {
    const PushState push = transfers_.push(worker);
    if (granted.num_broken > 0 || push == PushState::kBroken) return News::kBroken;
    return push == PushState::kWhole && granted.num_whole == plan_.servers - 1 ? News::kWhole : News::kNone;
  }
  const bool lost =
      run_.arrivals()->lost(plan_.rank_of_worker(worker));  // asked before: what it sent until then counts
  if (inboxes_[static_cast<std::size_t>(worker)].work.try_complete()) return News::kHeader;
  return lost ? News::kLost : News::kNone;
}

int PushServer::worker_with_news() {
  for (int i = 0; i < num_workers(); ++i) {
    const int worker = (first_asked_ + i) % num_workers();
    if (news_of(worker) != News::kNone) return worker;
  }
  return -1;
}

void PushServer::take(int worker, News news) {
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

// In the middle of a push, or of weights that it is to read.
bool PushServer::is_within(int worker) const {
  return order_->computes(worker) &&
         (granted_[static_cast<std::size_t>(worker)].under_way || transfers_.sends_to(worker));
}

// Somebody is to go on, and nobody computes.
bool PushServer::stands_still() const {
  bool somebody = false;
  for (int worker = 0; worker < num_workers(); ++worker) {
    if (order_->computes(worker) && !is_within(worker)) return false;
    somebody = somebody || is_within(worker);
  }
  return somebody;
}

void PushServer::name_late() {
  std::vector<int> late = order_->late();
  if (late.empty())
    for (int worker = 0; worker < num_workers(); ++worker)
      if (is_within(worker)) late.push_back(worker);
  const auto within = std::ranges::find_if(late, [this](int worker) { return is_within(worker); });
  const int worker = within == late.end() ? late.front() : *within;
  const int rank = plan_.rank_of_worker(worker);
  const std::string operation = fmt::format("push of clock {}", order_->clock(worker));
  const auto timeout = run_.timeout().count();
  if (granted_[static_cast<std::size_t>(worker)].under_way)
    throw CommError(rank, operation,
                    fmt::format("it has begun to send a gradient, and does not go on for {} ms", timeout));
  if (within != late.end())
    throw CommError(rank, operation, fmt::format("it has not read on for {} ms in the weights before it", timeout));
  throw CommError(rank, operation, fmt::format("it is not there after {} ms, and other workers wait for it", timeout));
}

// ---- pushes -------------------------------------------------------------------------------------------------------

// The worker's next push, whenever it comes.
void PushServer::listen(int worker) {
  Inbox& inbox = inboxes_[static_cast<std::size_t>(worker)];
  inbox.message.resize(sizeof(PushHeader) + mask_bytes(engine_.specs().size()));
  inbox.work = run_.receive(inbox.message, plan_.rank_of_worker(worker), {.control = true});
}

void PushServer::leave(int worker) {
  transfers_.end_send(worker);
  log_.event({.worker = worker, .clock = order_->clock(worker), .leaves = true});
  order_->left(worker);
}

void PushServer::grant(int worker) {
  Inbox& inbox = inboxes_[static_cast<std::size_t>(worker)];
  inbox.work.wait();
  const PushHeader header = inbox.header();
  if (header.kind != PushHeader::Kind::kPush) has_ended_[static_cast<std::size_t>(worker)] = true;
  if (header.kind == PushHeader::Kind::kLeave) return leave(worker);
  granted_[static_cast<std::size_t>(worker)] = {.under_way = true, .header = header};
  const std::span<const std::byte> mask = std::span(inbox.message).subspan(sizeof header);
  tell({.kind = ServerOrder::Kind::kTakePush, .worker = worker, .header = header}, mask);
  transfers_.take(worker, header, mask);
  send_answer(worker, {.kind = PushAnswer::Kind::kSend});
}

void PushServer::count_push(int worker) {
  Granted& granted = granted_[static_cast<std::size_t>(worker)];
  const PushHeader header = std::exchange(granted, {}).header;
  transfers_.count(worker);
  ServedWorker& counted = workers_[static_cast<std::size_t>(worker)];
  ++counted.pushes;
  counted.pushed_bytes += layout_.push_bytes();
  counted.waited_seconds += header.waited_seconds;
  log_.event({.worker = worker, .clock = header.clock});
  order_->pushed(worker, header.clock);
  if (header.kind == PushHeader::Kind::kLastPush) return order_->left(worker);
  listen(worker);
}

void PushServer::forget_push(int worker) {
  tell({.kind = ServerOrder::Kind::kForgetPush, .worker = worker});
  settle_push(worker);
  transfers_.forget(worker);
  granted_[static_cast<std::size_t>(worker)] = {};
  has_ended_[static_cast<std::size_t>(worker)] = false;
}

// Of a worker that is lost. This server may not have seen it yet.
void PushServer::settle_push(int worker) {
  if (!await([&] { return transfers_.push(worker) != PushState::kUnderWay; }, run_.timeout()))
    throw CommError(plan_.rank_of_worker(worker), "push", "it is lost to another server, and to this one it is not");
}

void PushServer::lose(int worker) {
  const int rank = plan_.rank_of_worker(worker);
  if (!plan_.spares_workers()) throw CommError(rank, "push", "it left the run, and no clock is whole without it");
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
  const double new_lr = rules.lr ? rules.lr(action.clock) : pushed_.oldest(action.workers.front()).lr;
  const double lr = plan_.lr_of(new_lr, action.age);
  compensate(action);
  const GivenGradients sum = pushed_.sum_of(action.workers, micro_batches_);
  const StepReport report = engine_.served().apply(sum, lr, has_loss ? rules.limits(loss) : StepLimits{});
  for (const int worker : action.workers) pushed_.drop_oldest(worker);
  versions_.keep(action.version + 1);
  last_ = report;
  if (!served.report.skipped) served.report = report;
  served.loss = (served.num_judged() == 0 ? 0 : served.loss) + loss;
  if (report.skipped) {
    ++served.skipped;
  } else {
    count_update(action, served);
  }
}

void PushServer::count_update(const PushAction& action, ServedClock& served) {
  for (const int worker : action.workers) {
    ServedWorker& counted = workers_[static_cast<std::size_t>(worker)];
    ++counted.applied;
    counted.sum_of_ages += action.age;
    counted.most_age = std::max(counted.most_age, action.age);
  }
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
  if (is_head() && first && !layout_.weights().empty())
    send_message(run_, std::as_bytes(std::span(layout_.weights())), plan_.rank_of_worker(worker));
  if (changed) transfers_.send(worker, action.version, first);
  if (changed && pulled_) pulled_->keep(worker, versions_.kept(action.version));
}

void PushServer::send_answer(int worker, const PushAnswer& answer) {
  send_message(run_, std::as_bytes(std::span(&answer, 1)), plan_.rank_of_worker(worker));
}

// ---- the end ------------------------------------------------------------------------------------------------------

void PushServer::dismiss() {
  if (!is_head()) {
    ServedClock nothing;
    return follow({}, nothing);
  }
  int next = -1, last = -1;
  const auto somebody = [&] {
    next = last = -1;
    for (int worker = 0; worker < num_workers(); ++worker) {
      if (!order_->is_here(worker)) continue;
      last = worker;
      if (may_dismiss(worker)) next = worker;
    }
    return next >= 0 || last < 0;
  };
  for (bool told = false;;) {
    if (!await(somebody, run_.timeout())) {
      if (!std::exchange(told, true))
        ZERO_LOG(warn, "the run is over, and rank {} (worker {}) has not come to hear it: servers wait for it",
                 plan_.rank_of_worker(last), last);
      continue;
    }
    if (last < 0) break;
    dismiss(next);
  }
  is_over_ = true;
  tell({.kind = ServerOrder::Kind::kReturn, .is_over = 1, .clock = num_clocks_});
}

// One that computes comes with its push, and is told then; one that has begun to push, after that. Nobody waits for one that
// is lost.
bool PushServer::may_dismiss(int worker) {
  return news_of(worker) != News::kNone || !order_->computes(worker);
}

void PushServer::dismiss(int worker) {
  const News news = news_of(worker);
  const bool was_granted = granted_[static_cast<std::size_t>(worker)].under_way;
  PushHeader::Kind said = PushHeader::Kind::kPush;
  if (news == News::kHeader) {
    inboxes_[static_cast<std::size_t>(worker)].work.wait();
    said = inboxes_[static_cast<std::size_t>(worker)].header().kind;
  }
  const bool last =
      was_granted && granted_[static_cast<std::size_t>(worker)].header.kind == PushHeader::Kind::kLastPush;
  if (was_granted) forget_push(worker);
  const bool hears = news != News::kLost && news != News::kBroken && !last && said != PushHeader::Kind::kLeave;
  if (hears) send_answer(worker, {.kind = PushAnswer::Kind::kOver});
  transfers_.end_send(worker);
  order_->left(worker);
}

}  // namespace zero
