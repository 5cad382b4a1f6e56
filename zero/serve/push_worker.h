// PushWorker: a worker's side of a run with servers: it pushes the gradients of each step, and takes the weights of the
// next.
//
//   Engine engine(alone, specs, units, worker_options(options), observer);     // of this rank alone, and of no states
//   PushWorker worker(engine, run, options);
//   worker.begin();                                    // the first weights
//   while (!worker.is_over()) { ...passes...; worker.push(lr, loss); }
//   worker.leave();
//
// A server's part of a unit may be several stretches of this worker's range (EngineOptions::shards). It is then put together in
// a block, of which there is one for each server, which is charged as staging and holds one message at a time.
//
// It waits only for the servers, and as long as they live. Collective over the run in the sense that servers serve
// (push_server.h); no other worker takes part. Throws CommError.
#pragma once

#include <limits>
#include <optional>
#include <vector>

#include "zero/engine/engine.h"
#include "zero/memory/buffer.h"
#include "zero/serve/push_layout.h"
#include "zero/serve/push_messages.h"

namespace zero {

// The options of a worker's engine. Throws ConfigError, as server_options(), for what does not go with servers.
EngineOptions worker_options(EngineOptions options);
EngineOptions server_options(EngineOptions options);
// ConfigError for a communicator over which a server cannot wait for whichever worker comes first (a group, or a transport
// of your own), and for more ranks than a RankSet holds.
void require_arrivals(Communicator& run);

class PushWorker {
 public:
  // `run`: workers and servers. All outlive it.
  PushWorker(Engine& engine, Communicator& run, const EngineOptions& options);

  // The clock with which the run ends: after the push of the one before, the worker leaves. Without it, it goes on until
  // leave().
  void set_end(std::int64_t clock) { end_ = clock; }
  // The hash of this rank's configuration, for a replacement, which was not there when the ranks compared theirs.
  void set_configuration(std::uint64_t hash) { configuration_ = hash; }

  // Throws ConfigError where the servers have another configuration than this rank's.
  void begin();
  // After the passes of a step, whose loss (the mean over its micro-batches) the servers average. The report is of the
  // newest update; without staleness that is the step's own.
  StepReport push(double lr, std::optional<double> loss);
  // Between steps. Does nothing where it has left.
  void leave();

  std::int64_t clock() const { return answer_.clock; }      // that the passes to come are of
  std::int64_t version() const { return answer_.version; }  // of the weights that they read
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

  Engine& engine_;
  Communicator& run_;
  EngineOptions options_;
  PushLayout layout_;
  std::vector<Buffer> blocks_;  // by server
  PushAnswer answer_;
  std::int64_t end_ = std::numeric_limits<std::int64_t>::max();
  std::uint64_t configuration_ = 0;
  double waited_ = 0;  // seconds that have been told
  bool has_begun_ = false;
  bool is_over_ = false;
};

}  // namespace zero
