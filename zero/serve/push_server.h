// PushServer: a server's side of a run with servers: all servers take the pushes of workers, update, and answer, in one
// order, which their head (rank 0) names.
//
//   Engine engine(servers, specs, units, server_options(options), observer);     // of the servers, each with its part
//   PushServer server(engine, run, options);
//   server.begin(0);
//   while (!server.is_over()) { const ServedClock clock = server.serve(server.num_clocks() + 1, rules); ... }
//   server.dismiss();                                    // workers that are still there leave
//
// Between two calls of serve() no worker is answered, and nothing changes: that is when servers evaluate and save. An
// update is a step of the engine: step sync, norm, clipping, skipping and tiers are as ever.
//
// Here is what each server does with an action: update, drop, answer. The head alone has a PushHead, which finds the next
// action as events of workers come; the others hear of it by ServerTalk.
//
// Servers wait for no single worker: what is under way between them and one goes on beside all else (WorkerTransfers). A
// push counts when all servers have all of it. A worker that stops while it reads weights holds the memory of their version,
// one that stops within a push the room for it, and that is all. When it goes on, its push counts as any that comes late.
//
// A worker that is lost is left out where the plan allows that; else the run ends, with its name. So it does where a
// worker that others wait for has done nothing for the run's timeout, and where more workers stop while they read than there
// are places for versions (zero/plan/version_places.h): that is the one case in which an update waits for readers. A new
// process may take a lost worker's place (zero/comm/replacements.h): it gets the newest weights, and goes on as
// PushOrder::returned() says. Where too few workers are left and one may still come back, the servers wait for it for the
// run's timeout. Collective over the servers. Only the thread that uses `run` may call. Throws CommError, and what
// Engine::step() does.
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
  // `run`: workers and servers; it has arrivals(). All outlive it.
  PushServer(Engine& engine, Communicator& run, const EngineOptions& options);

  // A replacement with another is refused, by itself.
  void set_configuration(std::uint64_t hash) { configuration_ = hash; }
  // Workers begin with `clock`, and with the weights that the engine holds. Versions of before may be given first.
  void begin(std::int64_t clock);
  WeightVersions& versions() { return versions_; }

  // Until every worker that is there has done all clocks below `clock`.
  ServedClock serve(std::int64_t clock, const UpdateRules& rules);
  std::int64_t num_clocks() const { return num_clocks_; }
  bool is_over() const { return is_over_; }
  void dismiss();

  // Called on the head: with each event before it counts, with each action before it is carried out.
  struct Log {
    std::function<void(const PushEvent&)> event = [](const PushEvent&) {};
    std::function<void(const PushAction&)> action = [](const PushAction&) {};
  };
  void set_log(Log log) { log_ = std::move(log); }
  // On the head, before begin(): events come in this order, as a log has them, and so the run has the same bits. Whoever
  // comes early is held until its turn. These are all events of the run: serve() throws ConfigError where it needs one more,
  // and where a worker comes with another clock.
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

  Engine& engine_;
  Communicator& run_;
  SyncPlan plan_;
  int micro_batches_;
  PushLayout layout_;
  PushedGradients pushed_;
  WeightVersions versions_;
  WorkerTransfers transfers_;
  ServerTalk talk_;
  std::optional<PulledWeights> pulled_;  // where gradients are compensated
  std::uint64_t configuration_ = 0;
  StepReport last_;                    // of the newest update
  std::vector<ServedWorker> workers_;  // since the last call of serve() returned
  std::int64_t num_clocks_ = 0;
  bool is_over_ = false;
  Log log_;
  std::optional<ReplayedPushes> replayed_;  // until begin()
  std::optional<PushHead> head_;            // the head's, from begin() on; it uses the others
};

}  // namespace zero
