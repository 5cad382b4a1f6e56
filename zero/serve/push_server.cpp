#include "zero/serve/push_server.h"

#include <algorithm>
#include <utility>

#include "zero/comm/board/arrivals.h"
#include "zero/comm/rendezvous/rank_set.h"

namespace zero {

PushServer::PushServer(RankEngine& engine, Communicator& run, const AttachOptions& options)
    : engine_(engine),
      run_(run),
      plan_(options.sync),
      micro_batches_(options.average_micro_batches ? options.accumulate : 1),
      layout_(engine.specs(), options),
      pushed_(layout_, run.rank(), plan_.num_workers(run.world()), engine.resources().ledger),
      versions_(engine, plan_, num_workers(), engine.resources().copy),
      transfers_(engine, run, plan_, layout_, pushed_, versions_),
      talk_(run, plan_, transfers_),
      workers_(static_cast<std::size_t>(num_workers())) {
  if (plan_.compensation > 0) pulled_.emplace(num_workers(), versions_.bytes_each(), engine.resources().ledger);
}

void PushServer::begin(std::int64_t clock) {
  versions_.keep(clock);
  num_clocks_ = clock;
  if (is_head())
    head_.emplace(PushHead::Shared{.run = run_,
                                   .plan = plan_,
                                   .layout = layout_,
                                   .transfers = transfers_,
                                   .talk = talk_,
                                   .workers = workers_,
                                   .event = log_.event},
                  engine_.specs().size(), PushOrder(plan_, num_workers(), clock, versions_.numbers().front()),
                  std::move(replayed_));
  talk_.listen();
}

ServedClock PushServer::serve(std::int64_t clock, const UpdateRules& rules) {
  ServedClock served;
  const std::int64_t replaced_before = num_replaced();
  is_head() ? lead(clock, rules, served) : follow(rules, served);
  served.replaced = num_replaced() - replaced_before;
  served.workers = std::exchange(workers_, std::vector<ServedWorker>(workers_.size()));
  if (served.num_judged() > 0) served.loss /= static_cast<double>(served.num_judged());
  if (served.updates > 0) served.mean_age /= static_cast<double>(served.updates);
  return served;
}

void PushServer::lead(std::int64_t clock, const UpdateRules& rules, ServedClock& served) {
  for (;;) {
    while (const std::optional<PushAction> action = head_->next(clock)) {
      log_.action(*action);
      if (action->kind == PushAction::Kind::kUpdate) talk_.make_room(versions_);
      talk_.tell({.kind = ServerOrder::Kind::kCarryOut,
                  .action = static_cast<std::int32_t>(action->kind),
                  .workers = set_of(action->workers),
                  .clock = action->clock,
                  .version = action->version,
                  .age = action->age});
      carry_out(*action, rules, served);
    }
    if (!head_->awaits_return()) {  // while a return is awaited, the number of finished clocks is unknown
      num_clocks_ = head_->num_clocks();
      is_over_ = head_->is_over();
      if (num_clocks_ >= clock || is_over_) break;
      head_->require_enough();
    }
    head_->await_event();
  }
  talk_.tell({.kind = ServerOrder::Kind::kReturn, .is_over = is_over_ ? 1 : 0, .clock = num_clocks_});
}

void PushServer::follow(const UpdateRules& rules, ServedClock& served) {
  for (;;) {
    const ServerOrder order = talk_.next_order();
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
      transfers_.count(order.worker);  // the push before: its worker was answered since
      return transfers_.take(order.worker, order.header, mask);
    }
    case ServerOrder::Kind::kForgetPush:
      return talk_.forget_push(order.worker);
    case ServerOrder::Kind::kMakeRoom:
      return talk_.make_room(versions_);
    case ServerOrder::Kind::kCarryOut:
      return carry_out({.kind = static_cast<PushAction::Kind>(order.action),
                        .workers = members_of(order.workers),
                        .clock = order.clock,
                        .version = order.version,
                        .age = order.age},
                       rules, served);
    case ServerOrder::Kind::kTakeBack:
      transfers_.start_anew(order.worker);
      if (order.has_new_process != 0) run_.arrivals()->replacements()->take_back(plan_.rank_of_worker(order.worker));
      return talk_.report({.kind = ServerReport::Kind::kDone});
    case ServerOrder::Kind::kReturn:
      return;
  }
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
  const StepReport report = engine_.half_steps().apply(sum, lr, has_loss ? rules.limits(loss) : StepLimits{});
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

// A push is the mean gradient times micro_batches_, but the formula is for the mean, so lambda is divided by this
// number.
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
  const std::int64_t sent = transfers_.sent_version(worker);
  const bool first = sent < 0, changed = sent != action.version;
  if (is_head())
    head_->answer(worker, {.kind = PushAnswer::Kind::kBegin,
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

// ---- the end ------------------------------------------------------------------------------------------------------

void PushServer::dismiss() {
  if (!is_head()) {
    ServedClock nothing;
    return follow({}, nothing);
  }
  head_->dismiss();
  is_over_ = true;
  talk_.tell({.kind = ServerOrder::Kind::kReturn, .is_over = 1, .clock = num_clocks_});
}

}  // namespace zero
