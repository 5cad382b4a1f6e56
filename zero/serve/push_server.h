// PushServer: a server's side of a run with servers. It takes pushes of workers, updates the weights, and answers.
//
//   RankEngine engine(servers, specs, units, server_options(options), observer);  // over all servers, a shard on each
//   PushServer server(engine, run, options);
//   server.begin(0);
//   while (!server.is_over()) { const ServedClock clock = server.serve(server.num_clocks() + 1, rules); ... }
//   server.dismiss();                                    // remaining workers leave
//
// All servers carry out the same actions in the order that their head (rank 0) decides. PushHead finds the next action
// from the events of workers, and ServerTalk sends it to the other servers. An update is a step of the engine, with its
// step sync, norm, clipping, skipping and tiers. No worker is answered and no state changes between two calls of
// serve(), so servers evaluate and save then. A push counts when all servers have all of it. A stalled reader pins one
// version of the weights, and a stalled pusher pins one receive buffer: other workers do not wait (WorkerTransfers).
// Collective over the servers. Only the thread that uses `run` may call. Throws CommError, and the errors of
// RankEngine::step().
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <optional>
#include <utility>
#include <vector>

#include "zero/serve/pulled_weights.h"
#include "zero/serve/push_head.h"
#include "zero/serve/push_layout.h"
#include "zero/serve/push_messages.h"
#include "zero/serve/pushed_gradients.h"
#include "zero/serve/replayed_pushes.h"
#include "zero/serve/served_clock.h"
#include "zero/serve/server_talk.h"
#include "zero/serve/weight_versions.h"
#include "zero/serve/worker_transfers.h"

namespace zero {

class PushServer {
 public:
  // `run`: workers and servers; it has arrivals(). All arguments outlive the server.
  PushServer(RankEngine& engine, Communicator& run, const AttachOptions& options);

  // Sets the hash of this configuration. A replacement with another configuration ends itself with ConfigError.
  void set_configuration(std::uint64_t hash) { configuration_ = hash; }
  // Begins the run: all workers start at `clock`, with the engine's weights. Earlier versions may be restored before,
  // through versions().
  void begin(std::int64_t clock);
  WeightVersions& versions() { return versions_; }
  const WeightVersions& versions() const { return versions_; }

  // Serves until every worker in the run has done all clocks below `clock`. A lost worker is left out if the plan
  // allows it; otherwise the run ends, and the error names the worker. The run also ends in two other cases:
  // - A worker that others wait for does nothing for the run's timeout.
  // - More workers stall while they read than there are places for versions (zero/plan/served/version_places.h). Only
  //   in this case an update waits for readers.
  //
  // A stalled worker that continues pushes like any late worker. A new process can replace a lost worker
  // (zero/comm/replacements.h): it gets the newest weights, and continues as PushOrder::returned() says. If too few
  // workers are left and a lost one may return, the servers wait for it for the run's timeout.
  ServedClock serve(std::int64_t clock, const UpdateRules& rules);
  std::int64_t num_clocks() const { return num_clocks_; }
  bool is_over() const { return is_over_; }
  void dismiss();

  // Callbacks on the head: `event` is called before an event counts, `action` before an action is carried out.
  struct Log {
    std::function<void(const PushEvent&)> event = [](const PushEvent&) {};
    std::function<void(const PushAction&)> action = [](const PushAction&) {};
  };
  void set_log(Log log) { log_ = std::move(log); }
  // Repeats the events of a log in their order, so the run has the same bits. Called on the head, before begin(). A
  // worker that is early waits for its turn. `events` are all events of the run: serve() throws ConfigError if it needs
  // one more, or if a worker pushes another clock.
  void replay(std::deque<PushEvent> events) { replayed_.emplace(std::move(events), num_workers()); }

 private:
  bool is_head() const { return run_.rank() == 0; }
  int num_workers() const { return plan_.num_workers(run_.world()); }
  std::int64_t num_replaced() const { return head_ ? head_->num_replaced() : 0; }
  void lead(std::int64_t clock, const UpdateRules& rules, ServedClock& served);
  void follow(const UpdateRules& rules, ServedClock& served);
  void carry_out_order(const ServerOrder& order, const UpdateRules& rules, ServedClock& served);
  void carry_out(const PushAction& action, const UpdateRules& rules, ServedClock& served);
  void update(const PushAction& action, const UpdateRules& rules, ServedClock& served);
  void count_update(const PushAction& action, ServedClock& served);
  void compensate(const PushAction& action);
  void answer(const PushAction& action);

  RankEngine& engine_;
  Communicator& run_;
  SyncPlan plan_;
  int micro_batches_;
  PushLayout layout_;
  PushedGradients pushed_;
  WeightVersions versions_;
  WorkerTransfers transfers_;
  ServerTalk talk_;
  std::optional<PulledWeights> pulled_;  // set if gradients are compensated
  std::uint64_t configuration_ = 0;
  StepReport last_;                    // report of the newest update
  std::vector<ServedWorker> workers_;  // counts since serve() last returned
  std::int64_t num_clocks_ = 0;
  bool is_over_ = false;
  Log log_;
  std::optional<ReplayedPushes> replayed_;  // for a replay, until begin()
  std::optional<PushHead> head_;            // on the head, from begin() on; it refers to other members
};

}  // namespace zero
