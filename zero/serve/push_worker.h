// PushWorker: a worker's side of a run with servers. It pushes the gradients of each step, and receives the next
// weights.
//
//   RankEngine engine(self, specs, units, worker_options(options), observer);     // of this rank only, without states
//   PushWorker worker(engine, run, options);
//   worker.begin();                                    // receives the first weights
//   while (!worker.is_over()) { ...passes...; worker.push(lr, loss); }
//   worker.leave();
//
// A server's part of a unit may be several stretches of this worker's range (AttachOptions::shards). A block joins
// these stretches. Each server has one block, which holds one message at a time and is charged as staging.
//
// A worker waits only for servers, and as long as they live. Collective over this worker and the servers, which serve
// (push_server.h). Throws CommError.
#pragma once

#include <limits>
#include <optional>
#include <vector>

#include "zero/engine/rank_engine.h"
#include "zero/memory/account/buffer.h"
#include "zero/serve/push_layout.h"
#include "zero/serve/push_messages.h"

namespace zero {

// Returns the options of a worker's engine; server_options() those of a server's. Both throw ConfigError for options
// that do not work with servers.
AttachOptions worker_options(AttachOptions options);
AttachOptions server_options(AttachOptions options);
// Throws ConfigError if `run` is a group or uses a transport of your own: a server cannot wait there for any of its
// workers. Also throws it if `run` has more ranks than a RankSet holds.
void require_arrivals(Communicator& run);

class PushWorker {
 public:
  // `run`: workers and servers. All arguments outlive the worker.
  PushWorker(RankEngine& engine, Communicator& run, const AttachOptions& options);

  // Sets the clock with which the run ends. The worker leaves after its push of the previous clock. By default, the run
  // continues until leave().
  void set_end(std::int64_t clock) { end_ = clock; }
  // Sets the hash of this rank's configuration. A replacement needs it, because it missed the comparison among ranks.
  void set_configuration(std::uint64_t hash) { configuration_ = hash; }

  // Receives the first weights. Throws ConfigError if the servers have another configuration than this rank.
  void begin();
  // Pushes the gradients after the passes of a step. Servers average `loss`, which is the mean over the micro-batches.
  // Returns the report of the newest update; without staleness it is the report of this step.
  StepReport push(double lr, std::optional<double> loss);
  // Leaves the run between steps. Does nothing if the worker has left.
  void leave();

  std::int64_t clock() const { return answer_.clock; }      // clock of the next passes
  std::int64_t version() const { return answer_.version; }  // version of the weights that they read
  bool has_begun() const { return has_begun_; }
  bool is_over() const { return is_over_; }

 private:
  void tell(const PushHeader& header);
  PushAnswer::Kind await_answer();
  void require_same_configuration() const;
  void push_gradients();
  void drop_gradients();
  void send_part(const Unit& unit, int server, const std::byte* gradient);
  std::span<const std::byte> put_together(const Unit& unit, int server, const std::byte* gradient);
  void take_weights();
  void take_shard_weights();
  void take_part(const Unit& unit, int server);

  RankEngine& engine_;
  Communicator& run_;
  AttachOptions options_;
  PushLayout layout_;
  std::vector<Buffer> blocks_;  // by server
  PushAnswer answer_;
  std::int64_t end_ = std::numeric_limits<std::int64_t>::max();
  std::uint64_t configuration_ = 0;
  double waited_ = 0;  // seconds of waiting that headers have reported
  bool has_begun_ = false;
  bool is_over_ = false;
};

}  // namespace zero
