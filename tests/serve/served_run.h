// served_run(): trains a scripted model with workers and servers that are threads, and returns its bits. plain_run()
// trains the same with ranks without servers.
//
//   const TrainedBits served = served_run({.sync = {.servers = 1}}, /*workers=*/2, specs, {.clocks = 4});
//   EXPECT_EQ(served.weights, plain_run({}, 2, specs, {.clocks = 4}).weights);
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <limits>
#include <mutex>
#include <vector>

#include "zero/comm/board/arrivals.h"
#include "zero/comm/group.h"
#include "zero/serve/push_server.h"
#include "zero/serve/push_worker.h"

#include "tests/engine/scripted_model.h"
#include "tests/engine/thread_ranks.h"

namespace zero {

struct TrainedBits {
  std::vector<std::uint32_t> weights;  // of all parameters, without padding
  std::vector<double> losses, norms;   // by clock
  std::vector<PushAction> actions;     // of a served run
  std::deque<PushEvent> events;        // also of a served run
  std::int64_t replaced = 0;           // returned workers
  std::int64_t updates = 0;            // number of updates
  std::int64_t skipped = 0;            // skipped updates
  std::vector<std::int64_t> applied;   // applied gradients, by worker
};

inline double loss_of(int worker, std::int64_t clock) {
  return 1.0 + noise(99, static_cast<std::uint64_t>(worker), static_cast<std::uint64_t>(clock));
}

struct TrainedClocks {
  std::int64_t clocks = 4;
  // Called before a worker's passes. It may delay or end the worker.
  std::function<void(int worker, std::int64_t clock)> before = [](int, std::int64_t) {};
  std::deque<PushEvent> replayed{};  // empty: no replay
  std::uint64_t configuration = 0;   // hash of the configuration
  std::function<double(std::int64_t clock)> lr = [](std::int64_t clock) {
    return 0.01 / static_cast<double>(1 + clock);
  };
  // Replaces an element of a worker's gradient. `loss` replaces its loss.
  std::function<float(int worker, std::int64_t clock, float value)> gradient = [](int, std::int64_t, float value) {
    return value;
  };
  std::function<double(int worker, std::int64_t clock)> loss = loss_of;
};

// Collective.
inline std::vector<std::uint32_t> slice_bits(ScriptedModel& model) {
  std::vector<std::uint32_t> bits;
  for (const Unit& unit : model.units()) {
    model.engine().states().read_full_precision(unit.index, [&](std::span<const float> whole) {
      for (const Slice& slice : unit.slices)
        for (const float value :
             whole.subspan(static_cast<std::size_t>(slice.offset), static_cast<std::size_t>(slice.numel)))
          bits.push_back(std::bit_cast<std::uint32_t>(value));
    });
  }
  return bits;
}

inline void run_passes(ScriptedModel& model, std::int64_t clock, int accumulate) {
  for (int micro = 0; micro < accumulate; ++micro) {
    model.forward(model.all_units());
    model.backward(model.all_units(), static_cast<int>(clock), micro);
  }
}

inline TrainedBits plain_run(const AttachOptions& options, int world, const std::vector<ParamSpec>& specs,
                             const TrainedClocks& run) {
  TrainedBits bits;
  on_ranks(world, [&](Communicator& comm) {
    ScriptedModel model(comm, specs, options);
    for (std::int64_t clock = 0; clock < run.clocks; ++clock) {
      run_passes(model, clock, options.accumulate);
      const StepReport report = model.engine().step(run.lr(clock), {.loss = loss_of(comm.rank(), clock)});
      if (comm.rank() != 0) continue;
      bits.losses.push_back(report.loss);
      bits.norms.push_back(report.grad_norm);
    }
    const auto weights = slice_bits(model);
    if (comm.rank() == 0) bits.weights = weights;
  });
  return bits;
}

// Runs one worker, as thread or process.
inline void work(Communicator& comm, const AttachOptions& options, const std::vector<ParamSpec>& specs,
                 const TrainedClocks& run) {
  const int index = options.sync.worker_of(comm.rank());
  const auto alone = is_replacement(comm) ? open_alone(comm, "worker") : open_group(comm, {comm.rank()}, "worker");
  ScriptedModel model(*alone, specs, worker_options(options));
  model.compute_as(index);
  PushWorker worker(model.engine(), comm, options);
  worker.set_end(run.clocks);
  worker.set_configuration(run.configuration);
  worker.begin();
  while (!worker.is_over()) {
    const std::int64_t clock = worker.clock();
    run.before(index, clock);
    model.edit = [&](int, std::int64_t, float value) { return run.gradient(index, clock, value); };
    run_passes(model, clock, options.accumulate);
    worker.push(run.lr(clock), run.loss(index, clock));
  }
}

// Runs one server. The head fills `bits`.
inline void serve(Communicator& comm, const AttachOptions& options, const std::vector<ParamSpec>& specs,
                  const TrainedClocks& run, TrainedBits& bits) {
  std::vector<int> ranks;
  for (int rank = 0; rank < options.sync.servers; ++rank) ranks.push_back(rank);
  const auto servers = open_group(comm, ranks, "servers");
  ScriptedModel model(*servers, specs, server_options(options));
  PushServer server(model.engine(), comm, options);
  if (comm.rank() == 0) {
    server.set_log({.event = [&](const PushEvent& event) { bits.events.push_back(event); },
                    .action = [&](const PushAction& action) { bits.actions.push_back(action); }});
    if (!run.replayed.empty()) server.replay(run.replayed);
  }
  server.set_configuration(run.configuration);
  server.begin(0);
  for (std::int64_t clock = 0; clock < run.clocks && !server.is_over(); ++clock) {
    const ServedClock served = server.serve(clock + 1, {.lr = run.lr});
    if (comm.rank() != 0) continue;
    bits.losses.push_back(served.loss);
    bits.norms.push_back(served.report.grad_norm);
    bits.replaced += served.replaced;
    bits.updates += served.updates;
    bits.skipped += served.skipped;
    bits.applied.resize(served.workers.size());
    for (std::size_t worker = 0; worker < served.workers.size(); ++worker)
      bits.applied[worker] += served.workers[worker].applied;
  }
  server.dismiss();
  const auto weights = slice_bits(model);
  if (comm.rank() == 0) bits.weights = weights;
}

inline TrainedBits served_run(const AttachOptions& options, int workers, const std::vector<ParamSpec>& specs,
                              const TrainedClocks& run) {
  TrainedBits bits;
  on_ranks(options.sync.servers + workers, [&](Communicator& comm) {
    options.sync.is_server(comm.rank()) ? serve(comm, options, specs, run, bits) : work(comm, options, specs, run);
  });
  return bits;
}

}  // namespace zero
