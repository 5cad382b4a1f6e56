// ServerTalk: messages between the servers of a run. The head (rank 0) sends orders, and the other servers report.
//
//   ServerTalk talk(run, plan, transfers);
//   talk.listen();
//   talk.tell({.kind = ServerOrder::Kind::kTakeBack, .worker = 1});     // the head gives an order,
//   talk.await_done(run.timeout());                                     // and waits until the others have done it
//   const ServerOrder order = talk.next_order();                        // another server waits for its next order,
//   talk.report({.kind = ServerReport::Kind::kDone});                   // and reports that it is done
//
// All waits of a server are in await(). Its transfers with workers continue there, so a waiting server delays no worker
// and no server. There the head also receives reports, and another server reports each push that is complete or broken.
//
// Local, except make_room() and forget_push(): the head begins these, and each other server calls them when
// next_order() returns that order. Only the thread that uses `run` may call. Throws CommError, with the rank at fault
// if it is known. Every wait throws it if the run has failed.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "zero/comm/communicator.h"
#include "zero/plan/served/sync_plan.h"
#include "zero/serve/push_messages.h"
#include "zero/serve/weight_versions.h"
#include "zero/serve/worker_transfers.h"

namespace zero {

class ServerTalk {
 public:
  // `run`: workers and servers; it has arrivals(). `transfers`: those of this server. Both outlive the talk.
  ServerTalk(Communicator& run, const SyncPlan& plan, WorkerTransfers& transfers);

  // On each server: begins. The head can receive reports from here on.
  void listen();
  // On each server: waits until ready() is true. Returns false if nothing arrives for `limit` (0: no limit).
  bool await(const std::function<bool()>& ready, std::chrono::milliseconds limit = {});

  // On the head: sends an order to all other servers, and its mask after a kTakePush. The mask must not change until
  // all servers have the push, or the worker is lost.
  void tell(const ServerOrder& order, std::span<const std::byte> mask = {});
  // On the head: waits until each other server has reported kDone for the newest order that needs an answer. Throws
  // CommError with the server if nothing arrives for `limit`.
  void await_done(std::chrono::milliseconds limit);
  // On the head: returns the state of this worker's newest push on the other servers, as of the newest await(). kWhole:
  // all have their parts. kBroken: a part will never be complete. Otherwise kUnderWay.
  PushState push_elsewhere(int worker) const;

  // On another server: waits for the head's next order, without a limit. Throws CommError if the head leaves.
  ServerOrder next_order();
  // On another server: sends a report to the head.
  void report(const ServerReport& report);

  // On each server: waits until all servers have room for another version of the weights. On the head, throws CommError
  // with a stalled reader if nothing arrives for the run's timeout.
  void make_room(const WeightVersions& versions);
  // On each server: drops the worker's push. It is whole, or broken on some server. If it is neither on this server,
  // waits for that; throws CommError if nothing arrives for the run's timeout.
  void forget_push(int worker);

 private:
  struct Desk {  // reports of another server, on the head
    ServerReport report;
    Work work;
    bool done = false;
  };
  struct Elsewhere {     // state of a worker's newest push, on the head
    int num_whole = 0;   // other servers that have all of it
    int num_broken = 0;  // other servers that will never have all of it
  };

  bool is_head() const { return run_.rank() == 0; }
  void go_on();
  void report_pushes();
  void listen_to(int server);
  bool has_report();
  void hear_reports();
  void hear(int server, const ServerReport& report);

  Communicator& run_;
  SyncPlan plan_;
  WorkerTransfers& transfers_;
  std::vector<Desk> desks_;             // on the head, by server; its own is empty
  std::vector<Elsewhere> elsewhere_;    // on the head, by worker
  std::vector<std::int64_t> reported_;  // on another server, by worker: number of the newest push that it reported
};

}  // namespace zero
