// WorkerNews: what the head of the servers hears of each worker: that it wants to push or to leave, that all servers have its
// push, or that it is lost.
//
//   WorkerNews news(run, plan, order, transfers, talk, mask_bytes(num_params));
//   news.listen(1);                                            // a header of worker 1 may come from here on
//   talk.await([&] { return (worker = news.somebody()) >= 0; });
//   if (news.of(worker) == News::kHeader) {
//     const PushHeader header = news.header(worker);           // it asks to push, and is told that it may:
//     news.grant(worker);                                      // from here on News::kWhole or kBroken is its next news
//   }
//
// News of a worker stays until somebody acts on it. A worker is *within* a push from grant() to end_push(), and within weights
// while it reads them: there it computes nothing.
//
// Local, and of the head alone. Only the thread that uses `run` may call. Throws CommError.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "zero/comm/communicator.h"
#include "zero/plan/push_order.h"
#include "zero/serve/push_messages.h"
#include "zero/serve/server_talk.h"
#include "zero/serve/worker_transfers.h"

namespace zero {

enum class News : std::uint8_t {
  kNone,
  kHeader,  // is here: it asks to push, or says that it leaves
  kWhole,   // all servers have all of its push
  kBroken,  // some server never will: the worker is lost
  kLost,    // outside of a push
};

class WorkerNews {
 public:
  // `run`: workers and servers; it has arrivals(). `mask_bytes`: of a push's mask of parameters. The others outlive it.
  WorkerNews(Communicator& run, const SyncPlan& plan, const PushOrder& order, const WorkerTransfers& transfers,
             ServerTalk& talk, std::size_t mask_bytes);

  // Begins to receive the worker's next header, whenever that comes. The one before has come, or never will.
  void listen(int worker);
  // Waits for nobody. Of a worker that has left there is no news.
  News of(int worker);
  // A worker with news; -1: there is none.
  int somebody();
  // The next somebody() asks this worker last.
  void ask_last(int worker) { first_asked_ = (worker + 1) % static_cast<int>(inboxes_.size()); }

  // Until the worker's header is here. CommError where it leaves.
  void await_header(int worker);
  // The header that is here, and its mask of parameters, which stays until listen().
  PushHeader header(int worker);
  std::span<const std::byte> mask(int worker) const;

  // The worker is told to send the push of its header. end_push(): that counts now, or is forgotten.
  void grant(int worker) { at(worker).granted = true; }
  void end_push(int worker) { at(worker).granted = false; }
  bool is_granted(int worker) const { return inboxes_[static_cast<std::size_t>(worker)].granted; }

  // Some workers are within a push or weights, and no other one computes: nobody else can bring news.
  bool stands_still() const;
  // CommError with a worker that others wait for, or else that is within a push or weights, and with what it has not done for
  // the run's timeout.
  [[noreturn]] void name_late() const;

 private:
  struct Inbox {  // of one worker
    std::vector<std::byte> message;
    Work work;
    bool granted = false;
  };
  Inbox& at(int worker) { return inboxes_[static_cast<std::size_t>(worker)]; }
  bool is_within(int worker) const;

  Communicator& run_;
  SyncPlan plan_;
  const PushOrder& order_;
  const WorkerTransfers& transfers_;
  ServerTalk& talk_;
  std::size_t mask_bytes_;
  std::vector<Inbox> inboxes_;  // by worker
  int first_asked_ = 0;         // worker, so that none is always asked last
};

}  // namespace zero
