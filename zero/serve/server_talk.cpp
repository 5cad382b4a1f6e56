#include "zero/serve/server_talk.h"

#include <fmt/format.h>

#include "zero/base/error/error.h"
#include "zero/comm/board/arrivals.h"

namespace zero {
namespace {

constexpr const char* kNoRoom =
    "workers read more old versions of the weights than servers have room for, and no worker continues";

template <typename T>
std::span<std::byte> bytes_of(T& value) {
  return std::as_writable_bytes(std::span(&value, 1));
}

}  // namespace

ServerTalk::ServerTalk(Communicator& run, const SyncPlan& plan, WorkerTransfers& transfers)
    : run_(run),
      plan_(plan),
      transfers_(transfers),
      elsewhere_(static_cast<std::size_t>(plan.num_workers(run.world()))),
      reported_(elsewhere_.size()) {}

void ServerTalk::listen() {
  if (!is_head()) return;
  desks_.resize(static_cast<std::size_t>(plan_.servers));
  for (int server = 1; server < plan_.servers; ++server) listen_to(server);
}

void ServerTalk::listen_to(int server) {
  Desk& desk = desks_[static_cast<std::size_t>(server)];
  desk.work = run_.receive(bytes_of(desk.report), server, {.control = true});
}

// ---- waiting ------------------------------------------------------------------------------------------------------

bool ServerTalk::await(const std::function<bool()>& ready, std::chrono::milliseconds limit) {
  for (;;) {
    go_on();
    if (ready()) return true;
    if (!run_.arrivals()->await([&] { return ready() || has_report() || transfers_.can_advance(); }, limit))
      return false;
  }
}

void ServerTalk::go_on() {
  transfers_.advance();
  is_head() ? hear_reports() : report_pushes();
}

// ---- the head -----------------------------------------------------------------------------------------------------

void ServerTalk::tell(const ServerOrder& order, std::span<const std::byte> mask) {
  if (order.kind == ServerOrder::Kind::kTakePush) elsewhere_[static_cast<std::size_t>(order.worker)] = {};
  for (int server = 1; server < plan_.servers; ++server) {
    send_message(run_, std::as_bytes(std::span(&order, 1)), server);
    if (!mask.empty()) run_.send(mask, server, {.control = true}).wait();
    run_.arrivals()->unread(server);  // lets a message transport release the messages that were read
  }
}

bool ServerTalk::has_report() {
  for (int server = 1; server < std::ssize(desks_); ++server)
    if (desks_[static_cast<std::size_t>(server)].work.try_complete()) return true;
  return false;
}

void ServerTalk::hear_reports() {
  for (int server = 1; server < std::ssize(desks_); ++server) {
    Desk& desk = desks_[static_cast<std::size_t>(server)];
    while (desk.work.try_complete()) {
      desk.work.wait();
      const ServerReport report = desk.report;
      listen_to(server);
      hear(server, report);
    }
  }
}

void ServerTalk::hear(int server, const ServerReport& report) {
  switch (report.kind) {
    case ServerReport::Kind::kDone:
      desks_[static_cast<std::size_t>(server)].done = true;
      return;
    case ServerReport::Kind::kStuck:
      run_.arrivals()->fail(plan_.rank_of_worker(report.worker), "weights", kNoRoom);
    case ServerReport::Kind::kPush: {
      if (report.number != transfers_.push_number(report.worker)) return;  // a forgotten push
      Elsewhere& elsewhere = elsewhere_[static_cast<std::size_t>(report.worker)];
      (report.whole != 0 ? elsewhere.num_whole : elsewhere.num_broken) += 1;
      return;
    }
  }
}

PushState ServerTalk::push_elsewhere(int worker) const {
  const Elsewhere& elsewhere = elsewhere_[static_cast<std::size_t>(worker)];
  if (elsewhere.num_broken > 0) return PushState::kBroken;
  return elsewhere.num_whole == plan_.servers - 1 ? PushState::kWhole : PushState::kUnderWay;
}

void ServerTalk::await_done(std::chrono::milliseconds limit) {
  for (int server = 1; server < plan_.servers; ++server) {
    Desk& desk = desks_[static_cast<std::size_t>(server)];
    if (!await([&] { return desk.done; }, limit))
      run_.arrivals()->fail(
          server, "order",
          fmt::format("server {} has not carried out the head's order within {} ms", server, limit.count()));
    desk.done = false;
  }
}

// ---- another server -----------------------------------------------------------------------------------------------

ServerOrder ServerTalk::next_order() {
  ServerOrder order;
  Work work = run_.receive(bytes_of(order), 0, {.control = true});
  const auto has_come = [&] { return work.try_complete() || run_.arrivals()->lost(0); };
  while (!await(has_come, run_.timeout())) require_running(run_, 0, "order");
  await_message(run_, work, 0);
  return order;
}

void ServerTalk::report(const ServerReport& report) {
  send_message(run_, std::as_bytes(std::span(&report, 1)), 0);
  run_.arrivals()->unread(0);
}

void ServerTalk::report_pushes() {
  for (int worker = 0; worker < std::ssize(reported_); ++worker) {
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

// ---- each server --------------------------------------------------------------------------------------------------

// All servers wait here together, so a reader receives its parts from all of them.
void ServerTalk::make_room(const WeightVersions& versions) {
  const int workers = static_cast<int>(reported_.size());
  if (plan_.num_spared(workers) <= plan_.num_older_versions(workers)) return;  // there is always room
  if (is_head()) tell({.kind = ServerOrder::Kind::kMakeRoom});
  const bool has_room = await([&] { return versions.has_room(); }, run_.timeout());
  if (!is_head())
    return report(has_room ? ServerReport{.kind = ServerReport::Kind::kDone}
                           : ServerReport{.kind = ServerReport::Kind::kStuck, .worker = versions.readers().front()});
  if (!has_room) run_.arrivals()->fail(plan_.rank_of_worker(versions.readers().front()), "weights", kNoRoom);
  await_done(2 * run_.timeout());  // another server first waits its own timeout, and then names the worker
}

// If the worker is lost, this server may learn it later than another server.
void ServerTalk::forget_push(int worker) {
  if (is_head()) tell({.kind = ServerOrder::Kind::kForgetPush, .worker = worker});
  if (!await([&] { return transfers_.push(worker) != PushState::kUnderWay; }, run_.timeout()))
    run_.arrivals()->fail(plan_.rank_of_worker(worker), "push", "another server has lost it, and this server has not");
  transfers_.forget(worker);
}

}  // namespace zero
