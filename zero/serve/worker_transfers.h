// WorkerTransfers: the weights that a server is sending to each worker, and the push that it is receiving from it.
//
//   transfers.send(1, 8, false);                         // version 8 to worker 1, pinned until worker 1 has read it
//   transfers.take(0, header, mask);                     // a push of worker 0 begins
//   arrivals.await([&] { return transfers.can_advance(); });
//   transfers.advance();
//   if (transfers.push(0) == PushState::kWhole) ...      // all its parts are in PushedGradients, as the newest push
//
// Each unit is a message of its own, and no message makes the server wait. A stalled worker delays only its own
// messages: at most most_unread() messages to it are under way, and one message from it is expected. A frozen unit's
// part is copied for the worker. The copy is charged as staging, and freed after it was read. Local.
#pragma once

#include <deque>
#include <vector>

#include "zero/comm/communicator.h"
#include "zero/memory/account/charge.h"
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
  // All arguments outlive this object. `run` has arrivals().
  WorkerTransfers(RankEngine& engine, Communicator& run, const SyncPlan& plan, const PushLayout& layout,
                  PushedGradients& pushed, WeightVersions& versions);

  // Sends and receives all messages that need no waiting.
  void advance();
  // Returns true if advance() would change something. May be called in Arrivals::await().
  bool can_advance();

  // Begins to take a push of a worker whose header has arrived. The header shows that the worker has read its weights.
  void take(int worker, const PushHeader& header, std::span<const std::byte> mask);
  PushState push(int worker) const { return at(worker).push; }
  // Returns the number of the newest push that take() began. Each worker's pushes are counted from 1.
  std::int64_t push_number(int worker) const { return at(worker).push_number; }
  // count() ends a whole push, which counts. forget() drops a whole or broken push.
  void count(int worker) { at(worker).push = PushState::kNone; }
  void forget(int worker);

  // Begins to send a version to a worker that reads nothing now. `all`: frozen units also.
  void send(int worker, std::int64_t version, bool all);
  bool sends_to(int worker) const { return at(worker).sends; }
  // Returns the version that the worker was last sent; -1: none yet.
  std::int64_t sent_version(int worker) const { return at(worker).version; }
  // Ends sending: the worker is lost, or has read all.
  void end_send(int worker);
  // Ends sending to a worker that begins again without weights, in another process or in its own.
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
    std::byte* data = nullptr;  // memory of its push
    std::size_t num_taken = 0;  // parts of taken_ that have arrived
    Work part;                  // the next part
    bool sends = false;
    bool all = false;
    std::int64_t version = -1;
    std::size_t next = 0;  // index in sent_ of the next part
    int num_sent = 0;      // messages of this version so far
    std::deque<Frozen> frozen;
  };
  Transfer& at(int worker) { return transfers_[static_cast<std::size_t>(worker)]; }
  const Transfer& at(int worker) const { return transfers_[static_cast<std::size_t>(worker)]; }
  void expect_part(int worker);
  void advance_push(int worker);
  void advance_send(int worker);
  void send_part(int worker, const Unit& unit);
  bool has_more(const Transfer& transfer) const;

  RankEngine& engine_;
  Communicator& run_;
  SyncPlan plan_;
  const PushLayout& layout_;
  PushedGradients& pushed_;
  WeightVersions& versions_;
  std::vector<Unit> taken_, sent_;  // units with elements on this server: trained ones; all
  int most_unread_;
  std::vector<Transfer> transfers_;  // by worker
};

}  // namespace zero
