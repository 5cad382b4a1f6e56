// ServerTalk: what the servers of a run say to each other. The head, rank 0, gives orders; the other servers report to it.
//
//   ServerTalk talk(run, plan, transfers);
//   talk.listen();
//
//   talk.tell({.kind = ServerOrder::Kind::kTakeBack, .worker = 1});     // the head gives an order,
//   talk.await_done(run.timeout());                                     // and waits until the others have carried it out
//
//   const ServerOrder order = talk.next_order();                        // another server waits for its next order,
//   talk.report({.kind = ServerReport::Kind::kDone});                   // and reports that it has carried this one out
//
// A server that waits for anything waits in await(). There its transfers with workers go on. There another server reports
// each push, when it has all of its part or the worker is lost: such a report answers no order. And there the head hears
// reports. So a server that waits holds no worker up, and no server.
//
// Local, but for make_room() and forget_push(): these are a talk of all servers, which the head begins, and which another
// server takes part in when next_order() has given it that order. Only the thread that uses `run` may call. Throws CommError,
// with the rank at fault where it is known; every wait does when the run has failed.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "zero/comm/communicator.h"
#include "zero/plan/sync_plan.h"
#include "zero/serve/push_messages.h"
#include "zero/serve/weight_versions.h"
#include "zero/serve/worker_transfers.h"

namespace zero {

class ServerTalk {
 public:
  // `run`: workers and servers; it has arrivals(). `transfers`: of this server. Both outlive it.
  ServerTalk(Communicator& run, const SyncPlan& plan, WorkerTransfers& transfers);

  // On each server. The head hears reports from here on.
  void listen();
  // On each server: until ready(). False after `limit` of which nothing came (0: there is no limit).
  bool await(const std::function<bool()>& ready, std::chrono::milliseconds limit = {});

  // On the head: an order to all other servers, and behind a kTakePush its mask. The mask stays as it is until all servers
  // have the push, or the worker is lost.
  void tell(const ServerOrder& order, std::span<const std::byte> mask = {});
  // On the head: until each other server has reported kDone for the newest order that asks for an answer. CommError after
  // `limit` of which nothing came, with the server.
  void await_done(std::chrono::milliseconds limit);
  // On the head: how far the other servers are with the push of this worker that they were told last to take. kWhole: each
  // has all of its part. kBroken: one of them never will. Else kUnderWay. As of the newest await(), which hears reports.
  PushState push_elsewhere(int worker) const;

  // On another server: waits for the head, however late it is. CommError where the head leaves.
  ServerOrder next_order();
  // On another server: what an order asks for.
  void report(const ServerReport& report);

  // On each server: until all of them have room for another version of the weights. CommError on the head after the run's
  // timeout of which nothing came, with a worker that reads and does not go on.
  void make_room(const WeightVersions& versions);
  // On each server: the push of the worker does not count, and is dropped. It is whole, or broken on some server: then here,
  // too, or CommError after the run's timeout of which nothing came.
  void forget_push(int worker);

 private:
  struct Desk {  // of another server, on the head
    ServerReport report;
    Work work;
    bool done = false;
  };
  struct Elsewhere {    // of a worker, on the head
    int num_whole = 0;  // other servers that have all of its newest push
    int num_broken = 0;
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
  std::vector<Desk> desks_;             // the head's, by server; its own is empty
  std::vector<Elsewhere> elsewhere_;    // the head's, by worker
  std::vector<std::int64_t> reported_;  // another server's, by worker: the number of its newest push that it reported
};

}  // namespace zero
