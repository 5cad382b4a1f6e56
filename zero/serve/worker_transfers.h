// WorkerTransfers: what is under way between a server and each worker: the weights that it is being sent, and the push that
// it is sending. Each in parts, a message for each unit; none of them makes the server wait.
//
//   transfers.send(1, 8, false);                         // version 8 to worker 1, which stays pinned until it is read
//   transfers.take(0, header, mask);                     // a push of worker 0 begins
//   arrivals.await([&] { return transfers.can_advance(); });
//   transfers.advance();
//   if (transfers.push(0) == PushState::kWhole) ...      // all parts are among the pushed gradients, as the newest
//
// A worker that stands still holds up its own parts alone: at most most_unread() messages to it are under way, and one
// message of it is expected. A frozen unit's part is copied for the worker, and lives until it is read, charged as staging.
// Local.
#pragma once

#include <deque>
#include <vector>

#include "zero/comm/communicator.h"
#include "zero/memory/charge.h"
#include "zero/serve/push_layout.h"
#include "zero/serve/push_messages.h"
#include "zero/serve/pushed_gradients.h"
#include "zero/serve/weight_versions.h"

namespace zero {

enum class PushState : std::uint8_t {
  kNone,
  kUnderWay,
  kWhole,
  kBroken,  // the worker was lost before it had sent all of it
};

class WorkerTransfers {
 public:
  // All outlive it. `run` has arrivals().
  WorkerTransfers(Engine& engine, Communicator& run, const SyncPlan& plan, const PushLayout& layout,
                  PushedGradients& pushed, WeightVersions& versions);

  // Moves what can be moved without waiting.
  void advance();
  // Whether advance() would change something. To be asked within Arrivals::await().
  bool can_advance();

  // A worker whose header is here begins to push. So it has read what it was sent.
  void take(int worker, const PushHeader& header, std::span<const std::byte> mask);
  PushState push(int worker) const { return at(worker).push; }
  // Of the newest that was begun to be taken; of each worker from 1.
  std::int64_t push_number(int worker) const { return at(worker).push_number; }
  // The push is whole, and counts; or it is whole or broken, and is dropped.
  void count(int worker) { at(worker).push = PushState::kNone; }
  void forget(int worker);

  // The worker reads nothing now. `all`: frozen units, too.
  void send(int worker, std::int64_t version, bool all);
  bool sends_to(int worker) const { return at(worker).sends; }
  // Of what it was sent last; -1: none yet.
  std::int64_t sent_version(int worker) const { return at(worker).version; }
  // The worker is lost, or has read all: nobody reads for it any more.
  void end_send(int worker);
  // The same, and it begins anew, in another process or in its own: it has none of the weights.
  void start_anew(int worker);

 private:
  struct Frozen {
    int part;
    std::vector<std::byte> bytes;
    Charge charge;
  };
  struct Transfer {  // of one worker
    PushState push = PushState::kNone;
    std::int64_t push_number = 0;
    std::byte* data = nullptr;  // of its push
    std::size_t num_taken = 0;  // of taken_
    Work part;                  // the next of them
    bool sends = false;
    bool all = false;
    std::int64_t version = -1;
    std::size_t next = 0;  // of sent_
    int num_sent = 0;      // messages
    std::deque<Frozen> frozen;
  };
  Transfer& at(int worker) { return transfers_[static_cast<std::size_t>(worker)]; }
  const Transfer& at(int worker) const { return transfers_[static_cast<std::size_t>(worker)]; }
  void expect_part(int worker);
  void advance_push(int worker);
  void advance_send(int worker);
  void send_part(int worker, const Unit& unit);
  bool has_more(const Transfer& transfer) const;

  Engine& engine_;
  Communicator& run_;
  SyncPlan plan_;
  const PushLayout& layout_;
  PushedGradients& pushed_;
  WeightVersions& versions_;
  std::vector<Unit> taken_, sent_;  // units of which this server has a part: trained ones, and all
  int most_unread_;
  std::vector<Transfer> transfers_;  // by worker
};

}  // namespace zero
