#include "zero/serve/worker_transfers.h"

#include <utility>

#include "zero/base/error/check.h"
#include "zero/comm/board/arrivals.h"

namespace zero {

WorkerTransfers::WorkerTransfers(RankEngine& engine, Communicator& run, const SyncPlan& plan, const PushLayout& layout,
                                 PushedGradients& pushed, WeightVersions& versions)
    : engine_(engine),
      run_(run),
      plan_(plan),
      layout_(layout),
      pushed_(pushed),
      versions_(versions),
      most_unread_(most_unread(plan.num_workers(run.world()))),
      transfers_(static_cast<std::size_t>(plan.num_workers(run.world()))) {
  for (const Unit& unit : layout.units()) {
    if (layout.weight_bytes(unit, run.rank()) == 0) continue;
    sent_.push_back(unit);
    if (unit.trainable) taken_.push_back(unit);
  }
}

void WorkerTransfers::advance() {
  for (int worker = 0; worker < std::ssize(transfers_); ++worker) {
    advance_push(worker);
    advance_send(worker);
  }
}

bool WorkerTransfers::can_advance() {
  Arrivals& arrivals = *run_.arrivals();
  for (int worker = 0; worker < std::ssize(transfers_); ++worker) {
    Transfer& transfer = at(worker);
    const int rank = plan_.rank_of_worker(worker);
    if (transfer.push == PushState::kUnderWay && (transfer.part.try_complete() || arrivals.lost(rank))) return true;
    if (!transfer.sends) continue;
    if (arrivals.unread(rank) < (has_more(transfer) ? most_unread_ : 1)) return true;  // 0 if it is lost
  }
  return false;
}

// ---- pushes -------------------------------------------------------------------------------------------------------

void WorkerTransfers::take(int worker, const PushHeader& header, std::span<const std::byte> mask) {
  Transfer& transfer = at(worker);
  ZERO_CHECK(transfer.push == PushState::kNone, "worker {} begins a push within another", worker);
  end_send(worker);
  transfer.push = PushState::kUnderWay;
  ++transfer.push_number;
  transfer.data = pushed_.begin(worker, header, unpack_mask(mask, engine_.specs().size()));
  transfer.num_taken = 0;
  expect_part(worker);
}

void WorkerTransfers::expect_part(int worker) {
  Transfer& transfer = at(worker);
  if (transfer.num_taken == taken_.size()) {
    transfer.push = PushState::kWhole;
    return;
  }
  const Unit& unit = taken_[transfer.num_taken];
  transfer.part = run_.receive(pushed_.part(transfer.data, unit), plan_.rank_of_worker(worker), {.unit = unit.index});
}

void WorkerTransfers::advance_push(int worker) {
  Transfer& transfer = at(worker);
  while (transfer.push == PushState::kUnderWay) {
    const bool lost =
        // Asked before try_complete(): a part that the worker sent before its loss still counts.
        run_.arrivals()->lost(plan_.rank_of_worker(worker));
    if (!transfer.part.try_complete()) {
      if (lost) transfer.push = PushState::kBroken;
      return;
    }
    transfer.part.wait();
    ++transfer.num_taken;
    expect_part(worker);
  }
}

void WorkerTransfers::forget(int worker) {
  Transfer& transfer = at(worker);
  ZERO_CHECK(transfer.push == PushState::kWhole || transfer.push == PushState::kBroken,
             "a push of worker {} is dropped while it may still arrive", worker);
  transfer.part = {};
  transfer.push = PushState::kNone;
  pushed_.drop_newest(worker);
}

// ---- weights ------------------------------------------------------------------------------------------------------

void WorkerTransfers::send(int worker, std::int64_t version, bool all) {
  Transfer& transfer = at(worker);
  ZERO_CHECK(!transfer.sends, "worker {} is sent weights within others", worker);
  versions_.pin(worker, version);
  transfer.sends = true;
  transfer.all = all;
  transfer.version = version;
  transfer.next = 0;
  transfer.num_sent = 0;
  advance_send(worker);
}

bool WorkerTransfers::has_more(const Transfer& transfer) const {
  for (std::size_t i = transfer.next; i < sent_.size(); ++i)
    if (transfer.all || sent_[i].trainable) return true;
  return false;
}

void WorkerTransfers::advance_send(int worker) {
  Transfer& transfer = at(worker);
  if (!transfer.sends) return;
  Arrivals& arrivals = *run_.arrivals();
  const int rank = plan_.rank_of_worker(worker);
  int unread = arrivals.unread(rank);
  if (arrivals.lost(rank)) return end_send(worker);
  // Workers read messages in the order of sending.
  while (!transfer.frozen.empty() && transfer.frozen.front().part < transfer.num_sent - unread)
    transfer.frozen.pop_front();
  for (; unread < most_unread_ && has_more(transfer); ++transfer.next) {
    const Unit& unit = sent_[transfer.next];
    if (!transfer.all && !unit.trainable) continue;
    send_part(worker, unit);
    ++unread;
  }
  if (!has_more(transfer) && arrivals.unread(rank) == 0) end_send(worker);
}

void WorkerTransfers::send_part(int worker, const Unit& unit) {
  Transfer& transfer = at(worker);
  std::span<const std::byte> shard;
  if (unit.trainable) {
    shard = versions_.shard(transfer.version, unit.index);
  } else {
    const std::int64_t bytes =
        layout_.part(unit, run_.rank()).shard_numel * static_cast<std::int64_t>(size_of(unit.dtype));
    Frozen& copy = transfer.frozen.emplace_back(
        Frozen{.part = transfer.num_sent,
               .bytes = std::vector<std::byte>(static_cast<std::size_t>(bytes)),
               .charge = Charge(engine_.resources().ledger, Tier::kDevice, MemoryTag::kStaging, bytes)});
    engine_.half_steps().read_parameter_shard(unit.index, copy.bytes.data());
    shard = copy.bytes;
  }
  const auto bytes = static_cast<std::size_t>(layout_.weight_bytes(unit, run_.rank()));
  run_.send(shard.first(bytes), plan_.rank_of_worker(worker), {.unit = unit.index}).wait();
  ++transfer.num_sent;
}

void WorkerTransfers::end_send(int worker) {
  Transfer& transfer = at(worker);
  versions_.unpin(worker);
  transfer.sends = false;
  transfer.frozen.clear();
}

void WorkerTransfers::start_anew(int worker) {
  end_send(worker);
  at(worker).version = -1;
}

}  // namespace zero
