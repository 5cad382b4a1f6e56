// WorkerNews: the head's news of each worker: it asks to push or leave, its push is complete, or it is lost.
//
//   WorkerNews news(run, plan, order, transfers, talk, mask_bytes(num_params));
//   news.listen(1);                                            // from here on a header of worker 1 can arrive
//   talk.await([&] { return (worker = news.somebody()) >= 0; });
//   if (news.of(worker) == News::kHeader) {
//     const PushHeader header = news.header(worker);           // it asks to push
//     news.grant(worker);                                      // its next news is News::kWhole or kBroken
//   }
//
// News of a worker remains until the head acts on it. A worker is *within* a push from grant() to end_push(), and
// within weights while it reads them. It computes nothing meanwhile. Local, on the head only. Only the thread that uses
// `run` may call. Throws CommError.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "zero/comm/communicator.h"
#include "zero/plan/served/push_order.h"
#include "zero/serve/push_messages.h"
#include "zero/serve/server_talk.h"
#include "zero/serve/worker_transfers.h"

namespace zero {

enum class News : std::uint8_t {
  kNone,
  kHeader,  // its header arrived: it asks to push, or leaves
  kWhole,   // all servers have all of its push
  kBroken,  // the worker is lost within a push, which some server will never have whole
  kLost,    // the worker is lost outside a push
};

class WorkerNews {
 public:
  // `run`: workers and servers; it has arrivals(). `mask_bytes`: bytes of a push's mask. The other arguments outlive
  // this.
  WorkerNews(Communicator& run, const SyncPlan& plan, const PushOrder& order, const WorkerTransfers& transfers,
             ServerTalk& talk, std::size_t mask_bytes);

  // Begins to receive the worker's next header. Its previous header has arrived, or never will.
  void listen(int worker);
  // Returns the worker's news without waiting; kNone for a worker that has left.
  News of(int worker);
  // Returns a worker with news; -1: none has any.
  int somebody();
  // Lets the next somebody() ask this worker last.
  void ask_last(int worker) { first_asked_ = (worker + 1) % static_cast<int>(inboxes_.size()); }

  // Waits for the worker's header. Throws CommError if the worker leaves.
  void await_header(int worker);
  // Return the header that has arrived, and its mask of parameters. The mask is valid until listen().
  PushHeader header(int worker);
  std::span<const std::byte> mask(int worker) const;

  // grant() records that the worker may send the push of its header. end_push() records that it counts, or is
  // forgotten.
  void grant(int worker) { at(worker).granted = true; }
  void end_push(int worker) { at(worker).granted = false; }
  bool is_granted(int worker) const { return inboxes_[static_cast<std::size_t>(worker)].granted; }

  // Returns true if some workers are within a push or weights, and no other worker computes. Then no other news can
  // arrive.
  bool stands_still() const;
  // Throws CommError for a worker that others wait for, or else for a worker within a push or weights. The message says
  // which operation has not happened within the run's timeout.
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
  int first_asked_ = 0;         // first worker to ask; it changes, so no worker is always last
};

}  // namespace zero
