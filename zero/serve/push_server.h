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
// Servers wait for no single worker: what is under way between them and one goes on beside all else (WorkerTransfers). A
// push counts when all servers have all of it. A worker that stops while it reads weights holds the memory of their version,
// one that stops within a push the room for it, and that is all. When it goes on, its push counts as any that comes late.
//
// A worker that is lost is left out where the plan allows that; else the run ends, with its name. So it does where a
// worker that others wait for has done nothing for the run's timeout, and where more workers stop while they read than there
// are places for versions (zero/plan/version_places.h): that is the one case in which an update waits for readers. A new process may take a lost worker's place
// (zero/comm/replacements.h): it gets the newest weights, and goes on as PushOrder::returned() says. Where too few workers
// are left and one may still come back, the servers wait for it for the run's timeout. Collective over the servers. Throws CommError, and
// what Engine::step() does.
#pragma once

#include <deque>
#include <functional>
#include <limits>
#include <optional>
#include <vector>

#include "zero/serve/pulled_weights.h"
#include "zero/serve/push_layout.h"
#include "zero/serve/push_messages.h"
#include "zero/serve/pushed_gradients.h"
#include "zero/serve/weight_versions.h"
#include "zero/serve/worker_transfers.h"

namespace zero {

// What an update is made with, by the clock of its gradients and their mean loss. Functions of these alone, the same on all
// servers. Without `lr` the learning rate is that of the push, of several the first worker's.
struct UpdateRules {
  std::function<double(std::int64_t clock)> lr{};
  std::function<StepLimits(double loss)> limits = [](double loss) { return StepLimits{.loss = loss}; };
};

// What a worker has done in one call, as the head knows it.
struct ServedWorker {
  std::int64_t pushes = 0;  // that came
  std::int64_t pushed_bytes = 0;
  double waited_seconds = 0;     // that it says to have waited for answers, before these pushes
  std::int64_t applied = 0;      // gradients
  std::int64_t dropped = 0;      // that came too late
  std::int64_t sum_of_ages = 0;  // of those that were applied
  std::int64_t most_age = 0;
};

// What was served in one call. An update is skipped where a gradient or a loss of it is not finite, or beyond a limit: then
// no state changes, and its gradients are not applied. The weights count a version for it all the same.
struct ServedClock {
  StepReport report;                                       // of the last update; of one that was skipped, where one was
  double loss = std::numeric_limits<double>::quiet_NaN();  // mean over updates, those that were skipped too
  std::int64_t updates = 0;
  std::int64_t skipped = 0;
  std::int64_t dropped = 0;  // gradients that came too late
  double mean_age = 0;       // over updates
  std::int64_t most_age = 0;
  std::vector<ServedWorker> workers{};
  std::int64_t replaced = 0;  // workers that came back in a new process; on the head

  std::int64_t num_judged() const { return updates + skipped; }
};

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
  void replay(std::deque<PushEvent> events) { turns_ = std::move(events); }

 private:
  struct Inbox {  // of one worker, on the head
    std::vector<std::byte> message;
    Work work;
    PushHeader header() const;
  };

  // A push that the head has asked for and that does not count yet.
  struct Granted {
    bool under_way = false;
    PushHeader header;
    int num_whole = 0;  // of the other servers, those that have all of it
    int num_broken = 0;
  };
  struct Desk {  // of another server, on the head
    ServerReport report;
    Work work;
    bool done = false;
  };
  // Of a worker, on the head.
  enum class News : std::uint8_t { kNone, kHeader, kWhole, kBroken, kLost };

  bool is_head() const { return run_.rank() == 0; }
  int num_workers() const { return plan_.num_workers(run_.world()); }
  void lead(std::int64_t clock, const UpdateRules& rules, ServedClock& served);
  void follow(const UpdateRules& rules, ServedClock& served);
  void carry_out_order(const ServerOrder& order, const UpdateRules& rules, ServedClock& served);
  void tell(const ServerOrder& order, std::span<const std::byte> more = {});

  // Until ready(), while all that is under way goes on; false after `limit`, of which nothing came (0: there is none).
  bool await(const std::function<bool()>& ready, std::chrono::milliseconds limit = {});
  void go_on();
  void report_pushes();
  void report(const ServerReport& report);
  void listen_to_server(int server);
  bool has_report();
  void hear_reports();
  void hear(int server, const ServerReport& report);
  void await_done(std::chrono::milliseconds limit);
  void make_room();

  void await_event();
  News news_of(int worker);
  int worker_with_news();
  void take(int worker, News news);
  bool stands_still() const;
  bool is_within(int worker) const;
  [[noreturn]] void name_late();
  void await_turn();
  void replay_push(int worker);
  void replay_leave(const PushEvent& turn);
  void replay_return(const PushEvent& turn);
  int returning() const;
  bool may_return() const;
  bool awaits_return() const;
  void take_back(int worker);
  void start_anew(int worker);
  void leave(int worker);
  void listen(int worker);
  void grant(int worker);
  void count_push(int worker);
  void forget_push(int worker);
  void settle_push(int worker);
  void lose(int worker);
  bool may_dismiss(int worker);
  void dismiss(int worker);
  void require_enough() const;
  void carry_out(const PushAction& action, const UpdateRules& rules, ServedClock& served);
  void update(const PushAction& action, const UpdateRules& rules, ServedClock& served);
  void count_update(const PushAction& action, ServedClock& served);
  void compensate(const PushAction& action);
  void answer(const PushAction& action);
  void send_answer(int worker, const PushAnswer& answer);

  Engine& engine_;
  Communicator& run_;
  SyncPlan plan_;
  int micro_batches_;
  PushLayout layout_;
  PushedGradients pushed_;
  WeightVersions versions_;
  WorkerTransfers transfers_;
  std::optional<PulledWeights> pulled_;  // where gradients are compensated
  std::optional<PushOrder> order_;       // the head's
  std::vector<Inbox> inboxes_;           // the head's, by worker
  std::vector<Granted> granted_;         // the head's, by worker
  std::vector<Desk> desks_;              // the head's, by server; its own is empty
  std::vector<std::int64_t> reported_;   // another server's, by worker: the number of its newest push that it reported
  std::vector<std::int64_t> sent_version_;  // by worker; -1: none yet
  std::vector<bool> has_ended_;             // by worker: it left in good order
  std::int64_t num_replaced_ = 0;
  bool gave_up_ = false;  // replacements are not waited for any more
  std::uint64_t configuration_ = 0;
  StepReport last_;                    // of the newest update
  std::vector<ServedWorker> workers_;  // since the last call of serve() returned
  std::int64_t num_clocks_ = 0;
  bool is_over_ = false;
  Log log_;
  std::optional<std::deque<PushEvent>> turns_;  // of a replayed run, those that are still to come
  int first_asked_ = 0;                         // worker, so that none is always asked last
};

}  // namespace zero
